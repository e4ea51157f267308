"""All that theories offer at the top of the package: `dlhmc.theories.EXPORTS` for those who want it at once."""

from dlhmc.theories.cpn.model import CPN
from dlhmc.theories.gauge.field import U1, GaugeField, Mixed, improved, wilson
from dlhmc.theories.gauge.heatbath import HeatBath
from dlhmc.theories.schwinger.reweighting import reweighted
from dlhmc.theories.schwinger.schwinger import Schwinger
from dlhmc.theories.u1.hits import InstantonHits
from dlhmc.theories.vectors.density import LogDensity
from dlhmc.theories.vectors.toys import (
    Funnel,
    Gaussian,
    GaussianMixture,
    RoughWell,
    correlated_gaussian,
    gaussian_from_covariance,
    ill_conditioned_gaussian,
)

__all__ = [
    "CPN",
    "U1",
    "Funnel",
    "GaugeField",
    "Gaussian",
    "GaussianMixture",
    "HeatBath",
    "InstantonHits",
    "LogDensity",
    "Mixed",
    "RoughWell",
    "Schwinger",
    "correlated_gaussian",
    "gaussian_from_covariance",
    "ill_conditioned_gaussian",
    "improved",
    "reweighted",
    "wilson",
]

"""Deep Learning Hamiltonian Monte Carlo for lattice gauge theory.

Names are imported when they are first used, so that `import dlhmc` takes no time.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dlhmc import kernels, layers, networks, statistics, targets, testing, training
    from dlhmc.api.building import build_trajectory
    from dlhmc.api.comparing import Comparison, compare
    from dlhmc.api.loading import load, load_kernel
    from dlhmc.api.sampling import sample
    from dlhmc.api.training import Trained, train
    from dlhmc.errors import UserError
    from dlhmc.interoperability import to_arviz, to_blackjax, to_pyerrors
    from dlhmc.kernels import DLHMC, HMC, Exact, Info, InstantonHits, Kernel, State
    from dlhmc.layers import (
        Affine,
        Circle,
        Defect,
        Layer,
        LayerStack,
        LeapfrogLayer,
        Phase,
        PositionRule,
        Shift,
        Trajectory,
    )
    from dlhmc.measuring import measure
    from dlhmc.networks import SQT, Dense, Linear, Network, Zeta
    from dlhmc.samples import Measurements, Samples
    from dlhmc.targets import (
        U1,
        Funnel,
        Gaussian,
        GaussianMixture,
        LogDensity,
        Moment,
        RoughWell,
        Symmetry,
        Target,
        correlated_gaussian,
        ill_conditioned_gaussian,
    )
    from dlhmc.training import Knots, Schedule, Transition, charge_loss, jump_loss

__version__ = "0.1.0"

#: where each name is
_HOME = {
    "dlhmc.api.building": ("build_trajectory",),
    "dlhmc.api.comparing": ("Comparison", "compare"),
    "dlhmc.api.loading": ("load", "load_kernel"),
    "dlhmc.api.sampling": ("sample",),
    "dlhmc.api.training": ("Trained", "train"),
    "dlhmc.errors": ("UserError",),
    "dlhmc.interoperability": ("to_arviz", "to_blackjax", "to_pyerrors"),
    "dlhmc.kernels": ("DLHMC", "HMC", "Exact", "Info", "InstantonHits", "Kernel", "State"),
    "dlhmc.layers": (
        "Affine",
        "Circle",
        "Defect",
        "Layer",
        "LayerStack",
        "LeapfrogLayer",
        "Phase",
        "PositionRule",
        "Shift",
        "Trajectory",
    ),
    "dlhmc.measuring": ("measure",),
    "dlhmc.networks": ("SQT", "Dense", "Linear", "Network", "Zeta"),
    "dlhmc.samples": ("Measurements", "Samples"),
    "dlhmc.targets": (
        "U1",
        "Funnel",
        "Gaussian",
        "GaussianMixture",
        "LogDensity",
        "Moment",
        "RoughWell",
        "Symmetry",
        "Target",
        "correlated_gaussian",
        "ill_conditioned_gaussian",
    ),
    "dlhmc.training": ("Knots", "Schedule", "Transition", "charge_loss", "jump_loss"),
}
_MODULES = ("kernels", "layers", "networks", "statistics", "targets", "testing", "training")
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "DLHMC",
    "HMC",
    "SQT",
    "U1",
    "Affine",
    "Circle",
    "Comparison",
    "Defect",
    "Dense",
    "Exact",
    "Funnel",
    "Gaussian",
    "GaussianMixture",
    "Info",
    "InstantonHits",
    "Kernel",
    "Knots",
    "Layer",
    "LayerStack",
    "LeapfrogLayer",
    "Linear",
    "LogDensity",
    "Measurements",
    "Moment",
    "Network",
    "Phase",
    "PositionRule",
    "RoughWell",
    "Samples",
    "Schedule",
    "Shift",
    "State",
    "Symmetry",
    "Target",
    "Trained",
    "Trajectory",
    "Transition",
    "UserError",
    "Zeta",
    "__version__",
    "build_trajectory",
    "charge_loss",
    "compare",
    "correlated_gaussian",
    "ill_conditioned_gaussian",
    "jump_loss",
    "kernels",
    "layers",
    "load",
    "load_kernel",
    "measure",
    "networks",
    "sample",
    "statistics",
    "targets",
    "testing",
    "to_arviz",
    "to_blackjax",
    "to_pyerrors",
    "train",
    "training",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name in _MODULES:
        return importlib.import_module(f"dlhmc.{name}")
    if name in _MODULE_OF:
        return getattr(importlib.import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'dlhmc' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__

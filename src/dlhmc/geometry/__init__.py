"""Geometry: spaces in which configurations live, apart from any action on them."""

from dlhmc.geometry.contract import Field, Geometry, Momentum, PerChain, all_finite, real_dtype, sum_sites
from dlhmc.geometry.flat import FlatSpace
from dlhmc.geometry.spheres import Spheres
from dlhmc.geometry.torus import Torus, wrap_angle
from dlhmc.geometry.unitary import UnitaryMatrices

__all__ = [
    "Field",
    "FlatSpace",
    "Geometry",
    "Momentum",
    "PerChain",
    "Spheres",
    "Torus",
    "UnitaryMatrices",
    "all_finite",
    "real_dtype",
    "sum_sites",
    "wrap_angle",
]

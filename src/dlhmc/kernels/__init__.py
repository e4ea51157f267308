"""Kernels: how a target is sampled. Each leaves its target exactly invariant."""

from dlhmc.kernels.alternating import Alternating
from dlhmc.kernels.contract import Info, Kernel, RoundTrip, State
from dlhmc.kernels.dlhmc import DLHMC
from dlhmc.kernels.exact import Exact
from dlhmc.kernels.hmc import HMC

__all__ = ["DLHMC", "HMC", "Alternating", "Exact", "Info", "Kernel", "RoundTrip", "State"]

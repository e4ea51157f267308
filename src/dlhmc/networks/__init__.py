"""Networks: functions of ζ that give the (s, q, t) of a leapfrog layer."""

from dlhmc.networks.contract import SQT, Network, Zeta
from dlhmc.networks.dense import Dense
from dlhmc.networks.patch import Patch

__all__ = ["SQT", "Dense", "Network", "Patch", "Zeta"]

"""Networks: functions of ζ that give the (s, q, t) of a leapfrog layer, and patches that correct a defect."""

from dlhmc.networks.contract import SQT, Network, NetworkFactory, Zeta
from dlhmc.networks.dense import Dense, Linear
from dlhmc.networks.patch import Patch

__all__ = ["SQT", "Dense", "Linear", "Network", "NetworkFactory", "Patch", "Zeta"]

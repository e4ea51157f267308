"""Networks: functions of ζ that give the (s, q, t) of a leapfrog layer."""

from dlhmc.networks.contract import SQT, Network, NetworkFactory, Zeta
from dlhmc.networks.dense import Dense, Linear

__all__ = ["SQT", "Dense", "Linear", "Network", "NetworkFactory", "Zeta"]

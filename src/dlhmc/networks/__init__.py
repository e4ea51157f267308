"""Networks: functions of ζ that give the (s, q, t) of a leapfrog layer, and those that local layers are made of."""

from dlhmc.networks.contract import SQT, Network, NetworkFactory, Zeta
from dlhmc.networks.dense import Dense
from dlhmc.networks.linear import Linear
from dlhmc.networks.mlp import MLP

__all__ = ["MLP", "SQT", "Dense", "Linear", "Network", "NetworkFactory", "Zeta"]

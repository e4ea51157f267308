"""Tests of exactness for any kernel on any target with exact draws, and checks of objects of one's own."""

from dlhmc.testing.checks import Checked, ConformanceError
from dlhmc.testing.kernel import check_kernel
from dlhmc.testing.network import check_network
from dlhmc.testing.ranks import Ranks, check_ranks, holm
from dlhmc.testing.stationarity import Stationarity, check_stationarity
from dlhmc.testing.target import check_observable, check_target
from dlhmc.testing.training import check_loss, check_schedule
from dlhmc.testing.trajectory import check_rule, check_trajectory

__all__ = [
    "Checked",
    "ConformanceError",
    "Ranks",
    "Stationarity",
    "check_kernel",
    "check_loss",
    "check_network",
    "check_observable",
    "check_ranks",
    "check_rule",
    "check_schedule",
    "check_stationarity",
    "check_target",
    "check_trajectory",
    "holm",
]

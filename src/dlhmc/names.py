"""The names a user chooses from. Free of heavy imports, so that the command line starts at once."""

from typing import Literal

Start = Literal["hot", "cold", "exact"]
Scheme = Literal["leapfrog", "omelyan"]
KernelName = Literal["hmc", "exact", "dlhmc"]
MaskName = Literal["random", "checkerboard"]
RuleName = Literal["circle", "affine", "shift"]
NetworkName = Literal["defect", "patch", "dense"]
LossName = Literal["charge", "jump"]
RateSchedule = Literal["cosine", "constant"]

"""The names a user chooses from. Free of heavy imports, so that the command line starts at once."""

from typing import Literal

TargetName = Literal["u1", "mixture", "ill-conditioned-gaussian", "correlated-gaussian", "rough-well", "funnel"]
Start = Literal["hot", "cold", "exact"]
Scheme = Literal["leapfrog", "omelyan"]
KernelName = Literal["hmc", "exact", "dlhmc"]
MaskName = Literal["random", "checkerboard"]
RuleName = Literal["circle", "affine", "shift"]
NetworkName = Literal["defect", "patch", "dense"]
LossName = Literal["charge", "jump"]
RateSchedule = Literal["cosine", "constant"]

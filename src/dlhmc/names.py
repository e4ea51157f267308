"""Names that a user chooses from, whatever the theory. Free of heavy imports: the command line starts at once."""

from typing import Literal

Start = Literal["hot", "cold", "exact"]
Scheme = Literal["leapfrog", "omelyan"]
MaskName = Literal["random", "checkerboard"]
RuleName = Literal["affine", "circle", "shift"]
RateSchedule = Literal["cosine", "constant"]

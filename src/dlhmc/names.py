"""Names that a user chooses from, whatever the theory. Free of heavy imports: the command line starts at once."""

from typing import Literal, get_args

Start = Literal["hot", "cold", "exact", "near"]
STARTS: tuple[str, ...] = get_args(Start)
Scheme = Literal["leapfrog", "omelyan", "omelyan4"]
MaskName = Literal["random", "checkerboard"]
RuleName = Literal["affine", "circle", "shift"]
RateSchedule = Literal["cosine", "constant"]

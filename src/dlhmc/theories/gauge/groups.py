"""The gauge groups by name: u1, u2, su2, su3, …, and their actions. Free of heavy imports."""

import re
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

Side = Annotated[int, Meta(ge=2, le=10**4)]
Sides = Annotated[tuple[Side, ...], Meta(min_length=2, max_length=4)]
Beta = Annotated[float, Meta(gt=0, le=10_000)]
#: by name, or c₁ of rectangles, with which cold configurations are stable
GaugeAction = Literal["wilson", "symanzik", "iwasaki", "dbw2"] | Annotated[float, Meta(ge=-100, lt=0.2)]

# Determinants and characters are written out in full: beyond this they would take more memory than sense.
MOST_COLORS = 6


class Group(NamedTuple):
    """U(N) or SU(N).

    >>> Group.named("su3"), str(Group(2, special=False))
    (Group(colors=3, special=True), 'U(2)')
    """

    colors: int
    special: bool

    @classmethod
    def named(cls, name: str) -> "Group":
        """U(N) is called uN and SU(N) suN."""
        found = re.fullmatch(r"(s?)u([1-9])", name)
        group = None if found is None else cls(int(found[2]), bool(found[1]))
        if group is None or group.colors > MOST_COLORS or group == (1, True):
            raise ValueError(f"the group {name!r} is not known: use u1 … u{MOST_COLORS} or su2 … su{MOST_COLORS}")
        return group

    def __str__(self) -> str:
        return f"{'S' if self.special else ''}U({self.colors})"

    @property
    def name(self) -> str:
        """As `named` takes it."""
        return f"{'s' if self.special else ''}u{self.colors}"


#: whose traces are real, so that charge conjugation is a gauge transformation
SU2 = Group(2, special=True)

#: c₁ of rectangles, by the name of the action: that of Wilson has none
RECTANGLES = {"wilson": 0.0, "symanzik": -1 / 12, "iwasaki": -0.331, "dbw2": -1.40686}

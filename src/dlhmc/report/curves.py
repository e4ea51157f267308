"""Curves from elsewhere, for reference beside those of a comparison: `dlhmc report --curves curves.toml`."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dlhmc.settings import converted, read_table


class Curve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """N_LF·τ_int against a setting of the target; all of it as in the file."""

    name: str
    #: the setting that x is
    against: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    #: what else the target must be
    target: dict[str, Any] = {}
    dashed: bool = False

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or not all(map(math.isfinite, (*self.x, *self.y))):
            raise ValueError(f"the curve '{self.name}' must have as many numbers x as y, all of them finite")

    def holds_for(self, target: Mapping[str, Any], axis: str | None) -> bool:
        """Whether it belongs into a figure against the axis."""
        return self.against == axis and self.target.items() <= target.items()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    curve: list[Curve]


def read_curves(path: Path) -> list[Curve]:
    """The curves of a TOML file: an array of tables, `[[curve]]`."""
    return converted(read_table(path), _File, f"The file {path}").curve

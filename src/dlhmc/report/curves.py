"""Curves from elsewhere, for reference beside those of a comparison: `dlhmc report --curves curves.toml`."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlhmc.errors import UserError
from dlhmc.settings import converted, read_table, require_known


@dataclasses.dataclass(frozen=True)
class Curve:
    """N_LF·τ_int against a setting of the target; all of it as in the file."""

    name: str
    #: the setting that x is
    against: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    #: what else the target must be
    target: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    dashed: bool = False

    def holds_for(self, target: Mapping[str, Any], axis: str | None) -> bool:
        """Whether it belongs into a chart against the axis."""
        return self.against == axis and all(target.get(name) == value for name, value in self.target.items())


def read_curves(path: Path) -> list[Curve]:
    """The curves of a TOML file: an array of tables, `[[curve]]`."""
    table = read_table(path)
    require_known(table, ["curve"], str(path))
    tables = table.get("curve", [])
    curves = converted(tables, list[Curve], f"The file {path}")
    for curve, written in zip(curves, tables, strict=True):
        require_known(written, Curve.__annotations__, str(path))
        if len(curve.x) != len(curve.y) or not all(map(math.isfinite, (*curve.x, *curve.y))):
            raise UserError(f"The curve '{curve.name}' of {path} must have as many numbers x as y, all of them finite.")
    return curves

"""CP^{N−1} models: options that build a target. Free of heavy imports."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Meta

from dlhmc.theories.contract import TargetSettings, Theory

if TYPE_CHECKING:
    from dlhmc.targets import Target

Colors = Annotated[int, Meta(ge=2, le=1000)]
_Side = Annotated[int, Meta(ge=2, le=10_000)]
Sides = tuple[_Side, _Side]
Beta = Annotated[float, Meta(gt=0, le=10_000)]


@dataclasses.dataclass(frozen=True)
class CpnSettings(TargetSettings):
    """Colors, lattice and coupling."""

    theory: ClassVar[str] = "cpn"
    told_by_shape: ClassVar[tuple[str, ...]] = ("colors", "lattice")

    colors: Colors = 10
    """N, complex components of a vector"""
    lattice: Sides = (32, 32)
    """sides of the periodic lattice"""
    beta: Beta = 0.8
    """inverse coupling"""

    def build(self) -> "Target":
        """The target."""
        from dlhmc.theories.cpn.model import CPN

        return CPN(self.colors, self.lattice, self.beta)

    @property
    def label(self) -> str:
        """cp9-32x32-b0.8."""
        return f"cp{self.colors - 1}-{'x'.join(map(str, self.lattice))}-b{self.beta:g}"

    @classmethod
    def of_shape(cls, shape: tuple[int, ...], settings: Mapping[str, Any]) -> Self | None:
        """Vectors are [configuration, x, t, part, color], with or without an axis of chains before."""
        if len(shape) not in (5, 6) or shape[-2] != 2 or min(shape[-4:]) < 2:
            return None
        first, second, _, colors = map(int, shape[-4:])
        return cls(**{"colors": colors, "lattice": (first, second), **settings})


SYMBOLS: Mapping[str, str] = {
    "beta": "β",
    "energy": "⟨E⟩",
    "charge": "Q",
    "charge_squared": "⟨Q^{2}⟩",
    "susceptibility": "⟨Q^{2}⟩/V",
}
CPN = Theory(CpnSettings, "CP^{N−1} model", symbols=SYMBOLS)

"""CP^{N−1} as the rest of the package sees it. Free of heavy imports."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

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


class CpnTheory(Theory):
    """Vectors of unit length up to a phase."""

    name: ClassVar[str] = "cpn"
    title: ClassVar[str] = "CP^{N−1} model"
    settings: ClassVar[type[TargetSettings]] = CpnSettings
    symbols: ClassVar[Mapping[str, str]] = {
        "beta": "β",
        "energy": "⟨E⟩",
        "charge": "Q",
        "charge_squared": "⟨Q^{2}⟩",
        "susceptibility": "⟨Q^{2}⟩/V",
    }

    def describe(self, target: "Target") -> TargetSettings | None:
        """All there is."""
        from dlhmc.actions.cpn import Bonds
        from dlhmc.geometry import Spheres

        if [type(action) for action in target.actions] != [Bonds] or float(target.gamma) != 1:
            return None
        assert isinstance(target.geometry, Spheres)  # noqa: S101 for the type checker
        beta = float(str(target.actions[0].beta))  # type: ignore[attr-defined]  # the shortest decimal
        return CpnSettings(target.geometry.vector[1], target.geometry.sides, beta)  # type: ignore[arg-type]

    def from_shape(self, shape: tuple[int, ...], settings: Mapping[str, Any]) -> TargetSettings | None:
        """Vectors are [configuration, x, t, part, color], with or without an axis of chains before."""
        if len(shape) not in (5, 6) or shape[-2] != 2 or min(shape[-4:]) < 2:
            return None
        first, second, _, colors = map(int, shape[-4:])
        return CpnSettings(**{"colors": colors, "lattice": (first, second), **settings})

    def examples(self) -> "Mapping[str, Callable[[], Target]]":
        """A small lattice."""
        from dlhmc.theories.cpn.model import CPN

        return {"cpn": lambda: CPN(3, (4, 3), beta=0.7)}

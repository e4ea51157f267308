"""What an action is: terms that add up to it, and its force.

Couplings are array leaves, so changing them never recompiles.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Key, Num
from numpy.typing import NDArray

from dlhmc.geometry.contract import Field, Geometry, Momentum, sum_sites

#: they add up to the action, and are kept apart so that differences can be summed term by term
Terms = Float[Array, "*sites chain"]
#: what a computation tells about itself by name, such as the iterations of a solver: added up over a trajectory
Effort = dict[str, Num[Array, " chain"]]
Numbers = Float[Array, "number *cell chain"]


class Counted(NamedTuple):
    """A result with the work that it took: what terms, forces and auxiliary fields of solvers return."""

    value: Any
    effort: Effort


def counted(result: Any) -> Counted:
    """With its work, which is none where nothing is said of it."""
    return result if isinstance(result, Counted) else Counted(result, {})


def add_efforts(*efforts: Effort) -> Effort:
    """All together, whichever names each has."""
    total: Effort = {}
    for effort in efforts:
        total |= {name: total[name] + value if name in total else value for name, value in effort.items()}
    return total


class Action(eqx.Module):
    """A part of S: `terms`, and `force` where it can be faster than autodiff."""

    #: whether it has fields of its own, which `refresh` draws with every momentum
    auxiliary: ClassVar[bool] = False

    @abstractmethod
    def terms(self, x: Field) -> Terms | Counted:
        """Terms that add up to the action."""

    def force(self, geometry: Geometry, x: Field) -> Momentum | Counted:
        """Its derivative along the tangent vectors of the geometry."""
        return geometry.gradient(lambda y: sum_sites(counted(self.terms(y)).value), x)

    def refresh(self, key: Key[Array, ""], gamma: Float[Array, ""], x: Field) -> tuple[Self, Terms | Counted]:
        """With auxiliary fields of the density e^{−γS}, drawn given x, and its terms there."""
        raise TypeError(f"{type(self).__name__} has no auxiliary fields")

    def for_chains(self, take: Callable[[Field], Field]) -> Self:
        """For some of the chains, whose part of a field `take` gives: an action may hold something of each chain."""
        return self


class CellAction(Action):
    """A sum over cells of a periodic lattice, each of which sees a few elements: windows of networks run on it."""

    #: sites over which a cell extends
    reach: eqx.AbstractClassVar[int]
    #: whether elements are links, with an axis of directions before those of sites, or one for each site
    links: ClassVar[bool] = True

    @abstractmethod
    def stiffness(self, geometry: Geometry) -> Float[Array, ""]:
        """Half of the curvature along one element of a cold configuration."""

    @abstractmethod
    def cells_of(self, elements: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which cells, placed as in `terms`, see any of these elements[direction, *site], those of sites with one."""

    @abstractmethod
    def heads(self, geometry: Geometry) -> tuple[int, int]:
        """How many weights the force of a cell has, and in how many directions it can be pushed."""

    @abstractmethod
    def numbers(self, geometry: Geometry, x: Field) -> Numbers:
        """What networks see of each cell: gauge-invariant numbers of order one."""

    @abstractmethod
    def pushed_force(self, geometry: Geometry, x: Field, weights: Numbers, pushes: Numbers) -> Momentum:
        """Σ_c [w_c ∂S_c + t_c ∂q_c], the weights w and t held fixed; q_c is the density of the sector."""

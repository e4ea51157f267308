"""Windows: blocks of a lattice in which the links move while all others are held fixed.

A window is a block of cells. Links inside it move; those on its rim belong to cells outside as well, and are frozen
with all the rest. Given them, what is inside has a distribution of its own, and `Window` is that target. The block is
cut out of the field as a patch, a small torus on which the theory's own functions act: cells across its seam contain no
link that moves, so they are constants and drop out of every difference. Windows share no cell, so each may be accepted
or rejected on its own. Nothing in a window may look at the links of the seam: another window may move them.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key
from numpy.typing import NDArray

from dlhmc.errors import UserError
from dlhmc.geometry.contract import Field, Geometry, Momentum, PerChain
from dlhmc.names import Start
from dlhmc.targets.contract import LocalAction, Observed, Target

T = TypeVar("T")
Numbers = Float[Array, "number cell chain"]
Place = Int[Array, " direction"]


@runtime_checkable
class CellTarget(Protocol):
    """A target whose action is a sum over cells of a periodic lattice, each of which sees a few links."""

    @property
    def sides(self) -> tuple[int, ...]:
        """Of the lattice."""

    @property
    def reach(self) -> int:
        """Sites over which a cell extends."""

    @property
    def weights_per_cell(self) -> int:
        """Parts of the force of a cell that have weights of their own."""

    @property
    def pushes_per_cell(self) -> int:
        """Directions in which a cell can be pushed: 1 where there is a density of the sector, else 0."""

    def resized(self, sides: tuple[int, ...]) -> Self:
        """The same action on another lattice."""

    def stiffness(self) -> Float[Array, ""]:
        """Half of the curvature of the action along one link of a cold configuration."""

    def cells_of(self, links: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which cells, placed as in `local_action`, see any of these links."""

    def cell_numbers(self, x: Field) -> Float[Array, "number *cell chain"]:
        """What networks see of each cell: gauge-invariant numbers of order one."""

    def pushed_force(
        self, x: Field, weights: Float[Array, "weight *cell chain"], pushes: Float[Array, "push *cell chain"]
    ) -> Momentum:
        """Σ_c [w_c ∂S_c + t_c ∂q_c], the weights w and t held fixed; q_c is the density of the sector."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where windows lie on a periodic lattice: as many as fit side by side, spread out from a place."""

    sides: tuple[int, ...]
    #: cells along each side of a window
    block: int
    reach: int = 1

    def __post_init__(self) -> None:
        if self.block < 2 or self._distance > min(self.sides):
            sides = " × ".join(map(str, self.sides))
            raise UserError(f"A window of {self.block} cells does not fit into a lattice of {sides}.")

    @property
    def _distance(self) -> int:
        """From one window to the next: no cell may see links of both."""
        return self.block + self.reach - 1

    @functools.cached_property
    def numbers(self) -> tuple[int, ...]:
        """Windows along each axis."""
        return tuple(side // self._distance for side in self.sides)

    @property
    def number(self) -> int:
        """Of all windows."""
        return math.prod(self.numbers)

    @functools.cached_property
    def patch(self) -> tuple[int, ...]:
        """Sides of a patch, which holds every cell that sees a link of the window."""
        return tuple(min(side, self.block + 2 * self.reach - 1) for side in self.sides)

    @functools.cached_property
    def moving(self) -> NDArray[np.bool_]:
        """Links of a patch that move: with both ends in the block and off its rim, [direction, *site]."""
        d, first = len(self.sides), self.reach - 1
        moving = np.zeros((d, *self.patch), bool)
        for mu in range(d):
            across = slice(first + 1, first + self.block)
            along = slice(first, first + self.block)
            moving[mu][tuple(along if axis == mu else across for axis in range(d))] = True
        return moving

    @functools.cached_property
    def inside(self) -> NDArray[np.int64]:
        """Places of the moving links among all links of a patch."""
        return np.flatnonzero(self.moving)

    @functools.cached_property
    def slots(self) -> NDArray[np.int64]:
        """For each link of a patch its number among the moving ones; 0 for the others."""
        return np.where(self.moving, np.cumsum(self.moving).reshape(self.moving.shape) - 1, 0).ravel()

    @functools.cached_property
    def _steps(self) -> NDArray[np.int32]:
        """From the place to the sites of all links of all patches, [axis, link, window]."""
        starts = [[k * side // n for k in range(n)] for side, n in zip(self.sides, self.numbers, strict=True)]
        starts_of_windows = np.array(list(itertools.product(*starts))).T
        site = np.indices(self.moving.shape)[1:].reshape(len(self.sides), -1)
        steps = site[:, :, None] + starts_of_windows[:, None, :]
        return steps.astype(np.int32)

    @functools.cached_property
    def _sources(self) -> NDArray[np.int64]:
        """For each link of the lattice, counted from the place, its number among those that move; −1 for the others."""
        table = np.full((len(self.sides), *self.sides), -1)
        direction = np.indices(self.moving.shape)[0].ravel()[self.inside]
        sites = [step[self.inside] % side for step, side in zip(self._steps, self.sides, strict=True)]
        number = np.arange(len(self.inside) * self.number).reshape(len(self.inside), self.number)
        table[(direction[:, None], *sites)] = number
        return table

    def cut(self, place: Place, field: Float[Array, "..."]) -> Float[Array, "..."]:
        """All patches of a field whose last axes are directions, sites and chains: […, link, window, chain]."""
        direction = np.indices(self.moving.shape, np.int32)[0].reshape(-1, 1)
        row = jnp.asarray(direction)
        for step, side, at in zip(self._steps, self.sides, place, strict=True):
            row = row * side + (step + at) % side
        rows = self._by_link(field)
        return rows.at[..., row, :].get(mode="promise_in_bounds", wrap_negative_indices=False)

    def paste(self, place: Place, field: Float[Array, "..."], moved: Float[Array, "..."]) -> Float[Array, "..."]:
        """The field with what has moved in all windows, […, moving link, window, chain]."""
        back = np.ix_(*(np.arange(side, dtype=np.int32) for side in self.sides))
        at = tuple((site - origin) % side for site, origin, side in zip(back, place, self.sides, strict=True))
        source = jnp.asarray(self._sources)[(slice(None), *at)].ravel()
        found = moved.reshape(*moved.shape[:-3], -1, moved.shape[-1])
        new = found.at[..., jnp.maximum(source, 0), :].get(mode="promise_in_bounds", wrap_negative_indices=False)
        return jnp.where((source >= 0)[:, None], new, self._by_link(field)).reshape(field.shape)

    def _by_link(self, field: Float[Array, "..."]) -> Float[Array, "... link chain"]:
        axes = len(self.sides) + 2
        return field.reshape(*field.shape[: field.ndim - axes], -1, field.shape[-1])


class Window(Target):
    """p(x) of the links inside a window, x[…, link, chain], given the patch around them."""

    #: the same action on a lattice of the size of the patch
    whole: Target
    #: all links of the patch, with a leading axis for each component: […, link, chain]
    patch: Field
    layout: Layout = eqx.field(static=True)

    @classmethod
    def of_shape(cls, target: Target, layout: Layout) -> "Window":
        """One that shows how many links and cells there are, with no patch around it."""
        whole: Any = _cells(target).resized(layout.patch)
        return cls(whole, jnp.zeros((0, 0)), layout)

    @property
    def geometry(self) -> Geometry:
        """As many elements as there are links that move."""
        return self.whole.geometry.resized((len(self.layout.inside),))

    def for_chains(self, take: Callable[[Field], Field]) -> "Window":
        """With the patches of these chains."""
        return Window(self.whole, take(self.patch), self.layout)

    @property
    def cells(self) -> NDArray[np.int64]:
        """Places of the cells that see a moving link among all cells of the patch."""
        return np.flatnonzero(_cells(self.whole).cells_of(self.layout.moving))

    def places_of_cells(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The site and the kind (such as the plane) of each cell of the window."""
        places = np.argwhere(_cells(self.whole).cells_of(self.layout.moving))
        d = len(self.layout.sides)
        kinds = places[:, :-d]
        return places[:, -d:], kinds[:, 0] if kinds.size else np.zeros(len(places), np.int64)

    def embed(self, x: Field) -> Field:
        """The patch with the links inside the window as they are in x."""
        moving = self.layout.moving.reshape(-1, 1)
        links = jnp.where(moving, x[..., self.layout.slots, :], self.patch)
        return links.reshape(*self.whole.shape, x.shape[-1])

    def inside(self, field: Field | Momentum) -> Field | Momentum:
        """The part of a field or a momentum of the patch that belongs to moving links."""
        flat = field.reshape(*field.shape[: field.ndim - self.layout.moving.ndim - 1], -1, field.shape[-1])
        return flat[..., self.layout.inside, :]

    def local_action(self, x: Field) -> LocalAction:
        """Those terms that see a moving link."""
        terms = self.whole.local_action(self.embed(x))
        return terms.reshape(-1, terms.shape[-1])[self.cells]

    def force(self, x: Field) -> Momentum:
        """That of the whole, on the links inside."""
        return self.inside(self.whole.force(self.embed(x)))

    def numbers(self, x: Field) -> Numbers:
        """What networks see of all cells of the window."""
        found = _cells(self.whole).cell_numbers(self.embed(x))
        return found.reshape(found.shape[0], -1, found.shape[-1])[:, self.cells]

    def features(self, x: Field, hidden: Bool[Array, " link"] | None = None) -> Numbers:
        """The numbers of all cells but those that see a hidden link: networks of leapfrog layers see no more."""
        numbers = self.numbers(x)
        if hidden is None:
            return numbers
        links = np.zeros((len(self.layout.inside), self.layout.moving.size), bool)
        np.put_along_axis(links, self.layout.inside[:, None], values=True, axis=1)
        cells = [_cells(self.whole).cells_of(link.reshape(self.layout.moving.shape)).ravel() for link in links]
        sees = np.stack(cells, axis=1)[self.cells]
        return jnp.where(jnp.any(sees & hidden, axis=1)[:, None], 0, numbers)

    def pushed_force(self, x: Field, weights: Numbers, pushes: Numbers) -> Momentum:
        """Σ_c [(1 + w_c) ∂S_c + t_c ∂q_c] over the cells of the window."""
        whole = _cells(self.whole)
        shape = whole.cells_of(self.layout.moving).shape

        def spread(values: Numbers) -> Array:
            number, _, chains = values.shape
            slots = np.zeros(math.prod(shape), np.int64)
            slots[self.cells] = np.arange(len(self.cells))
            seen = np.isin(np.arange(len(slots)), self.cells)[:, None]
            return jnp.where(seen, values[:, slots], 0).reshape(number, *shape, chains)

        return self.inside(whole.pushed_force(self.embed(x), spread(1 + weights), spread(pushes)))

    @property
    def weights_per_cell(self) -> int:
        """Those of the whole."""
        return _cells(self.whole).weights_per_cell

    @property
    def pushes_per_cell(self) -> int:
        """Those of the whole."""
        return _cells(self.whole).pushes_per_cell

    def stiffness(self) -> Float[Array, ""]:
        """That of the whole."""
        return _cells(self.whole).stiffness()

    def observables(self, x: Field) -> dict[str, Observed]:
        """Those of the patch."""
        return self.whole.observables(self.embed(x))

    def smooth_sector(self, x: Field) -> PerChain | None:
        """That of the patch: it changes as that of the lattice does."""
        return self.whole.smooth_sector(self.embed(x))

    def start(self, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Field:
        """The links inside the window of a patch."""
        return self.inside(self.whole.start(key, kind, chains, dtype))


class Windows(eqx.Module):
    """The windows of all chains around one place."""

    target: Target
    x: Field
    place: Place
    layout: Layout = eqx.field(static=True)

    @classmethod
    def at_origin(cls, target: Target, block: int, x: Field) -> "Windows":
        """Around the first site."""
        layout = layout_for(target, block)
        return cls(target, x, jnp.zeros(len(layout.sides), jnp.int32), layout)

    @classmethod
    def around(cls, key: Key[Array, ""], target: Target, block: int, x: Field) -> "Windows":
        """Around a place that is drawn uniformly, for all chains together."""
        layout = layout_for(target, block)
        sides = jnp.asarray(layout.sides, jnp.int32)
        return cls(target, x, jax.random.randint(key, sides.shape, 0, sides, jnp.int32), layout)

    def each(self, function: Callable[[Window, Field, Any], T], given: Any, axis: int) -> T:
        """function(window, x inside, given) for every window.

        Windows are an axis of what is given, and in results the axis before that of chains.
        """
        whole: Any = _cells(self.target).resized(self.layout.patch)
        patches = self.layout.cut(self.place, self.x)
        inside = patches[..., self.layout.inside, :, :]

        def of_window(patch: Field, x: Field, given: Any) -> T:
            return function(Window(whole, patch, self.layout), x, given)

        return jax.vmap(of_window, in_axes=(-2, -2, axis), out_axes=-2)(patches, inside, given)

    def each_alone(self, key: Key[Array, ""], function: Callable[[Key[Array, ""], Window, Field], T]) -> T:
        """function(key, window, x inside) for every window, each with random numbers of its own."""
        keys = jax.random.split(key, self.layout.number)
        return self.each(lambda window, x, key: function(key, window, x), keys, axis=0)

    def momenta(self, v: Momentum) -> Momentum:
        """The part of a momentum of the whole field that belongs to moving links: […, link, window, chain]."""
        return self.layout.cut(self.place, v)[..., self.layout.inside, :, :]

    def pasted(self, field: Field | Momentum, moved: Field | Momentum) -> Field | Momentum:
        """A field with what has moved in the windows."""
        return self.layout.paste(self.place, field, moved)


def layout_for(target: Target, block: int) -> Layout:
    """The windows of this size on the lattice of a target."""
    whole = _cells(target)
    return Layout(whole.sides, block, whole.reach)


def _cells(target: Target) -> CellTarget:
    if not isinstance(target, CellTarget):
        raise TypeError(f"windows are made for targets whose action is a sum over cells, not {type(target).__name__}")
    return target

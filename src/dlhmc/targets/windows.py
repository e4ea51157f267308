"""Windows: blocks of a lattice in which links or vectors of sites move while all others are held fixed.

A window is a block of cells. What is inside it moves; what is on its rim belongs to cells outside as well, and is
frozen with all the rest. Given that, what is inside has a distribution of its own, and `window_in` makes that target.
The block is cut out of the field as a patch, a small torus on which the actions themselves act: cells across its seam
see nothing that moves, so they are constants and drop out of every difference. Windows share no cell, so each may be
accepted or rejected on its own. Nothing in a window may look at what is on the seam: another window may move it.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key
from numpy.typing import NDArray

from dlhmc.actions.contract import Action, CellAction, Numbers
from dlhmc.errors import UserError
from dlhmc.geometry.contract import Field, Geometry, Momentum, PerChain
from dlhmc.lattice.links import total
from dlhmc.names import Start
from dlhmc.targets.contract import Known, Observed, Target

T = TypeVar("T")
Place = Int[Array, " direction"]


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where windows lie on a periodic lattice: as many as fit side by side, spread out from a place."""

    sides: tuple[int, ...]
    #: cells along each side of a window
    block: int
    reach: int = 1
    #: whether elements are links, or one for each site
    links: bool = True
    #: axes of components after those of elements
    trailing: int = 0

    def __post_init__(self) -> None:
        if self.block < 2 or self._distance > min(self.sides):
            sides = " × ".join(map(str, self.sides))
            raise UserError(f"A window of {self.block} cells does not fit into a lattice of {sides}.")

    @property
    def _distance(self) -> int:
        """From one window to the next: no cell may see elements of both."""
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
        """Sides of a patch, which holds every cell that sees the window."""
        return tuple(min(side, self.block + 2 * self.reach - 1) for side in self.sides)

    @functools.cached_property
    def moving(self) -> NDArray[np.bool_]:
        """Elements of a patch that move: in the block and off its rim, [direction, *site], for sites with one."""
        d, first = len(self.sides), self.reach - 1
        across, along = slice(first + 1, first + self.block), slice(first, first + self.block)
        moving = np.zeros((d if self.links else 1, *self.patch), bool)
        for mu, elements in enumerate(moving):
            elements[tuple(along if self.links and axis == mu else across for axis in range(d))] = True
        return moving

    @functools.cached_property
    def inside(self) -> NDArray[np.int64]:
        """Places of what moves among all elements of a patch."""
        return np.flatnonzero(self.moving)

    @functools.cached_property
    def slots(self) -> NDArray[np.int64]:
        """For each element of a patch its number among the moving ones; 0 for the others."""
        return np.where(self.moving, np.cumsum(self.moving).reshape(self.moving.shape) - 1, 0).ravel()

    @functools.cached_property
    def _steps(self) -> NDArray[np.int32]:
        """From the place to the sites of all elements of all patches, [axis, element, window]."""
        starts = [[k * side // n for k in range(n)] for side, n in zip(self.sides, self.numbers, strict=True)]
        starts_of_windows = np.array(list(itertools.product(*starts))).T
        site = np.indices(self.moving.shape)[1:].reshape(len(self.sides), -1)
        steps = site[:, :, None] + starts_of_windows[:, None, :]
        return steps.astype(np.int32)

    @functools.cached_property
    def _sources(self) -> NDArray[np.int64]:
        """For each element, counted from the place, its number among those that move; −1 for the others."""
        table = np.full((len(self.moving), *self.sides), -1)
        direction = np.indices(self.moving.shape)[0].ravel()[self.inside]
        sites = [step[self.inside] % side for step, side in zip(self._steps, self.sides, strict=True)]
        number = np.arange(len(self.inside) * self.number).reshape(len(self.inside), self.number)
        table[(direction[:, None], *sites)] = number
        return table

    def cut(self, place: Place, field: Float[Array, "..."]) -> Float[Array, "..."]:
        """All patches of a field: […, element, *trailing, window, chain]."""
        direction = np.indices(self.moving.shape, np.int32)[0].reshape(-1, 1)
        row = jnp.asarray(direction)
        for step, side, at in zip(self._steps, self.sides, place, strict=True):
            row = row * side + (step + at) % side
        patches = _taken(self.by_element(field), row, self.trailing + 1)
        return jnp.moveaxis(patches, -2 - self.trailing, -2)

    def paste(self, place: Place, field: Float[Array, "..."], moved: Float[Array, "..."]) -> Float[Array, "..."]:
        """The field with what has moved in all windows, […, moving element, *trailing, window, chain]."""
        back = np.ix_(*(np.arange(side, dtype=np.int32) for side in self.sides))
        at = tuple((site - origin) % side for site, origin, side in zip(back, place, self.sides, strict=True))
        source = jnp.asarray(self._sources)[(slice(None), *at)].ravel()
        axes = self.trailing + 1
        moved = jnp.moveaxis(moved, -2, -1 - axes)
        lead, components = moved.shape[: -2 - axes], moved.shape[-axes:]
        new = _taken(moved.reshape(*lead, -1, *components), jnp.maximum(source, 0), axes)
        return jnp.where(self.to_select(source >= 0), new, self.by_element(field)).reshape(field.shape)

    def by_element(self, field: Float[Array, "..."]) -> Float[Array, "..."]:
        """With one axis for all elements of the field."""
        last = field.ndim - self.trailing - 1
        first = last - len(self.sides) - self.links
        return field.reshape(*field.shape[:first], -1, *field.shape[last:])

    def within(self, patches: Float[Array, "..."]) -> Float[Array, "..."]:
        """What moves in patches."""
        return patches[_before(self.inside, self.trailing + 2)]

    def to_select(self, elements: Any) -> Any:
        """Yes or no for each element, with axes for components and chains."""
        return elements.reshape(-1, *(1,) * (self.trailing + 1))


def _before(index: Any, axes: int) -> tuple[Any, ...]:
    """An index of the axis before so many others."""
    return (..., index, *(slice(None),) * axes)


def _taken(field: Float[Array, "..."], index: Int[Array, "..."], axes: int) -> Float[Array, "..."]:
    return field.at[_before(index, axes)].get(mode="promise_in_bounds", wrap_negative_indices=False)


class Windowed(Action):
    """The terms of a target that see what moves inside a window, given the patch around it."""

    #: the same actions on a lattice of the size of the patch
    whole: Target
    #: with one axis for all elements
    patch: Field
    layout: Layout = eqx.field(static=True)

    def for_chains(self, take: Callable[[Field], Field]) -> "Windowed":
        return Windowed(self.whole, take(self.patch), self.layout)

    def cells(self) -> NDArray[np.int64]:
        """Places of the cells that see a moving element among all cells of the patch."""
        return np.flatnonzero(self._cells_of(self.layout.moving))

    def places_of_cells(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The site and the kind (such as the plane) of each cell of the window."""
        places = np.argwhere(self._cells_of(self.layout.moving))
        return places[:, 1:], places[:, 0]

    def embed(self, x: Field) -> Field:
        """The patch with what is inside the window as it is in x."""
        layout = self.layout
        moved = x[_before(layout.slots, layout.trailing + 1)]
        elements = jnp.where(layout.to_select(layout.moving), moved, self.patch)
        return elements.reshape(*self.whole.geometry.shape, x.shape[-1])

    def inside(self, field: Field | Momentum) -> Field | Momentum:
        """The part of a field or a momentum of the patch that belongs to moving elements."""
        return self.layout.by_element(field)[_before(self.layout.inside, self.layout.trailing + 1)]

    def terms(self, x: Field) -> Float[Array, "cell chain"]:
        """Those that see a moving element."""
        terms = [each.reshape(-1, each.shape[-1]) for each in self.whole.terms(self.embed(x)).value]
        return join(terms)[self.cells()]

    def force(self, geometry: Geometry, x: Field) -> Momentum:
        """That of the whole, on what is inside."""
        return self.inside(self.whole.force(self.embed(x)))

    def numbers(self, x: Field) -> Numbers:
        """What networks see of all cells of the window."""
        patch = self.embed(x)
        found = [action.numbers(self.whole.geometry, patch) for action in cells(self.whole)]
        return join([each.reshape(len(each), -1, each.shape[-1]) for each in found], axis=1)[:, self.cells()]

    def numbers_without(self, x: Field, hidden: Bool[Array, " element"]) -> Numbers:
        """The numbers of all cells but those that see a hidden element: leapfrog layers see no more."""
        each = np.zeros((len(self.layout.inside), self.layout.moving.size), bool)
        np.put_along_axis(each, self.layout.inside[:, None], values=True, axis=1)
        seen = [self._cells_of(one.reshape(self.layout.moving.shape)).ravel() for one in each]
        sees = np.stack(seen, axis=1)[self.cells()]
        return jnp.where(jnp.any(sees & hidden, axis=1)[:, None], 0, self.numbers(x))

    def heads(self) -> tuple[int, int]:
        """Weights and pushes of each cell."""
        return cells(self.whole)[0].heads(self.whole.geometry)

    def pushed_force(self, x: Field, weights: Numbers, pushes: Numbers) -> Momentum:
        """Σ_c [(1 + w_c) ∂S_c + t_c ∂q_c] over the cells of the window."""
        patch, places = self.embed(x), self.cells()
        shapes = [each.shape for each in self._tables(self.layout.moving)]
        sizes = [math.prod(shape) for shape in shapes]
        slots = np.zeros(sum(sizes), np.int64)
        slots[places] = np.arange(len(places))
        seen = np.isin(np.arange(len(slots)), places)[:, None]

        def spread(values: Numbers) -> list[Array]:
            everywhere = jnp.where(seen, values[:, slots], 0)
            parts = jnp.split(everywhere, np.cumsum(sizes)[:-1], axis=1)
            return [part.reshape(len(part), *of, part.shape[-1]) for part, of in zip(parts, shapes, strict=True)]

        geometry, of_forces = self.whole.geometry, self.whole.gamma.astype(weights.dtype) * (1 + weights)
        given = zip(cells(self.whole), spread(of_forces), spread(pushes), strict=True)
        return self.inside(total([action.pushed_force(geometry, patch, w, t) for action, w, t in given]))

    def _cells_of(self, elements: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.concatenate(self._tables(elements))

    def _tables(self, elements: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
        """Which cells of each action see any of these elements."""
        return [action.cells_of(elements) for action in cells(self.whole)]


def _smooth_sector(window: Target, x: Field) -> PerChain | None:
    """That of the patch: it changes as that of the lattice does."""
    action = windowed(window)
    return action.whole.known.smooth_sector(action.whole, action.embed(x))


def _start(window: Target, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Field:
    action = windowed(window)
    return action.inside(action.whole.start(key, kind, chains, dtype))


_KNOWN = Known(smooth_sector=_smooth_sector, start=_start)


def _nothing(x: Field) -> dict[str, Observed]:
    return {}


def window_in(whole: Target, patch: Field, layout: Layout) -> Target:
    """p(x) of what is inside a window, given the patch around it; all its elements are along one axis."""
    action = Windowed(whole, patch, layout)
    geometry = whole.geometry.resized((len(layout.inside),))
    return Target(geometry, (action,), _nothing, _KNOWN)


def window_of(target: Target, layout: Layout) -> Target:
    """One that shows how many elements and cells there are, with no patch around it."""
    return window_in(resized(target, layout.patch), jnp.zeros((0, 0)), layout)


def windowed(window: Target) -> Windowed:
    """What the layers of a window see of it."""
    action = window.actions[0]
    if not isinstance(action, Windowed):
        raise TypeError("these layers act in windows: put them into Local")
    return action


def cells(target: Target) -> tuple[CellAction, ...]:
    """The actions of a target that are all sums over cells."""
    if not are_cells(target):
        names = ", ".join(type(action).__name__ for action in target.actions)
        raise TypeError(f"windows are made for targets whose action is a sum over cells, not {names}")
    return target.actions  # type: ignore[return-value]


def are_cells(target: Target) -> bool:
    """Whether all actions are sums over cells."""
    return all(isinstance(action, CellAction) for action in target.actions)


def stiffness(target: Target) -> Float[Array, ""] | None:
    """γ times half of the curvature along one element of a cold configuration; None where nobody knows."""
    if isinstance(target.actions[0], Windowed):
        return stiffness(target.actions[0].whole)
    if not are_cells(target):
        return None
    return target.gamma * total([action.stiffness(target.geometry) for action in cells(target)])


def resized(target: Target, sides: tuple[int, ...]) -> Target:
    """The same actions on another lattice."""
    geometry = target.geometry
    lead = geometry.elements[: len(geometry.elements) - len(sides)]
    known = target.observables, target.known, target.gamma
    return Target(geometry.resized((*lead, *sides)), target.actions, *known)


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

    def each(self, function: Callable[[Target, Field, Any], T], given: Any, axis: int) -> T:
        """function(window, x inside, given) for every window.

        Windows are an axis of what is given, and in results the axis before that of chains.
        """
        whole = resized(self.target, self.layout.patch)
        patches = self.layout.cut(self.place, self.x)

        def of_window(patch: Field, x: Field, given: Any) -> T:
            return function(window_in(whole, patch, self.layout), x, given)

        return jax.vmap(of_window, in_axes=(-2, -2, axis), out_axes=-2)(patches, self.layout.within(patches), given)

    def each_alone(self, key: Key[Array, ""], function: Callable[[Key[Array, ""], Target, Field], T]) -> T:
        """function(key, window, x inside) for every window, each with random numbers of its own."""
        keys = jax.random.split(key, self.layout.number)
        return self.each(lambda window, x, key: function(key, window, x), keys, axis=0)

    def momenta(self, v: Momentum) -> Momentum:
        """The part of a momentum of the whole field that belongs to moving elements."""
        return self.layout.within(self.layout.cut(self.place, v))

    def pasted(self, field: Field | Momentum, moved: Field | Momentum) -> Field | Momentum:
        """A field with what has moved in the windows."""
        return self.layout.paste(self.place, field, moved)


def layout_for(target: Target, block: int) -> Layout:
    """The windows of this size on the lattice of a target."""
    reach = max(action.reach for action in cells(target))
    return Layout(sides_of(target), block, reach, _on_links(target), target.geometry.trailing)


def sides_of(target: Target) -> tuple[int, ...]:
    """Of the lattice."""
    elements = target.geometry.elements
    return elements[1:] if _on_links(target) else elements


def _on_links(target: Target) -> bool:
    return cells(target)[0].links


def join(fields: Sequence[Array], axis: int = 0) -> Array:
    """Without a copy where there is one."""
    return fields[0] if len(fields) == 1 else jnp.concatenate(fields, axis)

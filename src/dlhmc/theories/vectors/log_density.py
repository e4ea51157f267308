"""A user's own log-density as a target."""

import functools
from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, ArrayLike, Float

from dlhmc.geometry.contract import PerChain
from dlhmc.targets.contract import Known, Moment, Target
from dlhmc.theories.vectors.density import WATCHED, Density, Points, known_of, of_density, positive, whole

#: a function of one point x[dim]
PointFunction = Callable[[Float[Array, " dim"]], Float[Array, ""]]


class OwnDensity(Density):
    """A function of one point that is log p, and others that are measured."""

    dim: int = eqx.field(static=True)
    function: PointFunction
    measured: dict[str, PointFunction]
    spread: Float[Array, ""]

    def width(self) -> Float[Array, ""]:
        return self.spread

    def terms(self, x: Points) -> Float[Array, "1 chain"]:
        return -_each(self.function, x)[None]

    def observe(self, x: Points) -> dict[str, PerChain]:
        return {name: _each(function, x) for name, function in self.measured.items()}


@functools.cache  # the same knowledge each time: another one would be compiled again
def _known(names: tuple[str, ...]) -> Known:
    # All of them are slow: nobody knows which one is.
    return known_of({name: Moment(name) for name in names}, names)


def LogDensity(  # noqa: N802
    function: PointFunction,
    dim: int,
    observables: Mapping[str, PointFunction] | None = None,
    spread: ArrayLike = 1.0,
    gamma: ArrayLike = 1.0,
) -> Target:
    """A user's own density: any JAX function of one point x[dim] that returns log p(x), up to a constant.

    Parameters in a closure are compiled in; those of `jax.tree_util.Partial(function, parameters)`, or of an
    Equinox module that is called, are leaves. The observables are functions of one point, too: by default the first
    coordinates and |x|². Nothing is known exactly, so there are no exact draws; `spread` is the width of a hot start.

    >>> target = LogDensity(lambda x: -jnp.sum(x**4), dim=2)
    >>> target.force(jnp.array([[1.0], [2.0]])).tolist()
    [[4.0], [32.0]]
    """
    dim = whole("dim", dim, 1)
    if observables is None:
        observables = {f"x{i}": _coordinate(i) for i in range(min(dim, WATCHED))} | {"squared_norm": _squared_norm}
    own = _scalar_function("the log-density", function, dim)
    measured = {name: _scalar_function(name, f, dim) for name, f in observables.items()}
    return of_density(OwnDensity(dim, own, measured, positive("spread", spread)), _known(tuple(measured)), gamma)


@functools.cache  # the same function each time
def _coordinate(i: int) -> PointFunction:
    return lambda x: x[i]


def _squared_norm(x: Float[Array, " dim"]) -> Float[Array, ""]:
    return jnp.sum(x * x)


def _each(function: PointFunction, x: Points) -> PerChain:
    """The function of each chain's point."""
    return jax.vmap(function, in_axes=-1)(x).astype(x.dtype)


def _scalar_function(name: str, function: PointFunction, dim: int) -> PointFunction:
    """The function as a pytree, so that it can be part of a target; its result must be one number."""
    if not callable(function):
        raise ValueError(f"{name} must be a function of one point x[{dim}], got {function!r}")
    shape = jax.eval_shape(function, jax.ShapeDtypeStruct((dim,), jnp.result_type(float))).shape
    if shape != ():
        raise ValueError(f"{name} must return one number for a point x[{dim}], but returns the shape {shape}")
    return function if isinstance(function, eqx.Module | Partial) else Partial(function)


def banana_target() -> Target:
    """A curved valley, for tests."""
    return LogDensity(_banana, dim=2)


def _banana(x: Float[Array, " dim"]) -> Float[Array, ""]:
    return -0.5 * (x[0] ** 2 + (x[1] - x[0] ** 2) ** 2)

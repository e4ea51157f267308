"""A user's own log-density as a target."""

import functools
from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from dlhmc.geometry.contract import PerChain
from dlhmc.targets.contract import Moment
from dlhmc.theories.vectors.euclidean import (
    WATCHED,
    Euclidean,
    Points,
    positive,
    whole,
)

#: a function of one point x[dim]
PointFunction = Callable[[Float[Array, " dim"]], Float[Array, ""]]


class LogDensity(Euclidean):
    """A user's own density: any JAX function of one point x[dim] that returns log p(x), up to a constant.

    Parameters in a closure are compiled in; those of `jax.tree_util.Partial(function, parameters)`, or of an
    Equinox module that is called, are leaves. The observables are functions of one point, too: by default the first
    coordinates and |x|². Nothing is known exactly, so there are no exact draws; `spread` is the width of a hot start.

    >>> target = LogDensity(lambda x: -jnp.sum(x**4), dim=2)
    >>> target.force(jnp.array([[1.0], [2.0]])).tolist()
    [[4.0], [32.0]]
    """

    function: PointFunction
    dim: int = eqx.field(static=True)
    functions: dict[str, PointFunction]
    spread: Float[Array, ""]
    gamma: Float[Array, ""]

    def __init__(
        self,
        function: PointFunction,
        dim: int,
        observables: Mapping[str, PointFunction] | None = None,
        spread: ArrayLike = 1.0,
        gamma: ArrayLike = 1.0,
    ) -> None:
        self.dim = whole("dim", dim, 1)
        if observables is None:
            observables = {f"x{i}": _coordinate(i) for i in range(min(dim, WATCHED))}
            observables["squared_norm"] = _squared_norm
        self.function = _scalar_function("the log-density", function, dim)
        self.functions = {name: _scalar_function(name, f, dim) for name, f in observables.items()}
        self.spread, self.gamma = positive("spread", spread), positive("gamma", gamma)

    @property
    def moments(self) -> Mapping[str, Moment]:  # type: ignore[override]
        """The mean of every observable."""
        return {name: Moment(name) for name in self.functions}

    @property
    def slow(self) -> Mapping[str, float | None]:  # type: ignore[override]
        """All of them: nobody knows which one is."""
        return dict.fromkeys(self.functions)

    def _spread(self) -> Float[Array, ""]:
        return self.spread

    def local_action(self, x: Points) -> Float[Array, "1 chain"]:
        """−γ log p(x), one term."""
        return -self.gamma.astype(x.dtype) * _each(self.function, x)[None]

    def observables(self, x: Points) -> dict[str, PerChain]:
        """What the user asked for."""
        return {name: _each(function, x) for name, function in self.functions.items()}


# Functions of a user.


@functools.cache  # the same function each time: another one would be compiled again
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


def banana_target() -> LogDensity:
    """A curved valley, for tests."""
    return LogDensity(_banana, dim=2)


def _banana(x: Float[Array, " dim"]) -> Float[Array, ""]:
    return -0.5 * (x[0] ** 2 + (x[1] - x[0] ** 2) ** 2)

"""Densities in flat space, x[dim, chain], and a user's own."""

import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, ArrayLike, Float, Key

from dlhmc.actions.contract import Action
from dlhmc.errors import UserError
from dlhmc.geometry.contract import PerChain
from dlhmc.geometry.flat import FlatSpace
from dlhmc.names import Start
from dlhmc.numerics.leaves import parameter
from dlhmc.settings import Count, Positive, checked
from dlhmc.targets.contract import Known, Moment, Target

Scalar = Float[Array, ""]
Points = Float[Array, "dim chain"]
Values = dict[str, PerChain]
#: a function of one point x[dim]
PointFunction = Callable[[Float[Array, " dim"]], Scalar]

# Coordinates that are looked at one by one.
WATCHED = 3


class Density(Action):
    """−log p(x) of vectors."""

    dim: int = eqx.field(static=True)

    @abstractmethod
    def observe(self, x: Points) -> Values:
        """What is measured."""

    @abstractmethod
    def width(self) -> Scalar:
        """The largest standard deviation, or a guess at it: that of a hot start."""

    def centre(self) -> Scalar:
        """The first coordinate of a cold start, whose others are 0."""
        return jnp.zeros(())


def of_density(density: Density, known: Known, gamma: ArrayLike) -> Target:
    """The target of p^γ."""
    return Target(FlatSpace((density.dim,)), [density], density.observe, known, gamma)


def start(target: Target, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Points:
    """Hot: an isotropic Gaussian as wide as the density at its widest; cold: its centre."""
    density: Any = target.actions[0]
    if kind == "cold":
        return target.geometry.origin(chains, dtype).at[0].set(density.centre().astype(dtype))
    return density.width().astype(dtype) * target.geometry.scatter(key, chains, dtype)


class OwnDensity(Density):
    """A function of one point that is log p, and others that are measured."""

    function: PointFunction
    measured: dict[str, PointFunction]
    spread: Scalar

    def terms(self, x: Points) -> Float[Array, "1 chain"]:
        return -_each(self.function, x)[None]

    def observe(self, x: Points) -> Values:
        return {name: _each(function, x) for name, function in self.measured.items()}

    def width(self) -> Scalar:
        return self.spread


@functools.cache  # the same knowledge each time: another one would be compiled again
def _known(names: tuple[str, ...]) -> Known:
    # All of them are slow: nobody knows which one is.
    return Known({name: Moment(name) for name in names}, lambda target: dict.fromkeys(names), start=start)


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
    dim = checked("dim", dim, Count)
    if observables is None:
        observables = {f"x{i}": Partial(jnp.take, indices=i) for i in range(min(dim, WATCHED))}
        observables["squared_norm"] = _squared_norm
    own = _scalar_function("the log-density", function, dim)
    measured = {name: _scalar_function(name, f, dim) for name, f in observables.items()}
    density = OwnDensity(dim, own, measured, parameter("spread", spread, Positive))
    return of_density(density, _known(tuple(measured)), gamma)


def _squared_norm(x: Float[Array, " dim"]) -> Scalar:
    return jnp.sum(x * x)


def _each(function: PointFunction, x: Points) -> PerChain:
    """The function of each chain's point."""
    return jax.vmap(function, in_axes=-1)(x).astype(x.dtype)


def _scalar_function(name: str, function: PointFunction, dim: int) -> PointFunction:
    """The function as a pytree, so that it can be part of a target; its result must be one number."""
    if not callable(function):
        raise UserError(f"{name} must be a function of one point x[{dim}], got {function!r}.")
    shape = jax.eval_shape(function, jax.ShapeDtypeStruct((dim,), jnp.result_type(float))).shape
    if shape != ():
        raise UserError(f"{name} must return one number for a point x[{dim}], but returns the shape {shape}.")
    return function if isinstance(function, eqx.Module | Partial) else Partial(function)

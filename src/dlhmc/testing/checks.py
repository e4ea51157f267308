"""What every check is made of: a sentence for each problem, and all of them in one error.

Each check yields a sentence for everything that is wrong. `check_target` and its relatives run all checks that apply in
double precision, and raise `ConformanceError` with all sentences.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dlhmc.geometry.contract import Field, Momentum
from dlhmc.targets.contract import Target

Problems = Iterator[str]
CHAINS = 3


class ConformanceError(AssertionError):
    """What is wrong with an object, a sentence for each problem."""


class Checked(NamedTuple):
    """What was tested, and what could not be."""

    passed: tuple[str, ...]
    skipped: tuple[str, ...]


def run_checks(what: object, checks: Mapping[str, Callable[[], Iterable[str]]], skipped: Iterable[str] = ()) -> Checked:
    """All checks; those that raise have found something, too."""
    problems: list[str] = []
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        for name, check in checks.items():
            try:
                for problem in check():
                    problems.append(f"{name}: {problem}")
            except Exception as error:  # a user's code may raise anything
                problems.append(f"{name}: it raises {type(error).__name__}: {error}")
    if problems:
        title = what if isinstance(what, str) else type(what).__name__
        raise ConformanceError("\n".join([f"{title} breaks its contract.", *(f"- {line}" for line in problems)]))
    return Checked(tuple(checks), tuple(skipped))


def as_numbers(values: Any) -> NDArray[Any]:
    """On the host, in double precision."""
    return np.asarray(values, np.complex128 if np.iscomplexobj(values) else np.float64)


def differs(sentence: str, found: Any, wanted: Any, tolerance: float) -> Problems:
    """The sentence, where a difference is larger than the tolerance times the size of what is wanted; or NaN."""
    difference = np.abs(as_numbers(found) - as_numbers(wanted)).max(initial=0.0)
    size = np.abs(as_numbers(wanted)).max(initial=1e-300)
    if not difference <= tolerance * size:
        yield f"{sentence}: {difference:.2g} off"


def bad_numbers(name: str, values: Any, shape: tuple[int, ...] | None = None) -> Problems:
    """Where there are not finite numbers of this shape, or else for each chain."""
    found = np.shape(values)
    shape = shape or (*found[:-1], CHAINS)
    if found != shape:
        yield f"{name} has the shape {found}, not {shape}"
    elif not np.all(np.isfinite(as_numbers(values))):
        yield f"{name} is not finite"


def mixed_chains(function: Callable[[Any], Mapping[str, Any]], given: Any, tolerance: float) -> Problems:
    """Where the second chain has other numbers than alone."""
    together, alone = function(given), function(jax.tree.map(_second, given))
    for name, values in together.items():
        for _ in differs("", _second(values), alone[name], tolerance):
            yield f"{name} of a chain depends on other chains"


def _second(values: Any) -> Any:
    return values[..., 1:2]


@eqx.filter_jit
def evaluate(function: Callable[..., Any], *arguments: Any) -> Any:
    """A function of a target or a geometry as one program: operation by operation, fields of matrices take minutes."""
    return function(*arguments)


def example(target: Target, chains: int = CHAINS) -> Field:
    """Hot configurations, in double precision."""
    x: Field = evaluate(target.start, jax.random.key(1), "hot", chains, jnp.dtype(jnp.float64))
    return x


def momentum(target: Target, x: Field, seed: int = 1) -> Momentum:
    """Momenta for configurations in double precision; on the host, where arithmetic compiles nothing."""
    v = evaluate(target.geometry.momentum, jax.random.key(seed), x)
    return cast(Momentum, np.asarray(v))

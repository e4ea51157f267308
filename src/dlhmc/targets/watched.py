"""A target with observables of one's own beside those it has."""

from collections.abc import Callable, Mapping

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from dlhmc.names import Start
from dlhmc.targets.contract import ExactDraws, Field, Moment, PerChain, Target

#: a function of the configurations of all chains, x[…, chain], that gives a number for each chain
Observable = Callable[[Field], PerChain]


class Watched(Target):
    """The same target, on which more is measured; nothing is known exactly about that."""

    target: Target
    functions: Mapping[str, Observable] = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one configuration."""
        return self.target.shape

    @property
    def moments(self) -> Mapping[str, Moment]:  # type: ignore[override]
        """Those of the target, and the mean of each function."""
        return dict(self.target.moments) | {name: Moment(name) for name in self.functions}

    @property
    def slow(self) -> Mapping[str, float | None]:  # type: ignore[override]
        """Those of the target first, then the functions, whose means are not known."""
        return dict(self.target.slow) | dict.fromkeys(self.functions)

    @property
    def sector(self) -> str | None:  # type: ignore[override]
        """That of the target."""
        return self.target.sector

    @property
    def compact(self) -> bool:  # type: ignore[override]
        """Whether components of x are angles."""
        return self.target.compact

    def local_action(self, x: Field) -> Float[Array, "*sites chain"]:
        """That of the target."""
        return self.target.local_action(x)

    def observables(self, x: Field) -> dict[str, PerChain]:
        """Those of the target, and the functions."""
        return self.target.observables(x) | {name: function(x) for name, function in self.functions.items()}

    def start(self, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Field:
        """That of the target."""
        return self.target.start(key, kind, chains, dtype)

    def exact(self) -> dict[str, float]:
        """What is known about the target."""
        return self.target.exact()

    def slow_variance(self, name: str) -> float | None:
        """What is known about the target."""
        return None if name in self.functions else self.target.slow_variance(name)

    def exact_draws(self) -> ExactDraws | None:
        """Those of the target."""
        return self.target.exact_draws()

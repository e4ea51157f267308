"""What a kernel is: two pure functions, init and step(key, state) → (state, info)."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Float, Key

from dlhmc.targets.contract import Field, PerChain, Target


class State(NamedTuple):
    """What the next step needs: the configurations."""

    x: Field


class Info(NamedTuple):
    """What a step tells about itself, for each chain."""

    #: acceptance probability A(ξ′|ξ)
    acceptance: PerChain
    accepted: Bool[Array, " chain"]
    #: the exponent of the accept/reject step, A = min(1, e^{−ΔH}); with a Jacobian, ΔH − log|J|
    energy_change: PerChain
    #: proposals rejected because a number was not finite
    nonfinite: Bool[Array, " chain"]
    #: fraction of accepted hand-made moves, where the kernel makes any
    hits: Float[Array, " chain"] | None = None


class RoundTrip(NamedTuple):
    """A trajectory and the way back: what is lost on it is lost to rounding."""

    #: of the way there, as in `Info`
    energy_change: PerChain
    x_back: Field
    v_back: Field


class Kernel(eqx.Module):
    """Leaves its target invariant. A kernel is a pytree: its leaves (step size, couplings) never recompile."""

    target: eqx.AbstractVar[Target]

    def init(self, x: Field) -> State:
        """The state of chains that start at x."""
        return State(x)

    @abstractmethod
    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """One trajectory of every chain."""

    @property
    def leapfrog_steps(self) -> int:
        """N_LF, the leapfrog steps of a trajectory; 0 for kernels that have none."""
        return 0

    def round_trip(self, x: Field, v: Field) -> RoundTrip | None:
        """A trajectory from (x, v) and back, without accept/reject; None for kernels that make none."""
        return None

    def with_step_size(self, step_size: Float[Array, ""]) -> "Kernel":
        """The same kernel with another step size, for kernels that have one to tune."""
        return self

    def tunable_step_size(self) -> Float[Array, ""] | None:
        """The step size, or None where there is nothing to tune."""
        return None

"""What a kernel is: two pure functions, init and step(key, state) → (state, info)."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, Key

from dlhmc.actions.contract import Effort
from dlhmc.geometry.contract import Field, Momentum, PerChain
from dlhmc.kernels.metropolis import select
from dlhmc.targets.contract import AllTerms, Target, terms_at


class State(NamedTuple):
    """What the next step needs. A kernel may have a state of its own that keeps more, with the configurations as x."""

    x: Field
    #: of the action at x
    terms: AllTerms

    @classmethod
    def at(cls, target: Target, x: Field) -> "State":
        """Chains at x. Auxiliary fields have no terms yet."""
        return cls(x, terms_at(target, x).value)

    def moved(self, accepted: Bool[Array, " chain"], x: Field, terms: AllTerms) -> "State":
        """At x, with its terms, where it was accepted."""
        kept = (None if old is None else select(accepted, new, old) for old, new in zip(self.terms, terms, strict=True))
        return State(select(accepted, x, self.x), tuple(kept))


class Info(NamedTuple):
    """What a step tells about itself, for each chain.

    A kernel may have one of its own with more fields: runs record all of them by name.
    """

    #: acceptance probability A(ξ′|ξ)
    acceptance: PerChain
    accepted: Bool[Array, " chain"]
    #: the exponent of the accept/reject step, A = min(1, e^{−ΔH}); with a Jacobian, ΔH − log|J|
    energy_change: PerChain
    #: proposals rejected because a number was not finite
    nonfinite: Bool[Array, " chain"]
    #: the work of forces and actions, added up: each name is a record
    effort: Effort = {}  # noqa: RUF012 - nobody changes it
    #: fractions of accepted moves between steps, by the name of the moves
    accepted_moves: Mapping[str, PerChain] = {}


class RoundTrip(NamedTuple):
    """A trajectory and the way back: what is lost on it is lost to rounding."""

    #: of the way there, as in `Info`
    energy_change: PerChain
    x_back: Field
    v_back: Momentum


class Kernel(eqx.Module):
    """Leaves its target invariant. A kernel is a pytree: its leaves (step size, couplings) never recompile."""

    #: what the command line and files call it; the name of the class if nothing else is said
    name: ClassVar[str] = ""
    #: whether it may find no way to equilibrium from afar
    needs_equilibrium: ClassVar[bool] = False

    target: eqx.AbstractVar[Target]

    def __hash__(self) -> int:
        """Of the structure: arrays have none, and `jax.jit(kernel.step)` wants one."""
        return hash((type(self), jax.tree.structure(self)))

    def describe(self) -> dict[str, Any]:
        """What it is, for files: its name first."""
        return {"kernel": self.name or type(self).__name__}

    def init(self, x: Field) -> Any:
        """The state of chains that start at x."""
        return State.at(self.target, x)

    @abstractmethod
    def step(self, key: Key[Array, ""], state: Any) -> tuple[Any, Any]:
        """One trajectory of every chain."""

    @property
    def leapfrog_steps(self) -> int:
        """N_LF, the leapfrog steps of a trajectory; 0 for kernels that have none."""
        return 0

    @property
    def forces(self) -> int:
        """Forces that a trajectory computes."""
        return 0

    def round_trip(self, target: Target, x: Field, v: Momentum) -> RoundTrip | None:
        """A trajectory from (x, v) and back, without accept/reject; None for kernels that make none.

        The target is the kernel's, with auxiliary fields where it has them (`Target.refresh`).
        """
        return None

    def with_step_size(self, step_size: Float[Array, ""]) -> "Kernel":
        """The same kernel with another step size, for kernels that have one to tune."""
        return self

    def tunable_step_size(self) -> Float[Array, ""] | None:
        """The step size, or None where there is nothing to tune."""
        return None

"""Two kernels in turn: one that stirs everything, and one for what the first hardly moves."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from dlhmc.actions.contract import Effort, add_efforts
from dlhmc.geometry.contract import Field, Momentum, PerChain
from dlhmc.kernels.contract import Kernel, RoundTrip
from dlhmc.targets.contract import Target, terms_at


class InfoOfBoth(NamedTuple):
    """As `Info`, about the kernel, and the energy of the moves: they are watched, too."""

    acceptance: PerChain
    accepted: Bool[Array, " chain"]
    energy_change: PerChain
    nonfinite: Bool[Array, " chain"]
    effort: Effort
    accepted_moves: Mapping[str, PerChain]
    #: of the first move; all are alike
    energy_change_of_moves: PerChain


class Alternating(Kernel):
    """After each step of `kernel`, `number` steps of `move`; both leave the same distribution invariant.

    >>> from dlhmc import HMC, Gaussian
    >>> target = Gaussian([1.0, 4.0])
    >>> kernel = Alternating(HMC(target, 0.2, 10), HMC(target, 1.0), 3)
    >>> state, info = jax.jit(kernel.step)(jax.random.key(1), kernel.init(jnp.zeros((2, 4))))
    >>> info.accepted_moves["moves"].shape
    (4,)
    """

    #: what the fraction of accepted moves is called in the records
    told: ClassVar[str] = "moves"

    target: Target
    kernel: Kernel
    move: Kernel
    number: int = eqx.field(static=True)

    def __init__(self, kernel: Kernel, move: Kernel, number: int = 1) -> None:
        self.target, self.kernel, self.move, self.number = kernel.target, kernel, move, number

    @property
    def leapfrog_steps(self) -> int:
        """Those of the kernel, and of all moves."""
        return self.kernel.leapfrog_steps + self.number * self.move.leapfrog_steps

    @property
    def forces(self) -> int:
        """Those of the kernel, and of all moves."""
        return self.kernel.forces + self.number * self.move.forces

    def describe(self) -> dict[str, Any]:
        """The kernel between the moves, which move, and how many."""
        return self.kernel.describe() | {"move": self.move.describe()["kernel"], "moves": self.number}

    def init(self, x: Field) -> Any:
        """The state of the kernel between the moves."""
        return self.kernel.init(x)

    def round_trip(self, target: Target, x: Field, v: Momentum) -> RoundTrip | None:
        """Of the kernel between the moves."""
        return self.kernel.round_trip(target, x, v)

    def tunable_step_size(self) -> Float[Array, ""] | None:
        """The step size of the kernel between the moves."""
        return self.kernel.tunable_step_size()

    def with_step_size(self, step_size: Float[Array, ""]) -> "Alternating":
        """The same with another step size of the kernel between the moves."""
        return eqx.tree_at(lambda it: it.kernel, self, self.kernel.with_step_size(step_size))

    def step(self, key: Key[Array, ""], state: Any) -> tuple[Any, InfoOfBoth]:
        """One step of the kernel, then the moves; all but the moves and the effort is about the kernel."""
        kernel_key, moves_key = jax.random.split(key)
        state, info = self.kernel.step(kernel_key, state)

        def move(moving: Any, index: Array) -> tuple[Any, Any]:
            moving, told = self.move.step(jax.random.fold_in(moves_key, index), moving)
            return moving, (told.accepted, told.nonfinite, told.energy_change, _effort(told))

        start = self.move.init(state.x)
        moving, (accepted, nonfinite, change, effort) = jax.lax.scan(move, start, jnp.arange(self.number))
        moves = jnp.mean(accepted, axis=0, dtype=info.acceptance.dtype)
        nonfinite = info.nonfinite | jnp.any(nonfinite, axis=0)
        # What moves keep about their start, and the kernel about its own, is computed anew.
        again = (terms_at(kernel.target, state.x).effort for kernel in (self.move, self.kernel))
        effort = add_efforts(_effort(info), jax.tree.map(lambda each: jnp.sum(each, axis=0), effort), *again)
        own = (info.acceptance, info.accepted, info.energy_change)
        return self.kernel.init(moving.x), InfoOfBoth(*own, nonfinite, effort, {self.told: moves}, change[0])


def _effort(info: Any) -> Effort:
    effort: Effort = info._asdict().get("effort", {})  # a kernel may have an info of its own
    return effort

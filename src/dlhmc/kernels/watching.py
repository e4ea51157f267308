"""Observables of one's own, measured after each step of any kernel."""

from collections.abc import Mapping

from jaxtyping import Array, Float, Key

from dlhmc.kernels.contract import Info, Kernel, RoundTrip, State
from dlhmc.targets.contract import Field
from dlhmc.targets.watched import Observable, Watched


class Watching(Kernel):
    """The same kernel, on whose target more is measured: the numbers of the chains are the same."""

    kernel: Kernel
    target: Watched

    @classmethod
    def more(cls, kernel: Kernel, observables: Mapping[str, Observable]) -> "Watching":
        """The kernel with these functions of x measured, too."""
        return cls(kernel=kernel, target=Watched(kernel.target, _Functions(observables)))

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """A step of the kernel."""
        return self.kernel.step(key, state)

    def round_trip(self, x: Field, v: Field) -> RoundTrip | None:
        """Of the kernel."""
        return self.kernel.round_trip(x, v)

    @property
    def leapfrog_steps(self) -> int:
        """Those of the kernel."""
        return self.kernel.leapfrog_steps

    def tunable_step_size(self) -> Float[Array, ""] | None:
        """That of the kernel."""
        return self.kernel.tunable_step_size()

    def with_step_size(self, step_size: Float[Array, ""]) -> "Watching":
        """The same with another step size of the kernel."""
        return Watching(kernel=self.kernel.with_step_size(step_size), target=self.target)


class _Functions(dict[str, Observable]):
    """A table that can be hashed, as static parts of a pytree must be."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))

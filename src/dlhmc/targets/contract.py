"""What a target is: an action on a geometry, and what to measure.

Everything outside a target uses only this contract, so a kernel works for angles, vectors and matrices alike.
Arrays carry the chain axis last; couplings are array leaves, so changing them never recompiles.
"""

import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, Num

from dlhmc.geometry.contract import Field, Geometry, Momentum, PerChain, all_finite, sum_sites
from dlhmc.names import Start
from dlhmc.numerics import rng

#: a number, or an array of them, for each chain
Observed = Num[Array, "*shape chain"]
#: a function of the configurations of all chains that is measured
Observable = Callable[[Field], Observed]
#: several of them, by name
Observables = Callable[[Field], dict[str, Observed]]
Force = Callable[[Field], Momentum]
#: what a computation tells about itself by name, such as the iterations of a solver: added up over a trajectory
Effort = dict[str, Num[Array, " chain"]]
CountedForce = Callable[[Field], tuple[Momentum, Effort]]
#: terms that add up to the action
LocalAction = Float[Array, "*sites chain"]


class Moment(NamedTuple):
    """An expectation value ⟨observable^power⟩ that is reported for a run."""

    observable: str
    power: int = 1


class Symmetry(NamedTuple):
    """A random transformation that leaves the action invariant; the observables named in `odd` change sign."""

    apply: Callable[[Key[Array, ""], Field], Field]
    odd: frozenset[str] = frozenset()


class ExactDraws(Protocol):
    """Independent configurations from the target itself: the oracle."""

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Field:
        """Independent configurations, one for each chain."""


class Target(eqx.Module):
    """Base class of all targets p(x) ∝ e^{−S(x)}.

    A target implements `geometry`, `local_action`, `observables` and `start`. The force comes from autodiff: override
    it where it can be faster.
    """

    #: expectation values to report, by name
    moments: ClassVar[Mapping[str, Moment]] = {}
    #: observables that decorrelate slowly, each with its exact mean, or None; the first one judges the sampler
    slow: ClassVar[Mapping[str, float | None]] = {}
    #: the integer-valued observable that labels topological sectors or modes: its changes are tunnellings
    sector: ClassVar[str | None] = None
    #: fields that are couplings: training may change them step by step; `gamma` multiplies the action
    couplings: ClassVar[tuple[str, ...]] = ()
    #: steps of a faster part of the force for each of the slower one, if nothing else is said
    inner_steps: ClassVar[int] = 1
    #: acceptance to which step sizes are tuned, if nothing else is said
    wanted_acceptance: ClassVar[float] = 0.8

    @property
    @abstractmethod
    def geometry(self) -> Geometry:
        """Where configurations live."""

    @abstractmethod
    def local_action(self, x: Field) -> LocalAction:
        """Terms that add up to the action; kept apart so that differences can be summed term by term."""

    @abstractmethod
    def observables(self, x: Field) -> dict[str, Observed]:
        """What is measured after each trajectory."""

    @abstractmethod
    def start(self, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Field:
        """Initial configurations, hot or cold, at this precision; exact ones come from `exact_draws`."""

    def features(self, x: Field, hidden: Bool[Array, "*element"] | None = None) -> Float[Array, "feature ... chain"]:
        """What networks of leapfrog layers see of x, but for elements that are hidden from them."""
        features = self.geometry.features(x)
        return features if hidden is None else jnp.where(hidden[..., None], 0, features)

    def for_chains(self, take: Callable[[Field], Field]) -> Self:
        """For some of the chains, whose part of a field `take` gives: a target may hold something of each chain."""
        return self

    @property
    def expensive(self) -> bool:
        """Whether kernels rather keep the action of a configuration than compute it twice.

        It takes long then, has no auxiliary fields, and is more than a sum over places.
        """
        return False

    def action_effort(self, x: Field) -> Effort:
        """What it takes to compute an action that is `expensive`, for each chain."""
        return {}

    def counted_action(self, x: Field) -> tuple[LocalAction, Effort]:
        """`local_action` with what it tells about itself."""
        return self.local_action(x), self.action_effort(x)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one configuration, without the chain axis."""
        return self.geometry.shape

    def action(self, x: Field) -> PerChain:
        """S(x)."""
        return sum_sites(self.local_action(x))

    def force(self, x: Field) -> Momentum:
        """∂S/∂x along the tangent vectors of the geometry."""
        return self.geometry.gradient(self.action, x)

    def forces(self) -> tuple[Force, ...]:
        """Parts that add up to the force, the slowest first: each may have a time scale of its own."""
        return (self.force,)

    def counted_forces(self) -> tuple[CountedForce, ...]:
        """The same with what they tell about themselves: those that tell anything tell the same names."""
        return tuple(_counted(force) for force in self.forces())

    @rng.by_chain
    def refresh(self, key: Key[Array, ""], x: Field) -> Self:
        """The target with its auxiliary fields (pseudofermions) drawn anew, given x; drawn with every momentum."""
        return self

    def refresh_effort(self) -> Effort:
        """What it took to draw the auxiliary fields that it has, for each chain."""
        return {}

    def action_of_origin(self, x: Field) -> LocalAction:
        """`local_action` of the x at which the auxiliary fields were drawn: drawing them may have told it."""
        return self.local_action(x)

    def marginal(self) -> Self:
        """The target without auxiliary fields, or with less noise of them: learned proposals are judged by it."""
        return self

    def guide(self) -> "Target":
        """The part of the action that learned trajectories in windows follow, as a target; all of it if it is cheap."""
        return self

    def with_couplings(self, values: Mapping[str, Any]) -> Self:
        """The same target at other couplings."""
        for name, value in values.items():
            if name not in self.couplings:
                raise TypeError(f"{type(self).__name__} has no coupling '{name}': there are {self.couplings}")
            dtype = getattr(self, name).dtype
            self = eqx.tree_at(lambda t: getattr(t, name), self, jnp.asarray(value).astype(dtype))  # noqa: B023
        return self

    def smooth_sector(self, x: Field) -> PerChain | None:
        """A differentiable function that is close to `sector`, for losses; None where there is none."""
        return None

    def symmetries(self) -> dict[str, Symmetry]:
        """Transformations that leave the action invariant, by name."""
        return {}

    def exact(self) -> dict[str, float]:
        """Exact expectation values of `test_functions`, where they are known."""
        return {}

    def slow_variance(self, name: str) -> float | None:
        """The exact variance of a slow observable in units of the square of its changes, if these are all of a size.

        It bounds the autocorrelation time of a run in which the observable hardly ever changes. None stands for an
        observable that has lost its memory when it changes.
        """
        return None

    def test_functions(self, x: Field) -> dict[str, PerChain]:
        """What a test of exactness looks at: `moments`, and more where more exact values are known."""
        observables = self.observables(x)
        return {name: observables[label] ** power for name, (label, power) in self.moments.items()}

    def exact_draws(self) -> ExactDraws | None:
        """The exact sampler, where there is one."""
        return None

    def approximate_draws(self) -> ExactDraws | None:
        """A sampler of starts from which chains soon reach equilibrium; the exact one where there is one."""
        return self.exact_draws()


def _counted(force: Force) -> CountedForce:
    return lambda x: (force(x), {})


def added(effort: Effort, more: Effort) -> Effort:
    """Both together, by the names of the first."""
    return {name: value + more[name] if name in more else value for name, value in effort.items()}


def added_up(*efforts: Effort) -> Effort:
    """All together, whichever names each has."""
    return functools.reduce(lambda one, other: {**other, **added(one, other)}, efforts)


def energy_change(target: Target, old: tuple[Field, Momentum], new: tuple[Field, Momentum]) -> PerChain:
    """ΔH = H(x′, v′) − H(x, v)."""
    (x, v), (x_new, v_new) = old, new
    actions = target.local_action(x), target.local_action(x_new)
    return action_change(*actions, x_new) + kinetic_change(target, v, v_new)


def action_change(old: LocalAction, new: LocalAction, x_new: Field) -> PerChain:
    """S(x′) − S(x), differences first: S itself is of order V, and float32 would lose digits of its change.

    NaN where x′ is not finite, even if the action does not look there: accept/reject must not let it pass.
    """
    return jnp.where(all_finite(x_new), sum_sites(new - old), jnp.nan)


def kinetic_change(target: Target, old: Momentum, new: Momentum) -> PerChain:
    """K(v′) − K(v), differences first."""
    kinetic_energy = target.geometry.local_kinetic
    return sum_sites(kinetic_energy(new) - kinetic_energy(old))

"""What a target is: actions on a geometry, what to measure, and what is known exactly.

Everything outside uses only this contract, so a kernel works for angles, vectors and matrices alike. Arrays carry the
chain axis last; couplings are array leaves, so changing them never recompiles.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, ArrayLike, Float, Key, Num

from dlhmc.actions.contract import Action, Counted, add_efforts, counted
from dlhmc.geometry.contract import Field, Geometry, Momentum, PerChain, all_finite, sum_sites
from dlhmc.names import Start
from dlhmc.numerics.leaves import parameter
from dlhmc.settings import Positive

#: a number, or an array of them, for each chain
Observed = Num[Array, "*shape chain"]
#: a function of the configurations of all chains that is measured
Observable = Callable[[Field], Observed]
#: several of them, by name
Observables = Callable[[Field], dict[str, Observed]]
#: terms of each action; None for those whose auxiliary fields are not drawn yet
AllTerms = tuple[Float[Array, "*sites chain"] | None, ...]


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


def _hot_or_cold(target: "Target", key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Field:
    geometry = target.geometry
    return geometry.origin(chains, dtype) if kind == "cold" else geometry.scatter(key, chains, dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class Known:
    """What whoever puts a target together knows of it, as data and as functions of the target.

    A function asks what the actions are (`type(action)`, of all of them), so that another action, or one more, has
    other values or none.
    """

    #: expectation values to report, by name
    moments: Mapping[str, Moment] = dataclasses.field(default_factory=dict)
    #: observables that decorrelate slowly, each with its exact mean, or None; the first one judges the sampler
    slow: Callable[["Target"], Mapping[str, float | None]] = lambda target: {}
    #: the integer-valued observable that labels topological sectors or modes: its changes are tunnellings
    sector: str | None = None
    #: a differentiable function that is close to `sector`, for losses; None where there is none
    smooth_sector: Callable[["Target", Field], PerChain | None] = lambda target, x: None
    #: transformations that leave the action invariant, by name
    symmetries: Callable[["Target"], dict[str, Symmetry]] = lambda target: {}
    #: what a test of exactness looks at beside the moments
    functions: Callable[["Target", Field], dict[str, PerChain]] = lambda target, x: {}
    #: exact values of moments and functions, where they are known
    exact: Callable[["Target"], dict[str, float]] = lambda target: {}
    #: the sampler of independent configurations, where there is one
    exact_draws: Callable[["Target"], ExactDraws | None] = lambda target: None
    #: a sampler of starts from which chains soon reach equilibrium
    approximate_draws: Callable[["Target"], ExactDraws | None] = lambda target: target.exact_draws()
    #: initial configurations, hot or cold, at this precision
    start: Callable[["Target", Key[Array, ""], Start, int, jnp.dtype], Field] = _hot_or_cold
    #: the exact variance of a slow observable in units of the square of its changes, if these are all of a size. It
    #: bounds the autocorrelation time where it hardly ever changes; None: it has lost its memory when it changes
    slow_variance: Callable[["Target", str], float | None] = lambda target, name: None
    #: the target without auxiliary fields, and the guide that a learned trajectory follows: all of it if it is cheap
    guided: Callable[["Target"], tuple["Target", "Target"]] = lambda target: (target, target)
    #: steps of HMC of a faster action for each of the slower one before it; 1: all take the same steps
    inner_steps: int = 1
    #: acceptance to which step sizes are tuned, if nothing else is said
    wanted_acceptance: float = 0.8


class Target(eqx.Module):
    """p(x) ∝ e^{−γ Σ S_i(x)}, put together from a geometry, actions S_i (the slowest first), and what is measured.

    >>> from dlhmc.geometry import FlatSpace
    >>> class Quartic(Action):
    ...     def terms(self, x):
    ...         return x**4
    >>> target = Target(FlatSpace((2,)), [Quartic()], lambda x: {"first": x[0]})
    >>> target.action(jnp.ones((2, 3))).tolist(), target.force(jnp.ones((2, 1))).tolist()
    ([2.0, 2.0, 2.0], [[4.0], [4.0]])
    """

    geometry: Geometry
    actions: tuple[Action, ...]
    #: annealing multiplies the action with it
    gamma: Float[Array, ""]
    observables: Observables
    known: Known = eqx.field(static=True)

    def __init__(
        self,
        geometry: Geometry,
        actions: Sequence[Action],
        observables: Observables,
        known: Known = Known(),  # noqa: B008 - nothing, and always the same
        gamma: ArrayLike = 1.0,
    ) -> None:
        self.geometry, self.actions, self.known = geometry, tuple(actions), known
        # A function is no leaf of a tree.
        self.observables = observables if isinstance(observables, eqx.Module | Partial) else Partial(observables)
        self.gamma = parameter("gamma", gamma, Positive)

    def terms(self, x: Field) -> Counted:
        """γ times the terms of each action, with the work that they took."""
        return add_terms(self._scaled(action.terms(x)) for action in self.actions)

    def action(self, x: Field) -> PerChain:
        """S(x)."""
        return sum_terms(self.terms(x).value)

    def force(self, x: Field) -> Momentum:
        """∂S/∂x along the tangent vectors of the geometry."""
        forces = [self._scaled(action.force(self.geometry, x)).value for action in self.actions]
        return sum(forces[1:], forces[0])

    def refresh(self, key: Key[Array, ""], x: Field) -> tuple["Target", Counted]:
        """With auxiliary fields drawn anew, given x, and the terms at x of the actions that have them; else None."""
        actions, found = [], []
        for index, action in enumerate(self.actions):
            terms: Any = None
            if action.auxiliary:
                action, terms = action.refresh(jax.random.fold_in(key, index), self.gamma, x)
            actions.append(action)
            found.append(Counted(None, {}) if terms is None else self._scaled(terms))
        return eqx.tree_at(lambda t: t.actions, self, tuple(actions)), add_terms(found)

    def exact(self) -> dict[str, float]:
        """Exact expectation values of `known_functions`, where they are known."""
        return self.known.exact(self)

    def exact_draws(self) -> ExactDraws | None:
        """The exact sampler, where there is one."""
        return self.known.exact_draws(self)

    def start(self, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Field:
        """Initial configurations; exact ones come from `exact_draws`."""
        return self.known.start(self, key, kind, chains, dtype)

    def _scaled(self, result: Any) -> Counted:
        value, effort = counted(result)
        return Counted(self.gamma.astype(value.dtype) * value, effort)


def add_terms(results: Any) -> Counted:
    """All terms as a tuple, and all work together."""
    values, efforts = zip(*results, strict=True)
    return Counted(tuple(values), add_efforts(*efforts))


def terms_at(target: Target, x: Field) -> Counted:
    """Terms of all actions but those whose auxiliary fields are still to be drawn."""
    plain = tuple(action for action in target.actions if not action.auxiliary)
    values, effort = eqx.tree_at(lambda t: t.actions, target, plain).terms(x) if plain else Counted((), {})
    found = iter(values)
    return Counted(tuple(None if action.auxiliary else next(found) for action in target.actions), effort)


def sum_terms(terms: AllTerms) -> PerChain:
    """Of all actions together."""
    sums = [sum_sites(each) for each in terms if each is not None]
    return sum(sums[1:], sums[0])


def known_functions(target: Target, x: Field) -> dict[str, PerChain]:
    """What a test of exactness looks at: the moments, and more where more is known."""
    observables = target.observables(x)
    moments = {name: observables[label] ** power for name, (label, power) in target.known.moments.items()}
    return moments | target.known.functions(target, x)


def with_actions(target: Target, actions: Sequence[Action]) -> Target:
    """The same with other actions."""
    return Target(target.geometry, actions, target.observables, target.known, target.gamma)


def with_gamma(target: Target, gamma: ArrayLike) -> Target:
    """The same, annealed."""
    return eqx.tree_at(lambda t: t.gamma, target, jnp.asarray(gamma).astype(target.gamma.dtype))


def for_chains(target: Target, take: Callable[[Field], Field]) -> Target:
    """For some of the chains, whose part of a field `take` gives."""
    return eqx.tree_at(lambda t: t.actions, target, tuple(action.for_chains(take) for action in target.actions))


def energy_change(target: Target, old: tuple[Field, Momentum], new: tuple[Field, Momentum]) -> PerChain:
    """ΔH = H(x′, v′) − H(x, v)."""
    (x, v), (x_new, v_new) = old, new
    terms = target.terms(x).value, target.terms(x_new).value
    return action_change(*terms, x_new) + kinetic_change(target.geometry, v, v_new)


def action_change(old: AllTerms, new: AllTerms, x_new: Field) -> PerChain:
    """S(x′) − S(x), differences first: S itself is of order V, and float32 would lose digits of its change.

    NaN where x′ is not finite, even if the action does not look there: accept/reject must not let it pass.
    """
    change = sum_terms(jax.tree.map(lambda before, after: after - before, old, new))
    return jnp.where(all_finite(x_new), change, jnp.nan)


def kinetic_change(geometry: Geometry, old: Momentum, new: Momentum) -> PerChain:
    """K(v′) − K(v), differences first."""
    return sum_sites(geometry.local_kinetic(new) - geometry.local_kinetic(old))

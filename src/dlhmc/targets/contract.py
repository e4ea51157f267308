"""What a target is: a configuration space with its geometry, an action on it, and what to measure.

Everything outside a target uses only this contract, so a kernel works for angles, vectors and matrices alike.
Arrays carry the chain axis last; couplings are array leaves, so changing them never recompiles.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from dlhmc.names import Start
from dlhmc.numerics import rng

Field = Float[Array, "*field chain"]
PerChain = Float[Array, " chain"]


class Moment(NamedTuple):
    """An expectation value ⟨observable^power⟩ that is reported for a run."""

    observable: str
    power: int = 1


class Symmetry(NamedTuple):
    """A random transformation that leaves the action invariant; the observables named in `odd` change sign."""

    apply: Callable[[Key[Array, ""], Field], Field]
    odd: frozenset[str] = frozenset()


class Transformation(Protocol):
    """A symmetry of the target as a linear map of configurations and momenta."""

    def apply(self, field: Field) -> Field:
        """The transformed field."""

    def undo(self, field: Field) -> Field:
        """The field that `apply` maps to this one."""


class ExactDraws(Protocol):
    """Independent configurations from the target itself: the oracle."""

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Field:
        """Independent configurations, one for each chain."""


class Target(eqx.Module):
    """Base class of all targets p(x) ∝ e^{−S(x)}.

    A target implements `shape`, `local_action`, `observables` and `start`; the geometry below is that of a vector
    space with standard normal momenta, and the force comes from autodiff: override what differs or can be faster.
    """

    #: expectation values to report, by name
    moments: ClassVar[Mapping[str, Moment]] = {}
    #: observables that decorrelate slowly, each with its exact mean, or None; the first one judges the sampler
    slow: ClassVar[Mapping[str, float | None]] = {}
    #: the integer-valued observable that labels topological sectors or modes: its changes are tunnellings
    sector: ClassVar[str | None] = None
    #: whether components of x are angles, on which x·e^{εs} is not a bijection
    compact: ClassVar[bool] = False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one configuration, without the chain axis."""

    @abstractmethod
    def local_action(self, x: Field) -> Float[Array, "*sites chain"]:
        """Terms that add up to the action; kept apart so that differences can be summed term by term."""

    @abstractmethod
    def observables(self, x: Field) -> dict[str, PerChain]:
        """What is measured after each trajectory."""

    @abstractmethod
    def start(self, key: Key[Array, ""], kind: Start, chains: int, dtype: jnp.dtype) -> Field:
        """Initial configurations, hot or cold; exact ones come from `exact_draws`."""

    def action(self, x: Field) -> PerChain:
        """S(x)."""
        return sum_sites(self.local_action(x))

    def force(self, x: Field) -> Field:
        """∂S/∂x."""
        return jax.grad(lambda y: jnp.sum(self.action(y)))(x)

    def momentum(self, key: Key[Array, ""], x: Field) -> Field:
        """Momenta v ~ e^{−K(v)} that belong to the configurations x."""
        return rng.normal(key, x.shape, x.dtype)

    def local_kinetic(self, v: Field) -> Float[Array, "*sites chain"]:
        """Terms that add up to the kinetic energy K(v) = ½ Σ v²."""
        return 0.5 * v * v

    def drift(self, x: Field, displacement: Field) -> Field:
        """X moved by a displacement in the tangent space (a group would use its exponential map here)."""
        return x + displacement

    def wrap(self, x: Field) -> Field:
        """The canonical representative of x, for coordinates that are not unique."""
        return x

    def features(self, x: Field) -> Float[Array, "feature *field chain"]:
        """How a network sees x: functions of each component that are as periodic as it is."""
        return x[None]

    def random_transformation(self, key: Key[Array, ""]) -> "Transformation | None":
        """A uniformly drawn symmetry that acts on configurations and momenta alike, where there are any."""
        return None

    def symmetries(self) -> dict[str, Symmetry]:
        """Transformations that leave the action invariant, by name."""
        return {}

    def exact(self) -> dict[str, float]:
        """Exact expectation values of `test_functions`, where they are known."""
        return {}

    def slow_variance(self, name: str) -> float | None:
        """The exact variance of a slow observable in units of the square of its changes, which are ±1 for a charge.

        It bounds the autocorrelation time of a run in which the observable hardly ever changes. None stands for an
        observable that has lost its memory when it changes.
        """
        second, mean = self.exact().get(f"{name}_squared"), self.slow[name]
        return None if second is None or mean is None else second - mean**2

    def test_functions(self, x: Field) -> dict[str, PerChain]:
        """What a test of exactness looks at: `moments`, and more where more exact values are known."""
        observables = self.observables(x)
        return {name: observables[label] ** power for name, (label, power) in self.moments.items()}

    def exact_draws(self) -> ExactDraws | None:
        """The exact sampler, where there is one."""
        return None


def sum_sites(terms: Float[Array, "*sites chain"]) -> PerChain:
    """Sum over all axes but the chains."""
    return jnp.sum(terms, axis=tuple(range(terms.ndim - 1)))


def energy_change(target: Target, old: tuple[Field, Field], new: tuple[Field, Field]) -> PerChain:
    """ΔH = H(x′, v′) − H(x, v), differences first: H itself is of order V, and float32 would lose digits of ΔH.

    NaN where x′ is not finite, even if the action does not look there: accept/reject must not let it pass.
    """
    (x, v), (x_new, v_new) = old, new
    potential = sum_sites(target.local_action(x_new) - target.local_action(x))
    kinetic = sum_sites(target.local_kinetic(v_new) - target.local_kinetic(v))
    return jnp.where(all_finite(x_new), potential + kinetic, jnp.nan)


def all_finite(x: Field) -> Bool[Array, " chain"]:
    """Whether every number of a configuration is finite."""
    return jnp.all(jnp.isfinite(x), axis=tuple(range(x.ndim - 1)))


#: every target the package offers, with arguments that make a small one: the conformance tests run on all of them
registry: dict[str, Callable[[], Target]] = {}
#: targets that a run knows by name alone, without any arguments
standard: dict[str, Callable[[], Target]] = {}

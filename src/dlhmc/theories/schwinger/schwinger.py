"""The Schwinger model: p(x) ∝ e^{−S_g(x)} det D(x)^{N_f}, with the Wilson gauge action and an even number of flavours.

As it stands, the target has the determinant in its action: all is exact, and takes the time of an LU decomposition. HMC
draws pseudofermions with its momenta (`refresh`): φ = Â η with η ~ e^{−|η|²} turns two flavours into

    S_pf(x) = φ† (Â Â†)⁻¹ φ = |Â⁻¹ φ|²,   ∫ dφ e^{−S_pf} ∝ det Â†Â.

With a heavier mass (Hasenbusch, Phys. Lett. B 519 (2001) 177), W = Â(m + μ), there are two of them, φ₀ = W⁻¹Âη₀ and
φ₁ = Wη₁: |Â⁻¹Wφ₀|² + |W⁻¹φ₁|² stands for the same determinant, and the force of the lighter one is much smaller.

`marginal` is the target that keeps its determinant, for proposals that move the gauge field at one stroke: the
noise of pseudofermions would have most of them rejected.
"""

import functools
from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Complex, Float, Key

from dlhmc.geometry.contract import PerChain
from dlhmc.numerics import rng
from dlhmc.numerics.leaves import leaf
from dlhmc.targets.contract import CountedForce, Effort, Force, Moment, Symmetry, added
from dlhmc.theories.schwinger.determinant import log_determinant
from dlhmc.theories.schwinger.dirac import Dirac, Spinor
from dlhmc.theories.schwinger.solver import conjugate_gradient
from dlhmc.theories.schwinger.starts import PickedDraws
from dlhmc.theories.u1.links import LatticeTransformation, Links
from dlhmc.theories.u1.wilson import U1

# What changes when time and space are exchanged: fermions are antiperiodic in time.
_TURNS = ("reflection of the diagonal", "rotation")


# What the solver tells: applications of Â or Â†, and how often it gave up; and what a determinant takes.
_APPLICATIONS, _FAILURES, _DECOMPOSITIONS = "dirac_applications", "solver_failures", "lu_decompositions"


def _no_effort(x: Links) -> Effort:
    return dict.fromkeys((_APPLICATIONS, _FAILURES), jnp.zeros(x.shape[-1], jnp.int32))


class _Ratio(NamedTuple):
    """An operator, and that of the heavier mass that it is divided by."""

    dirac: Dirac
    heavier: Dirac | None

    def numerator(self, phi: Spinor) -> Spinor:
        """W φ."""
        return phi if self.heavier is None else self.heavier.apply(phi)


class Schwinger(U1):
    """Two-dimensional quantum electrodynamics on a lattice with even sides.

    >>> target = Schwinger((4, 4), beta=2.0, kappa=0.25)
    >>> round(float(target.mass), 6)
    0.0
    """

    moments: ClassVar[Mapping[str, Moment]] = {**U1.moments, "susceptibility": Moment("susceptibility")}
    couplings: ClassVar[tuple[str, ...]] = ("beta", "mass")
    #: gauge steps for each step of the fermions, which cost much more and pull less
    inner_steps: ClassVar[int] = 4
    #: at small masses larger steps are unstable near small eigenvalues of D, and ⟨e^{−ΔH}⟩ cannot be measured
    wanted_acceptance: ClassVar[float] = 0.95

    #: bare mass m of D = m + 2 − H
    mass: Float[Array, ""]
    #: pseudofermions φ of each mass, the lightest first, and each two flavours; the action has the determinant if None
    phi: Complex[Array, "mass pair 2 x half chain"] | None
    flavours: int = eqx.field(static=True)
    #: |φ − Â†Â X| < residual·|φ| in accept/reject, and in the forces
    residual: float = eqx.field(static=True)
    force_residual: float = eqx.field(static=True)
    most_iterations: int = eqx.field(static=True)
    #: μ of a heavier mass m + μ that splits the determinant in two
    hasenbusch: float | None = eqx.field(static=True)
    #: about ⟨Q²⟩: which way learned proposals rather go; they are exact for any number
    expected_charge_squared: float | None = eqx.field(static=True)
    keeps_determinant: bool = eqx.field(static=True)

    def __init__(
        self,
        lattice: tuple[int, int],
        beta: ArrayLike,
        mass: ArrayLike | None = None,
        *,
        kappa: float | None = None,
        flavours: int = 2,
        residual: float = 1e-6,
        force_residual: float = 1e-5,
        most_iterations: int = 2000,
        hasenbusch: float | None = None,
        expected_charge_squared: float | None = None,
        keeps_determinant: bool = False,
    ) -> None:
        if any(side % 2 for side in lattice):
            raise ValueError(f"the lattice is {lattice}, but even and odd sites need even sides")
        if flavours < 2 or flavours % 2:
            raise ValueError(f"flavours is {flavours}, but must be an even number")
        if mass is None:
            if kappa is None:
                raise ValueError("give the mass or kappa = 1/(2·mass + 4)")
            mass = 0.5 / kappa - 2
        elif kappa is not None:
            raise ValueError("give the mass or kappa, not both")
        super().__init__(lattice, beta)
        self.mass = leaf(mass)
        self.hasenbusch = hasenbusch
        self.flavours, self.residual, self.force_residual = flavours, residual, force_residual
        self.most_iterations, self.expected_charge_squared = most_iterations, expected_charge_squared
        self.phi, self.keeps_determinant = None, keeps_determinant

    @property
    def expensive(self) -> bool:
        """Where it keeps the determinant."""
        return self.keeps_determinant

    def action_effort(self, x: Links) -> Effort:
        """One LU decomposition."""
        return {_DECOMPOSITIONS: jnp.ones(x.shape[-1], jnp.int32)} if self.keeps_determinant else {}

    @property
    def kappa(self) -> float:
        """1/(2m + 4)."""
        return 1 / (2 * float(self.mass) + 4)

    def quenched(self) -> U1:
        """The same without fermions, of which there are exact draws."""
        return U1(self.lattice, self.beta)

    def marginal(self) -> Self:
        """The same, with the determinant in place of pseudofermions."""
        return type(self)(
            self.lattice,
            self.beta,
            self.mass,
            flavours=self.flavours,
            residual=self.residual,
            force_residual=self.force_residual,
            most_iterations=self.most_iterations,
            hasenbusch=self.hasenbusch,
            expected_charge_squared=self.expected_charge_squared,
            keeps_determinant=True,
        )

    def charge_variance(self, dtype: jnp.dtype) -> Float[Array, ""]:
        """As given, or that of the gauge theory: fermions make it smaller, by how much depends on their mass."""
        return (
            super().charge_variance(dtype)
            if self.expected_charge_squared is None
            else jnp.asarray(self.expected_charge_squared, dtype)
        )

    @rng.by_chain
    def refresh(self, key: Key[Array, ""], x: Links) -> Self:
        """With φ = Â η, or W⁻¹Â η, and η ~ e^{−|η|²}."""
        if self.keeps_determinant:
            return self
        ratios = self._ratios(x)
        shape = (2, len(ratios), self.flavours // 2, 2, self.lattice[0], self.lattice[1] // 2, x.shape[-1])
        real, imaginary = rng.normal(key, shape, x.dtype) * np.sqrt(0.5).astype(x.dtype)
        eta = jax.lax.complex(real, imaginary)

        def drawn(ratio: _Ratio, eta: Spinor) -> Spinor:
            applied = ratio.dirac.apply(eta)
            return applied if ratio.heavier is None else self.solved(ratio.heavier, applied)[1]

        phi = jnp.stack([jnp.stack([drawn(r, one) for one in pairs]) for r, pairs in zip(ratios, eta, strict=True)])
        return eqx.tree_at(lambda target: target.phi, self, phi, is_leaf=lambda leaf: leaf is None)

    def log_determinant(self, x: Links) -> PerChain:
        """log |det D|."""
        return jnp.sum(log_determinant(x, self.mass), axis=0)

    def _ratios(self, x: Links) -> "tuple[_Ratio, ...]":
        """Those whose inverses make the action, the lightest first."""
        shifts = (0.0,) if self.hasenbusch is None else (0.0, self.hasenbusch)
        diracs = [Dirac.at(x, self.mass + shift) for shift in shifts]
        return tuple(_Ratio(*both) for both in zip(diracs, [*diracs[1:], None], strict=True))

    def local_action(self, x: Links) -> Float[Array, "x terms chain"]:
        """Plaquettes, and beside them what the fermions add."""
        gauge = super().local_action(x)
        if self.phi is None:
            terms = -self.flavours * log_determinant(x, self.mass)
            fermions = jnp.zeros_like(gauge[:, :2]).at[0].set(terms)
        else:
            pairs = [(ratio, phi) for ratio, each in zip(self._ratios(x), self.phi, strict=True) for phi in each]
            y = jnp.stack([self.solved(ratio.dirac, ratio.numerator(phi))[1] for ratio, phi in pairs])
            fermions = jnp.sum(y.real**2 + y.imag**2, axis=(0, 1))
        return jnp.concatenate([gauge, fermions], axis=1)

    def solved(self, dirac: Dirac, phi: Spinor, residual: float | None = None) -> tuple[Spinor, Spinor, Effort]:
        """X = (Â Â†)⁻¹ φ and Y = Â⁻¹ φ = Â†X; NaN where the solver gave up, which accept/reject rejects and counts."""
        wanted = self.residual if residual is None else residual
        found = conjugate_gradient(lambda psi: dirac.apply(dirac.adjoint(psi)), phi, wanted, self.most_iterations)
        x = jnp.where(found.converged, found.x, jnp.nan)
        failures = (~found.converged).astype(found.iterations.dtype)
        return x, dirac.adjoint(x), {_APPLICATIONS: 2 * found.iterations + 1, _FAILURES: failures}

    def force(self, x: Links) -> Links:
        """∂S/∂x."""
        if self.phi is None:
            determinant = jax.grad(lambda y: -self.flavours * jnp.sum(self.log_determinant(y)))(x)
            return super().force(x) + determinant
        total = super().force(x)
        for part in range(len(self.phi)):
            total = total + self._pseudofermion_force(x, part)[0]
        return total

    def forces(self) -> tuple[Force, ...]:
        """Those of the pseudofermions, the lightest first, which is slow, and that of the plaquettes."""
        return tuple(lambda x, force=force: force(x)[0] for force in self.counted_forces())

    def counted_forces(self) -> tuple[CountedForce, ...]:
        """The same with the work of the solver."""
        if self.phi is None:
            return (lambda x: (self.force(x), {}),)
        plaquettes = super().force
        slow = [functools.partial(self._pseudofermion_force, part=part) for part in range(len(self.phi))]
        return (*slow, lambda x: (plaquettes(x), {}))

    def _pseudofermion_force(self, x: Links, part: int) -> tuple[Links, Effort]:
        """dS_pf = 2 Re X† (dW φ − dÂ Y), with W = 1 for the heaviest."""
        if self.phi is None:
            raise TypeError("there are no pseudofermions: refresh draws them")
        ratio, effort = self._ratios(x)[part], _no_effort(x)
        solutions = []
        for phi in self.phi[part]:
            *pair, more = self.solved(ratio.dirac, ratio.numerator(phi), self.force_residual)
            solutions.append((*pair, phi))
            effort = added(effort, more)

        def work(x: Links) -> Float[Array, ""]:
            ratio = self._ratios(x)[part]
            moved = [(a, ratio.numerator(phi) - ratio.dirac.apply(b)) for a, b, phi in solutions]
            return 2 * jnp.sum(jnp.stack([jnp.sum((a.conj() * b).real) for a, b in moved]))

        return jax.grad(work)(x), effort

    def observables(self, x: Links) -> dict[str, PerChain]:
        """Plaquette, both charges, and Q²/V, whose mean is the topological susceptibility."""
        found = super().observables(x)
        return found | {"susceptibility": found["charge"] ** 2 / self.volume}

    # What is known exactly about the pure gauge theory does not hold here.

    def exact(self) -> dict[str, float]:
        """Nothing."""
        return {}

    def test_functions(self, x: Links) -> dict[str, PerChain]:
        """Those of the gauge field."""
        return super(U1, self).test_functions(x)

    def exact_draws(self) -> None:  # type: ignore[override]
        """None: `reweighted` has exact draws of the gauge theory, weighted by the determinant."""
        return

    def approximate_draws(self) -> PickedDraws:
        """Exact draws of the gauge theory, picked by the determinant."""
        return PickedDraws(self.quenched().exact_draws(), self.mass, self.flavours)

    def condensate(self, x: Links) -> PerChain:
        """Re tr D⁻¹/V = ∂ log det D/∂m /V, exactly."""
        one = jnp.ones_like(self.mass)
        derivative = jax.jvp(lambda m: Dirac.at(x, m).log_determinant(), (self.mass,), (one,))[1]
        return derivative / self.volume

    def symmetries(self) -> dict[str, Symmetry]:
        """Those of the gauge theory that leave time as it is."""
        return {name: symmetry for name, symmetry in super().symmetries().items() if name not in _TURNS}

    @rng.by_chain
    def random_transformation(self, key: Key[Array, ""]) -> LatticeTransformation:
        """Translations, reflections and charge conjugation."""
        every = super().random_transformation(key)
        return LatticeTransformation(every.shift, every.conjugate, every.reflected, None)

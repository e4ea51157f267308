"""The Schwinger model: p(x) ∝ e^{−S_g(x)} det D(x)^{N_f}, with the Wilson gauge action and an even number of flavours.

As it stands, the target has the determinant in its action: all is exact, and takes the time of an LU decomposition. HMC
draws pseudofermions with its momenta (`refresh`): φ = Â η with η ~ e^{−|η|²} turns two flavours into

    S_pf(x) = φ† (Â Â†)⁻¹ φ = |Â⁻¹ φ|²,   ∫ dφ e^{−S_pf} ∝ det Â†Â.

`marginal` is the target that keeps its determinant, for proposals that move the gauge field at one stroke: the
noise of pseudofermions would have most of them rejected.
"""

from collections.abc import Mapping
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Complex, Float, Key

from dlhmc.geometry.contract import PerChain
from dlhmc.numerics import rng
from dlhmc.numerics.leaves import leaf
from dlhmc.targets.contract import Force, Moment, Symmetry
from dlhmc.theories.schwinger.dirac import Dirac, Spinor
from dlhmc.theories.schwinger.solver import conjugate_gradient
from dlhmc.theories.u1.links import LatticeTransformation, Links
from dlhmc.theories.u1.wilson import U1

# What changes when time and space are exchanged: fermions are antiperiodic in time.
_TURNS = ("reflection of the diagonal", "rotation")


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
    #: pseudofermions φ, one for each two flavours; without them the action has the determinant
    phi: Complex[Array, "pair 2 x half chain"] | None
    flavours: int = eqx.field(static=True)
    #: |φ − Â†Â X| < residual·|φ| in accept/reject, and in the forces
    residual: float = eqx.field(static=True)
    force_residual: float = eqx.field(static=True)
    most_iterations: int = eqx.field(static=True)
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
        self.flavours, self.residual, self.force_residual = flavours, residual, force_residual
        self.most_iterations, self.expected_charge_squared = most_iterations, expected_charge_squared
        self.phi, self.keeps_determinant = None, keeps_determinant

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
        """With φ = Â η, η ~ e^{−|η|²}."""
        if self.keeps_determinant:
            return self
        shape = (2, self.flavours // 2, 2, self.lattice[0], self.lattice[1] // 2, x.shape[-1])
        real, imaginary = rng.normal(key, shape, x.dtype) * np.sqrt(0.5).astype(x.dtype)
        eta = jax.lax.complex(real, imaginary)
        dirac = Dirac.at(x, self.mass)
        phi = jnp.stack([dirac.apply(one) for one in eta])
        return eqx.tree_at(lambda target: target.phi, self, phi, is_leaf=lambda leaf: leaf is None)

    def log_determinant(self, x: Links) -> PerChain:
        """log |det D|, in the precision of x."""
        return Dirac.at(x, self.mass).log_determinant()

    def local_action(self, x: Links) -> Float[Array, "x terms chain"]:
        """Plaquettes, and beside them what the fermions add."""
        gauge = super().local_action(x)
        if self.phi is None:
            fermions = jnp.zeros_like(gauge[:, :1]).at[0, 0].set(-self.flavours * self.log_determinant(x))
        else:
            dirac = Dirac.at(x, self.mass)
            y = jnp.stack([self.solved(dirac, phi)[1] for phi in self.phi])
            fermions = jnp.sum(y.real**2 + y.imag**2, axis=(0, 1))
        return jnp.concatenate([gauge, fermions], axis=1)

    def solved(self, dirac: Dirac, phi: Spinor, residual: float | None = None) -> tuple[Spinor, Spinor]:
        """X = (Â Â†)⁻¹ φ and Y = Â⁻¹ φ = Â†X; NaN where the solver gave up, which accept/reject rejects and counts."""
        wanted = self.residual if residual is None else residual
        found = conjugate_gradient(lambda psi: dirac.apply(dirac.adjoint(psi)), phi, wanted, self.most_iterations)
        x = jnp.where(found.converged, found.x, jnp.nan)
        return x, dirac.adjoint(x)

    def force(self, x: Links) -> Links:
        """∂S/∂x."""
        if self.phi is None:
            determinant = jax.grad(lambda y: -self.flavours * jnp.sum(self.log_determinant(y)))(x)
            return super().force(x) + determinant
        return super().force(x) + self._pseudofermion_force(x)

    def forces(self) -> tuple[Force, ...]:
        """That of the pseudofermions, which is slow, and that of the plaquettes."""
        return (self.force,) if self.phi is None else (self._pseudofermion_force, super().force)

    def _pseudofermion_force(self, x: Links) -> Links:
        """dS_pf = −2 Re X† (dÂ) Y."""
        if self.phi is None:
            raise TypeError("there are no pseudofermions: refresh draws them")
        dirac = Dirac.at(x, self.mass)
        pairs = [self.solved(dirac, phi, self.force_residual) for phi in self.phi]

        def work(x: Links) -> Float[Array, ""]:
            dirac = Dirac.at(x, self.mass)
            return -2 * jnp.sum(jnp.stack([jnp.sum((a.conj() * dirac.apply(b)).real) for a, b in pairs]))

        return jax.grad(work)(x)

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

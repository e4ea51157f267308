"""The Schwinger model: p(x) ∝ e^{−S_g(x)} det D(x)^{N_f}, with the Wilson gauge action and an even number of flavours.

As it stands, the target has the determinant in its action: all is exact, and takes the time of an LU decomposition. HMC
draws pseudofermions with its momenta (`refresh`): φ = Â η with η ~ e^{−|η|²} turns two flavours into

    S_pf(x) = φ† (Â Â†)⁻¹ φ = |Â⁻¹ φ|²,   ∫ dφ e^{−S_pf} ∝ det Â†Â.

With heavier masses (Hasenbusch, Phys. Lett. B 519 (2001) 177), Â_k = Â(m + μ_k) and 0 = μ₀ < μ₁ < … < μ_K, there are
several of them, φ_k = Â_{k+1}⁻¹ Â_k η_k and φ_K = Â_K η_K:

    S_pf(x) = Σ_{k<K} |Â_k⁻¹ Â_{k+1} φ_k|² + |Â_K⁻¹ φ_K|²

stands for the same determinant, and the force of the lightest is much smaller.

`marginal` is for proposals x′ that move the gauge field at one stroke: the noise of one pseudofermion would have most
of them rejected. It keeps the determinant; or, with `ratio_masses`, it has many heavier masses. Each ratio is then
close to 1, and the variance of S_pf(x′) − S_pf(x) falls like 1/K. That is exact for any K: (x, φ) → (x′, φ) leaves
their joint density invariant, and so does drawing φ anew at x before each proposal.
"""

import functools
from collections.abc import Mapping
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Complex, Float, Key

from dlhmc.exact.von_mises import U1Draws
from dlhmc.geometry.contract import PerChain
from dlhmc.numerics import rng
from dlhmc.numerics.leaves import parameter
from dlhmc.targets.contract import CountedForce, Effort, Force, Moment, Symmetry
from dlhmc.theories.schwinger.determinant import log_determinant
from dlhmc.theories.schwinger.dirac import Dirac, Spinor
from dlhmc.theories.schwinger.solver import solve
from dlhmc.theories.schwinger.starts import PickedDraws
from dlhmc.theories.schwinger.theory import Mass
from dlhmc.theories.u1.links import Links
from dlhmc.theories.u1.wilson import U1

# What changes when time and space are exchanged: fermions are antiperiodic in time.
_TURNS = ("reflection of the diagonal", "rotation")

# What the solver tells: applications of Â or Â†, and how often it gave up; and what a determinant takes.
_APPLICATIONS, _FAILURES, _DECOMPOSITIONS = "dirac_applications", "solver_failures", "lu_decompositions"
# For each pseudofermion.
Spinors = Complex[Array, "part 2 x half chain"]
#: links, m + μ_k + 2, and right-hand sides
Equations = tuple[Dirac, Float[Array, " part"], Spinors]
# ε of `ratio_chain`.
_LEAST = 0.1


def _applied(links: Dirac, diagonals: Float[Array, " part"], psi: Spinors) -> Spinors:
    """Â_k ψ_k."""
    return jax.vmap(lambda diagonal, one: links._replace(diagonal=diagonal).apply(one))(diagonals, psi)


def _and_applied(effort: Effort, times: int) -> Effort:
    """With so many applications of Â beside those of the solver."""
    return {**effort, _APPLICATIONS: effort[_APPLICATIONS] + times}


def ratio_chain(number: int) -> tuple[float, ...]:
    """μ_k = ε((1 + μ_K/ε)^{k/K} − 1) with μ_K = √K: all parts have about the same share in the variance of S_pf.

    That of the heaviest is ∝ (m + 2 + μ_K)⁻⁴, that of each ratio ∝ K⁻²; below ε there are only few eigenvalues.
    """
    steps = np.arange(1, number + 1) / max(number, 1)
    return tuple(float(_LEAST * ((1 + number**0.5 / _LEAST) ** step - 1)) for step in steps)


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
    #: pseudofermions φ of each two flavours of each mass, the lightest first; the action has the determinant if None
    phi: Spinors | None
    #: Σ |η|² on each site, which is S_pf where φ was drawn
    drawn: Float[Array, "x half chain"] | None
    #: what drawing φ took
    drawing: Effort | None
    flavours: int = eqx.field(static=True)
    #: |φ − Â†Â X| < residual·|φ| in accept/reject, and in the forces
    residual: float = eqx.field(static=True)
    force_residual: float = eqx.field(static=True)
    most_iterations: int = eqx.field(static=True)
    #: μ of heavier masses m + μ that split the determinant, in ascending order
    hasenbusch: tuple[float, ...] = eqx.field(static=True)
    #: heavier masses in proposals that move the gauge field at one stroke; 0 for the determinant itself
    ratio_masses: int = eqx.field(static=True)
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
        hasenbusch: tuple[float, ...] = (),
        ratio_masses: int = 0,
        expected_charge_squared: float | None = None,
        keeps_determinant: bool = False,
    ) -> None:
        if any(side % 2 for side in lattice):
            raise ValueError(f"the lattice is {lattice}, but even and odd sites need even sides")
        if flavours < 2 or flavours % 2:
            raise ValueError(f"flavours is {flavours}, but must be an even number")
        if list(hasenbusch) != sorted({mu for mu in hasenbusch if mu > 0}):
            raise ValueError(f"hasenbusch is {hasenbusch}, but must be positive numbers in ascending order")
        if mass is None:
            if kappa is None:
                raise ValueError("give the mass or kappa = 1/(2·mass + 4)")
            mass = 0.5 / kappa - 2
        elif kappa is not None:
            raise ValueError("give the mass or kappa, not both")
        super().__init__(lattice, beta)
        self.mass = parameter("mass", mass, Mass)
        self.hasenbusch, self.ratio_masses = tuple(hasenbusch), ratio_masses
        self.flavours, self.residual, self.force_residual = flavours, residual, force_residual
        self.most_iterations, self.expected_charge_squared = most_iterations, expected_charge_squared
        self.phi, self.drawn, self.drawing, self.keeps_determinant = None, None, None, keeps_determinant

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

    def guide(self) -> U1:
        """The gauge action."""
        return self.quenched()

    def marginal(self) -> Self:
        """The same, with the determinant in place of pseudofermions, or with so many that their noise is small."""
        return self.split(ratio_chain(self.ratio_masses), keeps_determinant=not self.ratio_masses)

    def split(self, hasenbusch: tuple[float, ...], *, keeps_determinant: bool = False) -> Self:
        """The same with other heavier masses, or with the determinant itself."""
        return type(self)(
            self.lattice,
            self.beta,
            self.mass,
            flavours=self.flavours,
            residual=self.residual,
            force_residual=self.force_residual,
            most_iterations=self.most_iterations,
            hasenbusch=hasenbusch,
            ratio_masses=self.ratio_masses,
            expected_charge_squared=self.expected_charge_squared,
            keeps_determinant=keeps_determinant,
        )

    def slow_variance(self, name: str) -> float | None:
        """Of the charge, which changes by ±1, as given; races also learn it from samplers that tunnel."""
        return self.expected_charge_squared if name == "charge" else None

    @rng.by_chain
    def refresh(self, key: Key[Array, ""], x: Links) -> Self:
        """With φ_k = Â_{k+1}⁻¹ Â_k η_k, and η ~ e^{−|η|²}."""
        if self.keeps_determinant:
            return self
        own, heavier = self._diagonals(x.dtype)
        shape = (2, len(own), 2, self.lattice[0], self.lattice[1] // 2, x.shape[-1])
        real, imaginary = rng.normal(key, shape, x.dtype) * np.sqrt(0.5).astype(x.dtype)
        links = Dirac.at(x, self.mass)
        phi, ratios = _applied(links, own, jax.lax.complex(real, imaginary)), len(heavier)
        _, solutions, effort = self._solved_each(links, heavier, phi[:ratios])
        phi = jnp.concatenate([solutions, phi[ratios:]])
        drawn = jnp.sum(real**2 + imaginary**2, axis=(0, 1))
        new = phi, drawn, _and_applied(effort, len(own))
        return eqx.tree_at(lambda t: (t.phi, t.drawn, t.drawing), self, new, is_leaf=lambda leaf: leaf is None)

    def refresh_effort(self) -> Effort:
        """One application for each pseudofermion, and the solutions for those of ratios."""
        return self.drawing or {}

    def _diagonals(self, dtype: jnp.dtype) -> tuple[Float[Array, " part"], Float[Array, " lighter"]]:
        """m + μ_k + 2 of each pseudofermion, and m + μ_{k+1} + 2 of all but the heaviest."""
        pairs = self.flavours // 2
        each = jnp.repeat(self.mass.astype(dtype) + 2 + np.asarray((0.0, *self.hasenbusch), dtype), pairs)
        return each, each[pairs:]

    def log_determinant(self, x: Links) -> PerChain:
        """log |det D|."""
        return jnp.sum(log_determinant(x, self.mass), axis=0)

    def local_action(self, x: Links) -> Float[Array, "x terms chain"]:
        """Plaquettes, and beside them what the fermions add."""
        return self.counted_action(x)[0]

    def counted_action(self, x: Links) -> tuple[Float[Array, "x terms chain"], Effort]:
        """The same with the work of the solver, or of LU."""
        gauge = super().local_action(x)
        if self.phi is None:
            terms = -self.flavours * log_determinant(x, self.mass)
            fermions, effort = jnp.zeros_like(gauge[:, :2]).at[0].set(terms), self.action_effort(x)
        else:
            fermions, effort = self._pseudofermion_action(x, slice(None), self.residual)
        return jnp.concatenate([gauge, fermions], axis=1), effort

    def action_of_origin(self, x: Links) -> Float[Array, "x terms chain"]:
        """The same where φ was drawn, without a solution: S_pf = |η|²."""
        if self.drawn is None:
            return self.local_action(x)
        return jnp.concatenate([super().local_action(x), self.drawn], axis=1)

    def _equations(self, x: Links, parts: slice) -> Equations:
        """Â Y = b of these parts, with b = Â_{k+1}φ, or φ for the heaviest."""
        if self.phi is None:
            raise TypeError("there are no pseudofermions: refresh draws them")
        own, heavier = (diagonals[parts] for diagonals in self._diagonals(x.dtype))
        links, phi, ratios = Dirac.at(x, self.mass), self.phi[parts], len(heavier)
        return links, own, jnp.concatenate([_applied(links, heavier, phi[:ratios]), phi[ratios:]])

    def _pseudofermion_action(
        self, x: Links, parts: slice, residual: float, to_solve: Equations | None = None
    ) -> tuple[Float[Array, "x half chain"], Effort]:
        """Of these parts: |Y|² on each site with Y = Â⁻¹b; what is solved may be given, and is held fixed otherwise.

        With X = (ÂÂ†)⁻¹b, |Y|² + 2 Re X†(b − ÂY) has the same value and, for fixed X and Y, the derivative of S_pf,
        2 Re X†(db − dÂ Y). Nothing needs to be known about how the solver found them.
        """
        equations = links, own, b = self._equations(x, parts)
        to_solve = jax.lax.stop_gradient(equations) if to_solve is None else to_solve
        a, y, effort = self._solved_each(*to_solve, residual)
        missing = b - _applied(links, own, y)
        terms = y.real**2 + y.imag**2 + 2 * (a.real * missing.real + a.imag * missing.imag)
        ratios = self._diagonals(x.dtype)[1][parts]
        return jnp.sum(terms, axis=(0, 1)), _and_applied(effort, len(ratios) + len(own))

    def _solved_each(
        self, links: Dirac, diagonals: Float[Array, " part"], b: Spinors, residual: float | None = None
    ) -> tuple[Spinors, Spinors, Effort]:
        """As `solved`, one after the other: heavier masses take fewer iterations."""

        def solve(part: tuple[Float[Array, ""], Spinor]) -> tuple[Spinor, Spinor, Effort]:
            return self.solved(links._replace(diagonal=part[0]), part[1], residual)

        x, y, effort = jax.lax.map(solve, (diagonals, b))
        return x, y, jax.tree.map(lambda each: jnp.sum(each, axis=0), effort)

    def solved(self, dirac: Dirac, phi: Spinor, residual: float | None = None) -> tuple[Spinor, Spinor, Effort]:
        """X = (Â Â†)⁻¹ φ and Y = Â⁻¹ φ = Â†X; NaN where the solver gave up, which accept/reject rejects and counts."""
        wanted = self.residual if residual is None else residual
        found = solve(lambda psi: dirac.apply(dirac.adjoint(psi)), phi, wanted, self.most_iterations)
        x = jnp.where(found.converged, found.x, jnp.nan)
        failures = (~found.converged).astype(found.iterations.dtype)
        return x, dirac.adjoint(x), {_APPLICATIONS: 2 * found.iterations + 1, _FAILURES: failures}

    def force(self, x: Links) -> Links:
        """∂S/∂x."""
        if self.phi is None:
            determinant = jax.grad(lambda y: -self.flavours * jnp.sum(self.log_determinant(y)))(x)
            return super().force(x) + determinant
        return super().force(x) + self._pseudofermion_force(x, slice(None))[0]

    def forces(self) -> tuple[Force, ...]:
        """Those of the pseudofermions, the lightest first, which is slow, and that of the plaquettes."""
        return tuple(lambda x, force=force: force(x)[0] for force in self.counted_forces())

    def counted_forces(self) -> tuple[CountedForce, ...]:
        """The same with the work of the solver."""
        if self.phi is None:
            return (lambda x: (self.force(x), self.action_effort(x)),)
        plaquettes = super().force
        pairs = self.flavours // 2
        masses = [slice(first, first + pairs) for first in range(0, len(self.phi), pairs)]
        slow = [functools.partial(self._pseudofermion_force, parts=parts) for parts in masses]
        return (*slow, lambda x: (plaquettes(x), {}))

    def _pseudofermion_force(self, x: Links, parts: slice) -> tuple[Links, Effort]:
        # The force itself can be differentiated: the solutions then change with x.
        to_solve = self._equations(x, parts)

        def action(x: Links) -> tuple[Float[Array, ""], Effort]:
            terms, effort = self._pseudofermion_action(x, parts, self.force_residual, to_solve)
            return jnp.sum(terms), effort

        return jax.grad(action, has_aux=True)(x)

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

    def exact_draws(self) -> None:
        """None: `reweighted` has exact draws of the gauge theory, weighted by the determinant."""
        return

    def approximate_draws(self) -> PickedDraws:
        """Exact draws of the gauge theory, picked by the determinant."""
        return PickedDraws(U1Draws.build(self.lattice, float(self.beta)), self.mass, self.flavours)

    def condensate(self, x: Links) -> PerChain:
        """Re tr D⁻¹/V = ∂ log det D/∂m /V, exactly."""
        one = jnp.ones_like(self.mass)
        derivative = jax.jvp(lambda m: Dirac.at(x, m).log_determinant(), (self.mass,), (one,))[1]
        return derivative / self.volume

    def symmetries(self) -> dict[str, Symmetry]:
        """Those of the gauge theory that leave time as it is."""
        return {name: symmetry for name, symmetry in super().symmetries().items() if name not in _TURNS}

"""Wilson fermions of U(1) in two dimensions: the determinant itself, or pseudofermions.

An even number N_f of flavours has the weight det D(x)^{N_f}. HMC draws pseudofermions with its momenta: φ = Â η with
η ~ e^{−|η|²} turns two flavours into

    S_pf(x) = φ† (Â Â†)⁻¹ φ = |Â⁻¹ φ|²,   ∫ dφ e^{−S_pf} ∝ det Â†Â.

With heavier masses (Hasenbusch, Phys. Lett. B 519 (2001) 177), Â_k = Â(m + μ_k) and 0 = μ₀ < μ₁ < … < μ_K, there are
several of them, φ_k = Â_{k+1}⁻¹ Â_k η_k and φ_K = Â_K η_K:

    S_pf(x) = Σ_{k<K} |Â_k⁻¹ Â_{k+1} φ_k|² + |Â_K⁻¹ φ_K|²

stands for the same determinant, and the force of the lightest is much smaller. Each is an action of its own.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Complex, Float, Key

from dlhmc.actions.contract import Action, Counted, Effort, add_efforts
from dlhmc.fermions.determinant import log_determinant
from dlhmc.fermions.dirac import Dirac, Spinor
from dlhmc.fermions.solver import invert
from dlhmc.geometry.contract import Geometry, Momentum
from dlhmc.lattice.links import Links
from dlhmc.numerics import rng
from dlhmc.numerics.leaves import leaf

#: for each two flavours
Spinors = Complex[Array, "pair 2 x half chain"]


class Precision(NamedTuple):
    """How well the solver solves: |φ − Â†Â X| < residual·|φ| in accept/reject, and in forces, within so many steps."""

    action: float = 1e-6
    force: float = 1e-5
    most_iterations: int = 2000


PRECISE = Precision()


class Determinant(Action):
    """−N_f log |det D|, exactly; it takes the time of an LU decomposition."""

    mass: Float[Array, ""] = eqx.field(converter=leaf)
    flavours: int = eqx.field(static=True, default=2)

    def terms(self, x: Links) -> Counted:
        terms = -self.flavours * log_determinant(x, self.mass)
        return Counted(terms, {"lu_decompositions": jnp.ones(x.shape[-1], jnp.int32)})

    def force(self, geometry: Geometry, x: Links) -> Counted:
        determinant = jax.grad(lambda y: -self.flavours * jnp.sum(log_determinant(y, self.mass)))(x)
        return Counted(determinant, {"lu_decompositions": jnp.ones(x.shape[-1], jnp.int32)})


class Pseudofermions(Action):
    """|Â(m)⁻¹ φ|², or with a heavier mass |Â(m)⁻¹ Â(heavier) φ|², for each two flavours."""

    auxiliary: ClassVar[bool] = True

    mass: Float[Array, ""] = eqx.field(converter=leaf)
    heavier: Float[Array, ""] | None = None
    flavours: int = eqx.field(static=True, default=2)
    precision: Precision = eqx.field(static=True, default=PRECISE)
    #: of each chain, once they are drawn
    phi: Spinors | None = None

    def for_chains(self, take: Callable[[Links], Links]) -> "Pseudofermions":
        return self if self.phi is None else self._with(take(self.phi))

    def _with(self, phi: Spinors) -> "Pseudofermions":
        return Pseudofermions(self.mass, self.heavier, self.flavours, self.precision, phi)

    @rng.by_chain
    def refresh(self, key: Key[Array, ""], gamma: Float[Array, ""], x: Links) -> tuple["Pseudofermions", Counted]:
        """φ = Â(heavier)⁻¹ Â η with η ~ e^{−γ|η|²}: there S is |η|²."""
        shape = (2, self.flavours // 2, 2, x.shape[1], x.shape[2] // 2, x.shape[3])
        scale = jnp.sqrt(0.5 / gamma).astype(x.dtype)
        real, imaginary = scale * rng.normal(key, shape, x.dtype)
        phi = self._apply(Dirac.at(x, self.mass), jax.lax.complex(real, imaginary))
        effort: Effort = {"dirac_applications": jnp.full(x.shape[-1], len(phi), jnp.int32)}
        if self.heavier is not None:
            _, phi, work = self._solve(Dirac.at(x, self.heavier), phi, self.precision.action)
            effort = add_efforts(work, effort)
        return self._with(phi), Counted(jnp.sum(real**2 + imaginary**2, axis=(0, 1)), effort)

    def terms(self, x: Links) -> Counted:
        return self._norms(x, self.precision.action)

    def force(self, geometry: Geometry, x: Links) -> Momentum | Counted:
        # The force itself can be differentiated: the solutions then change with x.
        to_solve = self._equation(x)

        def action(y: Links) -> tuple[Float[Array, ""], Effort]:
            terms, effort = self._norms(y, self.precision.force, to_solve)
            return jnp.sum(terms), effort

        return Counted(*jax.grad(action, has_aux=True)(x))

    def _equation(self, x: Links) -> tuple[Dirac, Spinors]:
        """Â Y = b, with b = Â(heavier)φ or φ."""
        if self.phi is None:
            raise TypeError("there are no pseudofermions: refresh draws them")
        b = self.phi if self.heavier is None else self._apply(Dirac.at(x, self.heavier), self.phi)
        return Dirac.at(x, self.mass), b

    def _norms(self, x: Links, residual: float, to_solve: tuple[Dirac, Spinors] | None = None) -> Counted:
        """|Y|² on each site with Y = Â⁻¹b; what is solved may be given, and is held fixed otherwise.

        With X = (ÂÂ†)⁻¹b, |Y|² + 2 Re X†(b − ÂY) has the same value and, for fixed X and Y, the derivative of S_pf,
        2 Re X†(db − dÂ Y). Nothing needs to be known about how the solver found them.
        """
        dirac, b = equation = self._equation(x)
        to_solve = jax.lax.stop_gradient(equation) if to_solve is None else to_solve
        a, y, effort = self._solve(to_solve[0], to_solve[1], residual)
        missing = b - self._apply(dirac, y)
        terms = y.real**2 + y.imag**2 + 2 * (a.real * missing.real + a.imag * missing.imag)
        applied = jnp.full(x.shape[-1], len(b) * (1 if self.heavier is None else 2), jnp.int32)
        return Counted(jnp.sum(terms, axis=(0, 1)), add_efforts(effort, {"dirac_applications": applied}))

    def _apply(self, dirac: Dirac, psi: Spinors) -> Spinors:
        return jax.vmap(dirac.apply)(psi)

    def _solve(self, dirac: Dirac, b: Spinors, residual: float) -> tuple[Spinors, Spinors, Effort]:
        """X = (Â Â†)⁻¹ b and Y = Â⁻¹ b for each pair of flavours, one after the other."""

        def solve(one: Spinor) -> tuple[Spinor, Spinor, Effort]:
            return invert(dirac, one, residual, self.precision.most_iterations)

        x, y, effort = jax.lax.map(solve, b)
        return x, y, jax.tree.map(lambda each: jnp.sum(each, axis=0, dtype=each.dtype), effort)


def split_determinant(
    mass: ArrayLike, flavours: int = 2, hasenbusch: Sequence[float] = (), precision: Precision = PRECISE
) -> list[Pseudofermions]:
    """Pseudofermions for the determinant, split by heavier masses m + μ, the lightest and slowest first."""
    masses = [leaf(mass), *(leaf(mass) + leaf(mu) for mu in hasenbusch)]
    return [
        Pseudofermions(light, heavy, flavours, precision)
        for light, heavy in zip(masses, [*masses[1:], None], strict=True)
    ]

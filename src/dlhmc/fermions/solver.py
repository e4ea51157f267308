"""Conjugate gradients for all chains at once."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Complex, Float, Int

from dlhmc.fermions.dirac import Dirac, Spinor
from dlhmc.geometry.contract import PerChain, sum_sites

Vector = Complex[Array, "*field chain"]


class Solution(NamedTuple):
    """x with A x ≈ b."""

    x: Vector
    iterations: Int[Array, " chain"]
    converged: Bool[Array, " chain"]


def conjugate_gradient(matrix: Callable[[Vector], Vector], b: Vector, residual: float, most: int) -> Solution:
    """Solve A x = b for a Hermitian, positive A until |b − A x| < residual·|b| in each chain, from x = 0.

    A chain that has converged is left as it is: what it gets does not depend on the others. From 0 and not from an
    earlier solution, because forces must be functions of the configuration alone for a trajectory to be reversible.
    """
    Carry = tuple[Int[Array, ""], Int[Array, " chain"], Vector, Vector, Vector, PerChain]
    wanted = jnp.square(jnp.asarray(residual, b.real.dtype)) * _norm(b)

    def unfinished(carry: Carry) -> Bool[Array, ""]:
        count, *_, rho = carry
        return (count < most) & jnp.any(rho > wanted)

    def iterate(carry: Carry) -> Carry:
        count, own, x, r, p, rho = carry
        ap = matrix(p)
        going = rho > wanted
        alpha = jnp.where(going, rho / _positive(_dot(p, ap)), 0).astype(p.dtype)
        x, r = x + alpha * p, r - alpha * ap
        rho_new = jnp.where(going, _norm(r), rho)
        beta = jnp.where(going, rho_new / _positive(rho), 0).astype(p.dtype)
        return count + 1, own + going.astype(own.dtype), x, r, jnp.where(going, r + beta * p, p), rho_new

    none = jnp.zeros(b.shape[-1], jnp.int32)
    start = (jnp.zeros((), jnp.int32), none, jnp.zeros_like(b), b, b, _norm(b))
    _, own, x, _, _, rho = jax.lax.while_loop(unfinished, iterate, start)
    return Solution(x, own, rho <= wanted)


def solve(matrix: Callable[[Vector], Vector], b: Vector, residual: float, most: int) -> Solution:
    """The same with the derivative of a solution: A dx = db − dA x is solved as precisely."""

    def solution(matrix: Callable[[Vector], Vector], b: Vector) -> tuple[Vector, tuple[Array, Array]]:
        x, *about = conjugate_gradient(matrix, b, residual, most)
        return x, (about[0], about[1])

    x, (iterations, converged) = jax.lax.custom_linear_solve(matrix, b, solution, has_aux=True)
    return Solution(x, iterations, converged)


def invert(
    dirac: Dirac, b: Spinor, residual: float, most: int
) -> tuple[Spinor, Spinor, dict[str, Int[Array, " chain"]]]:
    """X = (Â Â†)⁻¹ b and Y = Â⁻¹ b = Â†X; NaN where the solver gave up, which accept/reject rejects and counts.

    The work is told as applications of Â or Â†, and how often the solver gave up.
    """
    found = solve(lambda psi: dirac.apply(dirac.adjoint(psi)), b, residual, most)
    x = jnp.where(found.converged, found.x, jnp.nan)
    failures = (~found.converged).astype(found.iterations.dtype)
    return x, dirac.adjoint(x), {"dirac_applications": 2 * found.iterations + 1, "solver_failures": failures}


def _dot(a: Vector, b: Vector) -> PerChain:
    return sum_sites(a.real * b.real + a.imag * b.imag)


def _norm(a: Vector) -> PerChain:
    return _dot(a, a)


def _positive(number: Float[Array, " chain"]) -> Float[Array, " chain"]:
    """Where a chain is done, or has failed, it may be 0."""
    return jnp.where(number > 0, number, 1)

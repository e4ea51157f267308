"""Rounding errors of a run: whether its trajectories are reversible, and its ΔH is that of double precision.

Accept/reject is exact for exact arithmetic. What rounding does to it is measured on a few trajectories, which are no
part of the run: their momenta come from random numbers of their own, and nothing that they find goes into the chains.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from numpy.typing import NDArray

from dlhmc.geometry.contract import Field, Momentum, PerChain
from dlhmc.kernels.contract import Kernel, RoundTrip
from dlhmc.numerics import rng
from dlhmc.numerics.leaves import in_double, integer
from dlhmc.targets.contract import Target, energy_change

#: errors in the probability of acceptance that are too large: an error of δ in ΔH changes it by δ at most, and a
#: sampler by as much as if its target were wrong by δ. Sound runs are far below: 2e-4 was the largest error seen on
#: lattices up to 64×64.
TOLERANCE = 0.01
_CHAINS = 16


@dataclasses.dataclass(frozen=True)
class Precision:
    """Rounding errors of some trajectories, each an average over chains but for the distance."""

    #: checks that this sums up; of each figure the largest
    checks: int
    #: |A(float32) − A(float64)| of the probabilities of acceptance; None in a run with double precision
    acceptance_error: float | None
    #: change of the energy on the way there and back, as far as it is accepted
    irreversibility: float
    #: largest distance of a component of x from where it started, there and back
    distance: float

    @property
    def fine(self) -> bool:
        """Whether the run can be trusted."""
        return max(self.irreversibility, self.acceptance_error or 0.0) <= TOLERANCE

    def worst(self, other: "Precision | None") -> "Precision":
        """Both checks in one."""
        if other is None:
            return self
        checks, *pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        largest: list[Any] = [None if None in pair else max(pair) for pair in pairs]
        return Precision(sum(checks), *largest)

    def __str__(self) -> str:
        acceptance = ""
        if self.acceptance_error is not None:
            acceptance = f"{self.acceptance_error:.1g} in the probability of acceptance, "
        others = f"{self.irreversibility:.1g} in the energy there and back, {self.distance:.1g} in x"
        return f"{acceptance}{others} ({self.checks} {'check' if self.checks == 1 else 'checks'})"


def check_precision(kernel: Kernel, x: NDArray[Any], seed: int, step: int) -> Precision | None:
    """Rounding errors of trajectories that start at the first few chains of x; None if the kernel makes none.

    >>> from dlhmc import HMC, Gaussian
    >>> kernel = HMC(Gaussian([1.0, 2.0]), step_size=0.2, steps=5)
    >>> check_precision(kernel, np.zeros((2, 8), np.float32), seed=1, step=0).fine
    True
    """
    x = x[..., :_CHAINS]
    momentum_shape = (*kernel.target.geometry.momentum_shape, x.shape[-1])
    nothing = np.zeros(momentum_shape, np.finfo(x.dtype).dtype)
    if eqx.filter_eval_shape(kernel.round_trip, kernel.target, x, nothing) is None:
        return None
    seed_array, step_array = integer(seed, np.uint32), integer(step, np.uint32)
    target, v, change, error, distance = _there_and_back(kernel, jax.device_put(x), seed_array, step_array)
    probability = _probability(change)
    # A trajectory that is rejected anyway does no harm, and may lose all digits.
    irreversibility = np.mean(probability * np.minimum(1, np.nan_to_num(np.abs(error), nan=1.0, posinf=1.0)))
    acceptance_error = None
    if x.dtype in (np.float32, np.complex64):
        with jax.enable_x64(True):
            # The same auxiliary fields: random numbers of another precision would be others.
            doubled = _there(*in_double((kernel, target, jnp.asarray(x), v)))
        acceptance_error = float(np.mean(np.abs(probability - _probability(doubled))))
    distances = np.asarray(distance)[probability > 0]
    return Precision(1, acceptance_error, float(irreversibility), float(np.max(distances, initial=0.0)))


@eqx.filter_jit
def _there_and_back(
    kernel: Kernel, x: Field, seed: Int[Array, ""], step: Int[Array, ""]
) -> tuple[Target, Momentum, PerChain, PerChain, PerChain]:
    """Target with auxiliary fields, momenta, ΔH of the way there, what is lost there and back, the largest distance."""
    key = rng.step_key(seed, rng.Purpose.PRECISION, step)
    target, _ = kernel.target.refresh(jax.random.fold_in(key, 1), x)
    v = target.geometry.momentum(key, x)
    trip = _trip(kernel, target, x, v)
    error = energy_change(target, (x, v), (trip.x_back, trip.v_back))
    away = target.geometry.difference(x, trip.x_back)
    distance = jnp.max(jnp.abs(away), axis=tuple(range(away.ndim - 1)))
    return target, v, trip.energy_change, error, distance


@eqx.filter_jit
def _there(kernel: Kernel, target: Target, x: Field, v: Momentum) -> PerChain:
    """ΔH; the way back is not computed."""
    return _trip(kernel, target, x, v).energy_change


def _trip(kernel: Kernel, target: Target, x: Field, v: Momentum) -> RoundTrip:
    trip = kernel.round_trip(target, x, v)
    if trip is None:
        raise TypeError("this kernel makes no trajectories")
    return trip


def _probability(change: PerChain) -> NDArray[np.float64]:
    """A = min(1, e^{−ΔH}), and 0 where ΔH is not finite."""
    values = np.asarray(change, np.float64)
    finite = np.isfinite(values)
    return np.where(finite, np.exp(-np.maximum(np.where(finite, values, 0), 0)), 0)

"""Deep Learning HMC: a learned trajectory, made exact by accept/reject with its Jacobian (section 3 of the paper)."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key

from dlhmc import rng
from dlhmc.kernels.contract import Info, Kernel, State
from dlhmc.kernels.metropolis import decide, select
from dlhmc.layers import Phase, Trajectory
from dlhmc.targets.contract import Field, PerChain, Target, energy_change


class Proposal(NamedTuple):
    """What a trajectory proposes for the start ξ = (x, v): the end ξ′, and the exponent of accept/reject."""

    x: Field
    v: Field
    x_new: Field
    v_new: Field
    #: ΔH − log|J|, so that A(ξ′|ξ) = min(1, e^{−this})
    energy_change: PerChain


class DLHMC(Kernel):
    """Momentum v ~ N(0, 1), direction d = ± with equal probability, ξ′ = F(ξ) or F⁻¹(ξ), accept or reject.

    With `symmetric`, a symmetry g of the target is drawn for each trajectory and g⁻¹∘F∘g is used in place of F,
    which is exact for any F: a trajectory that acts in one place of a lattice then acts in every place.
    """

    target: Target
    trajectory: Trajectory
    symmetric: bool = eqx.field(static=True, default=False)

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """One trajectory of every chain."""
        propose_key, accept_key = jax.random.split(key)
        proposal = self.propose(propose_key, state.x)
        acceptance, accepted, nonfinite = decide(accept_key, proposal.energy_change)
        x = select(accepted, self.target.wrap(proposal.x_new), state.x)
        return State(x), Info(acceptance, accepted, proposal.energy_change, nonfinite)

    def propose(self, key: Key[Array, ""], x: Field) -> Proposal:
        """Fresh momentum and direction, then the trajectory; nothing is decided yet."""
        momentum_key, direction_key, symmetry_key = jax.random.split(key, 3)
        v = self.target.momentum(momentum_key, x)
        g = self.target.random_transformation(symmetry_key) if self.symmetric else None
        start = (x, v) if g is None else (g.apply(x), g.apply(v))
        end = self._both_directions(direction_key, *start)
        x_new, v_new = (end.x, end.v) if g is None else (g.undo(end.x), g.undo(end.v))
        change = energy_change(self.target, (x, v), (x_new, v_new)) - end.log_jacobian
        return Proposal(x, v, x_new, v_new, change)

    def _both_directions(self, key: Key[Array, ""], x: Field, v: Field) -> Phase:
        """F for some chains and F⁻¹ for the others, at the cost of one of them for each chain.

        Chains 2i and 2i + 1 draw together which of them goes forward: d is uniform for each chain and does not
        depend on any configuration, so the joint distribution stays exact.
        """
        chains = x.shape[-1]
        if chains % 2:
            d = rng.coin(key, (chains,))
            there, back = self.trajectory.forward(self.target, x, v), self.trajectory.inverse(self.target, x, v)
            return Phase(*(jnp.where(d, a, b) for a, b in zip(there, back, strict=True)))
        d = rng.coin(key, (chains // 2,))
        (x_there, x_back), (v_there, v_back) = _deal(d, x), _deal(d, v)
        there = self.trajectory.forward(self.target, x_there, v_there)
        back = self.trajectory.inverse(self.target, x_back, v_back)
        return Phase(*(_collect(d, a, b) for a, b in zip(there, back, strict=True)))


def _deal(first_goes_forward: Bool[Array, " pair"], field: Field) -> tuple[Field, Field]:
    """One chain of each pair, and the other."""
    even, odd = field[..., 0::2], field[..., 1::2]
    return jnp.where(first_goes_forward, even, odd), jnp.where(first_goes_forward, odd, even)


def _collect(first_goes_forward: Bool[Array, " pair"], there: Field, back: Field) -> Field:
    """The inverse of `_deal`."""
    even, odd = jnp.where(first_goes_forward, there, back), jnp.where(first_goes_forward, back, there)
    return jnp.stack([even, odd], axis=-1).reshape(*even.shape[:-1], -1)

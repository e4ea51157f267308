"""Deep Learning HMC: a learned trajectory, made exact by accept/reject with its Jacobian (section 3 of the paper)."""

from typing import NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, Key

from dlhmc.kernels.contract import Info, Kernel, RoundTrip, State
from dlhmc.kernels.metropolis import decide, select
from dlhmc.layers import Trajectory
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
    """Momentum v ~ N(0, 1), ξ′ = F(ξ) or F⁻¹(ξ) with equal probability, accept or reject.

    With `symmetric`, a symmetry g of the target is drawn for each trajectory and g⁻¹∘F∘g is used in place of F,
    which is exact for any F: a trajectory that acts in one place of a lattice then acts in every place.
    """

    target: Target
    trajectory: Trajectory
    symmetric: bool = eqx.field(static=True, default=False)

    @property
    def leapfrog_steps(self) -> int:
        """Layers of the trajectory."""
        return len(self.trajectory)

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """One trajectory of every chain."""
        propose_key, accept_key = jax.random.split(key)
        proposal = self.propose(propose_key, state.x)
        acceptance, accepted, nonfinite = decide(accept_key, proposal.energy_change)
        x = select(accepted, self.target.wrap(proposal.x_new), state.x)
        return State(x), Info(acceptance, accepted, proposal.energy_change, nonfinite)

    def round_trip(self, x: Field, v: Field) -> RoundTrip:
        """F⁻¹(F(x, v))."""
        end = self.trajectory.forward(self.target, x, v)
        back = self.trajectory.inverse(self.target, end.x, end.v)
        change = energy_change(self.target, (x, v), (end.x, end.v)) - end.log_jacobian
        return RoundTrip(change, back.x, back.v)

    def propose(self, key: Key[Array, ""], x: Field) -> Proposal:
        """Fresh momentum and direction, then the trajectory; nothing is decided yet."""
        momentum_key, direction_key, symmetry_key = jax.random.split(key, 3)
        v = self.target.momentum(momentum_key, x)
        g = self.target.random_transformation(symmetry_key) if self.symmetric else None
        start = (x, v) if g is None else (g.apply(x), g.apply(v))
        end = self.trajectory.propose(direction_key, self.target, *start)
        x_new, v_new = (end.x, end.v) if g is None else (g.undo(end.x), g.undo(end.v))
        change = energy_change(self.target, (x, v), (x_new, v_new)) - end.log_jacobian
        return Proposal(x, v, x_new, v_new, change)

"""Deep Learning HMC: a learned trajectory, made exact by accept/reject with its Jacobian (section 3 of the paper)."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from dlhmc.geometry.contract import Field, Momentum, PerChain, real_dtype
from dlhmc.kernels.contract import Info, Kernel, RoundTrip, State
from dlhmc.kernels.metropolis import decide, select
from dlhmc.layers import Trajectory
from dlhmc.layers.contract import Parts, Phase
from dlhmc.numerics.rng import draws_by_chain
from dlhmc.targets.contract import (
    Effort,
    LocalAction,
    Target,
    action_change,
    added_up,
    energy_change,
    kinetic_change,
)


class Proposal(NamedTuple):
    """What a trajectory proposes for the start ξ = (x, v): the end ξ′, and the exponent of accept/reject."""

    x: Field
    v: Momentum
    x_new: Field
    v_new: Momentum
    #: ΔH − log|J|, so that A(ξ′|ξ) = min(1, e^{−this})
    energy_change: PerChain
    #: of x′, term by term
    action_new: LocalAction
    #: of drawing auxiliary fields and of this action
    effort: Effort


class DLHMC(Kernel):
    """Momentum v ~ N(0, 1), ξ′ = F(ξ) or F⁻¹(ξ) with equal probability, accept or reject.

    With `symmetric`, a symmetry g of the target is drawn for each trajectory and g⁻¹∘F∘g is used in place of F,
    which is exact for any F: a trajectory that acts in one place of a lattice then acts in every place.
    """

    name: ClassVar[str] = "dlhmc"
    needs_equilibrium: ClassVar[bool] = True

    target: Target
    trajectory: Trajectory
    symmetric: bool = eqx.field(static=True, default=False)

    def __init__(self, target: Target, trajectory: Trajectory, symmetric: bool = False) -> None:
        self.target, self.trajectory, self.symmetric = target.marginal(), trajectory, symmetric

    @property
    def leapfrog_steps(self) -> int:
        """Layers of the trajectory."""
        return len(self.trajectory)

    @property
    def forces(self) -> int:
        """Those of the trajectory."""
        return self.trajectory.forces

    @property
    def draws_by_chain(self) -> bool:
        """Whether all random numbers of a proposal are told apart by their chain, on whichever device it is."""
        target, geometry = self.target, self.target.geometry
        methods = ((geometry, "momentum"), (target, "refresh"), (target, "random_transformation"))
        return all(draws_by_chain(*method) for method in (*methods, (self.trajectory, "propose")))

    def init(self, x: Field) -> State:
        """With the action, if it is expensive."""
        return State.knowing(self.target, x)

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """One trajectory of every chain."""
        propose_key, accept_key = jax.random.split(key)
        # An expensive action does not come in parts.
        whole = self.symmetric or self.target.expensive
        by_parts = None if whole else self._propose_parts(propose_key, state.x)
        if by_parts is not None:
            return self._decide_parts(accept_key, *by_parts)
        proposal = self.propose(propose_key, state)
        acceptance, accepted, nonfinite = decide(accept_key, proposal.energy_change)
        state = state.moved(accepted, self.target.geometry.project(proposal.x_new), proposal.action_new)
        return state, Info(acceptance, accepted, proposal.energy_change, nonfinite, proposal.effort)

    def _propose_parts(self, key: Key[Array, ""], x: Field) -> tuple[Momentum, Field, Phase, Parts] | None:
        momentum_key, direction_key = jax.random.split(key)
        v = self.target.geometry.momentum(momentum_key, x.shape[-1], real_dtype(x))
        proposed = self.trajectory.propose_parts(direction_key, self.target, x, v)
        return None if proposed is None else (v, x, *proposed)

    def _decide_parts(self, key: Key[Array, ""], v: Momentum, x: Field, end: Phase, parts: Parts) -> tuple[State, Info]:
        """Accept or reject each part. What is told of a chain is told of its first part: all are alike."""
        kinetic, action = self.target.geometry.local_kinetic, self.target.local_action
        change = parts.total(action(end.x) - action(x)) + parts.total(kinetic(end.v) - kinetic(v))
        # As in `energy_change`, also where the action does not look.
        lost = parts.total((~jnp.isfinite(end.x)).astype(change.dtype)) > 0
        change = jnp.where(lost, jnp.nan, change - end.log_jacobian)
        decision = decide(key, change)
        x = select(parts.spread(decision.accepted), self.target.geometry.project(end.x), x)
        first = (0,) * (change.ndim - 1)
        nonfinite = jnp.any(decision.nonfinite, axis=tuple(range(change.ndim - 1)))
        return State(x), Info(decision.acceptance[first], decision.accepted[first], change[first], nonfinite)

    def round_trip(self, target: Target, x: Field, v: Momentum) -> RoundTrip:
        """F⁻¹(F(x, v))."""
        end = self.trajectory.forward(target, x, v)
        back = self.trajectory.inverse(target, end.x, end.v)
        change = energy_change(target, (x, v), (end.x, end.v)) - end.log_jacobian
        return RoundTrip(change, back.x, back.v)

    def propose(self, key: Key[Array, ""], state: State) -> Proposal:
        """Fresh momentum, auxiliary fields and direction, then the trajectory; nothing is decided yet."""
        x = state.x
        momentum_key, direction_key, symmetry_key, refresh_key = jax.random.split(key, 4)
        v = self.target.geometry.momentum(momentum_key, x.shape[-1], real_dtype(x))
        target = self.target.refresh(refresh_key, x)
        g = target.random_transformation(symmetry_key) if self.symmetric else None
        start = (x, v) if g is None else g.apply(x, v)
        end = self.trajectory.propose(direction_key, target, *start)
        x_new, v_new = (end.x, end.v) if g is None else g.undo(end.x, end.v)
        action_new, told = target.counted_action(x_new)
        change = action_change(state.known(target), action_new, x_new) + kinetic_change(target, v, v_new)
        of_forces = jax.tree.map(lambda each: self.trajectory.forces_of_target * each, target.action_effort(x))
        effort = added_up(target.refresh_effort(), of_forces, told)
        return Proposal(x, v, x_new, v_new, change - end.log_jacobian, action_new, effort)

"""Deep Learning HMC: a learned trajectory, made exact by accept/reject with its Jacobian (section 3 of the paper)."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from dlhmc.geometry.contract import Field, Momentum, PerChain
from dlhmc.kernels.contract import Info, Kernel, RoundTrip, State
from dlhmc.kernels.metropolis import decide
from dlhmc.layers import Trajectory
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
from dlhmc.targets.windows import Window, Windows


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

    Where the trajectory acts in windows (`dlhmc.layers.Local`), each of them is accepted or rejected on its own. They
    see the target's `guide`; where that is not all of the action, the rest decides about all windows together.
    """

    name: ClassVar[str] = "dlhmc"
    needs_equilibrium: ClassVar[bool] = True

    target: Target
    trajectory: Trajectory

    def __init__(self, target: Target, trajectory: Trajectory) -> None:
        self.target, self.trajectory = target.marginal(), trajectory

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
        methods = ((self.target.geometry, "momentum"), (self.target, "refresh"), (self.trajectory, "propose"))
        return all(draws_by_chain(*method) for method in methods)

    def init(self, x: Field) -> State:
        """With the action, if it is expensive."""
        return State.knowing(self.target, x)

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """One trajectory of every chain."""
        propose_key, accept_key, place_key = jax.random.split(key, 3)
        windows = self.trajectory.windows(place_key, self.target.guide(), state.x)
        if windows is not None:
            return self._step_in_windows(propose_key, accept_key, windows, state)
        proposal = self.propose(propose_key, state)
        acceptance, accepted, nonfinite = decide(accept_key, proposal.energy_change)
        state = state.moved(accepted, self.target.geometry.project(proposal.x_new), proposal.action_new)
        return state, Info(acceptance, accepted, proposal.energy_change, nonfinite, proposal.effort)

    def _step_in_windows(
        self, key: Key[Array, ""], accept_key: Key[Array, ""], windows: Windows, state: State
    ) -> tuple[State, Info]:
        """A step in each window, then about all of them whatever the guide does not know.

        The steps in windows are reversible with respect to the guide, so that the change of S − S_guide is all that is
        left to be decided (Christen, Fox, J. Comput. Graph. Stat. 14 (2005) 795).
        """

        def step(key: Key[Array, ""], window: Window, x: Field) -> tuple[Field, Info]:
            kernel = DLHMC(window, self.trajectory.inside)  # type: ignore[attr-defined]
            state, info = kernel.step(key, State(x))
            return state.x, info

        moved, info = windows.each_alone(key, step)
        x = windows.pasted(state.x, moved)
        # What is told of a chain is the average over windows, or that of the first: all are alike.
        acceptance, nonfinite = jnp.mean(info.acceptance, axis=0), jnp.any(info.nonfinite, axis=0)
        guide, target = windows.target, self.target
        if guide is target:
            return State(x), Info(acceptance, info.accepted[0], info.energy_change[0], nonfinite)
        action, effort = target.counted_action(x)
        change = action_change(state.known(target), action, x) - action_change(
            guide.local_action(state.x), guide.local_action(x), x
        )
        decision = decide(accept_key, change)
        told = Info(decision.acceptance, decision.accepted, change, nonfinite | decision.nonfinite, effort)
        return state.moved(decision.accepted, x, action), told

    def round_trip(self, target: Target, x: Field, v: Momentum) -> RoundTrip:
        """F⁻¹(F(x, v))."""
        guide = target.guide()
        end = self.trajectory.forward(guide, x, v)
        back = self.trajectory.inverse(guide, end.x, end.v)
        change = energy_change(guide, (x, v), (end.x, end.v)) - end.log_jacobian
        return RoundTrip(change, back.x, back.v)

    def propose(self, key: Key[Array, ""], state: State) -> Proposal:
        """Fresh momentum, auxiliary fields and direction, then the trajectory; nothing is decided yet."""
        x = state.x
        momentum_key, direction_key, refresh_key = jax.random.split(key, 3)
        v = self.target.geometry.momentum(momentum_key, x)
        target = self.target.refresh(refresh_key, x)
        end = self.trajectory.propose(direction_key, target, x, v)
        action_new, told = target.counted_action(end.x)
        change = action_change(state.known(target), action_new, end.x) + kinetic_change(target, v, end.v)
        of_forces = jax.tree.map(lambda each: self.trajectory.forces * each, target.action_effort(x))
        effort = added_up(target.refresh_effort(), of_forces, told)
        return Proposal(x, v, end.x, end.v, change - end.log_jacobian, action_new, effort)

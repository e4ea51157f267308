"""Deep Learning HMC: a learned trajectory, made exact by accept/reject with its Jacobian (section 3 of the paper)."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from dlhmc.actions.contract import Effort
from dlhmc.geometry.contract import Field, Momentum, PerChain
from dlhmc.kernels.contract import Info, Kernel, RoundTrip, State
from dlhmc.kernels.metropolis import decide
from dlhmc.layers import Trajectory
from dlhmc.numerics.rng import draws_by_chain
from dlhmc.targets.contract import AllTerms, Target, action_change, energy_change, kinetic_change
from dlhmc.targets.windows import Windows


class Proposal(NamedTuple):
    """What a trajectory proposes for the start ξ = (x, v): the end ξ′, and the exponent of accept/reject."""

    x: Field
    v: Momentum
    x_new: Field
    v_new: Momentum
    #: ΔH − log|J|, so that A(ξ′|ξ) = min(1, e^{−this})
    energy_change: PerChain
    #: of the action at x′
    terms_new: AllTerms
    #: of these terms
    effort: Effort


class DLHMC(Kernel):
    """Momentum v ~ N(0, 1), ξ′ = F(ξ) or F⁻¹(ξ) with equal probability, accept or reject.

    The trajectory may run on a guide, a part of the action that is cheaper: accept/reject looks at the target. Where it
    acts in windows (`dlhmc.layers.Local`), each of them is accepted or rejected on its own by the guide, then what
    the guide does not know decides about all windows together.
    """

    name: ClassVar[str] = "dlhmc"
    needs_equilibrium: ClassVar[bool] = True

    target: Target
    trajectory: Trajectory
    #: None where it is the target
    guide: Target | None

    def __init__(self, target: Target, trajectory: Trajectory, guide: Target | None = None) -> None:
        if any(action.auxiliary for action in target.actions):
            raise TypeError("auxiliary fields would have learned proposals rejected: give a target without them")
        self.target, self.trajectory, self.guide = target, trajectory, None if guide is target else guide

    @classmethod
    def of(cls, target: Target, trajectory: Trajectory) -> "DLHMC":
        """On the guide that the target has for learned trajectories, in place of auxiliary fields if there are any."""
        judge, guide = target.known.guided(target)
        return cls(judge, trajectory, guide)

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
        return draws_by_chain(self.target.geometry, "momentum") and draws_by_chain(self.trajectory, "propose")

    @property
    def _guide(self) -> Target:
        return self.target if self.guide is None else self.guide

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """One trajectory of every chain."""
        propose_key, accept_key, place_key = jax.random.split(key, 3)
        windows = self.trajectory.windows(place_key, self._guide, state.x)
        if windows is not None:
            return self._step_in_windows(propose_key, accept_key, windows, state)
        proposal = self.propose(propose_key, state)
        acceptance, accepted, nonfinite = decide(accept_key, proposal.energy_change)
        state = state.moved(accepted, self.target.geometry.project(proposal.x_new), proposal.terms_new)
        return state, Info(acceptance, accepted, proposal.energy_change, nonfinite, proposal.effort)

    def _step_in_windows(
        self, key: Key[Array, ""], accept_key: Key[Array, ""], windows: Windows, state: State
    ) -> tuple[State, Info]:
        """A step in each window, then about all of them whatever the guide does not know.

        The steps in windows are reversible with respect to the guide, so that the change of S − S_guide is all that is
        left to be decided (Christen, Fox, J. Comput. Graph. Stat. 14 (2005) 795).
        """

        def step(key: Key[Array, ""], window: Target, x: Field) -> tuple[Field, Info]:
            kernel = DLHMC(window, self.trajectory.inside)  # type: ignore[attr-defined]
            state, info = kernel.step(key, kernel.init(x))
            return state.x, info

        moved, info = windows.each_alone(key, step)
        x = windows.pasted(state.x, moved)
        # What is told of a chain is the average over windows, or that of the first: all are alike.
        acceptance, nonfinite = jnp.mean(info.acceptance, axis=0), jnp.any(info.nonfinite, axis=0)
        terms, effort = self.target.terms(x)
        if self.guide is None:
            return State(x, terms), Info(acceptance, info.accepted[0], info.energy_change[0], nonfinite, effort)
        change = action_change(state.terms, terms, x)
        change -= action_change(self.guide.terms(state.x).value, self.guide.terms(x).value, x)
        decision = decide(accept_key, change)
        told = Info(decision.acceptance, decision.accepted, change, nonfinite | decision.nonfinite, effort)
        return state.moved(decision.accepted, x, terms), told

    def round_trip(self, target: Target, x: Field, v: Momentum) -> RoundTrip:
        """F⁻¹(F(x, v)) on the guide."""
        guide = target if self.guide is None else self.guide
        end = self.trajectory.forward(guide, x, v)
        back = self.trajectory.inverse(guide, end.x, end.v)
        change = energy_change(guide, (x, v), (end.x, end.v)) - end.log_jacobian
        return RoundTrip(change, back.x, back.v)

    def propose(self, key: Key[Array, ""], state: State) -> Proposal:
        """Fresh momentum and direction, then the trajectory; nothing is decided yet."""
        x, geometry = state.x, self.target.geometry
        momentum_key, direction_key = jax.random.split(key)
        v = geometry.momentum(momentum_key, x)
        end = self.trajectory.propose(direction_key, self._guide, x, v)
        terms, effort = self.target.terms(end.x)
        change = action_change(state.terms, terms, end.x) + kinetic_change(geometry, v, end.v)
        return Proposal(x, v, end.x, end.v, change - end.log_jacobian, terms, effort)

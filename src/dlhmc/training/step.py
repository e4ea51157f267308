"""One step of Algorithm 1: propose, loss, gradient, update, accept or reject, with guards against collapse.

All of it is traced, guards included, so that training does not depend on how it is cut into chunks.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from dlhmc.geometry.contract import Field, PerChain, real_dtype
from dlhmc.kernels.dlhmc import DLHMC
from dlhmc.kernels.metropolis import decide, probability, select
from dlhmc.layers import Trajectory
from dlhmc.numerics import rng
from dlhmc.numerics.devices import averaged
from dlhmc.targets.contract import Target, with_gamma
from dlhmc.training.loss import Loss, Transition
from dlhmc.training.schedule import Schedule

# Averages over about a hundred steps.
_FORGET, _SETTLED = 0.01, 100
_SNAPSHOT_EVERY = 100
# −δ·A has no gradient once A = 0: below this acceptance training cannot come back by itself.
COLLAPSED = 0.02
_HEALTHY = 0.05
SKIPS_IN_A_ROW = 10
MOST_RESTORES = 10


class Guard(NamedTuple):
    """What training remembers about its own health."""

    acceptance: Float[Array, ""]
    objective: Float[Array, ""]
    #: steps with a gradient that was not finite: all, and those since the last good one
    skipped: Int[Array, ""]
    skipped_in_a_row: Int[Array, ""]
    #: how often the acceptance collapsed and the last good parameters were restored
    restored: Int[Array, ""]
    #: the learning rate is multiplied by this: halved at each restoration
    rate_factor: Float[Array, ""]
    #: steps since the averages began afresh: after the schedules ended, or after a restoration
    settled: Int[Array, ""]
    best_objective: Float[Array, ""]

    @property
    def halted(self) -> Bool[Array, ""]:
        """Whether training has given up."""
        return (self.skipped_in_a_row >= SKIPS_IN_A_ROW) | (self.restored >= MOST_RESTORES)


class TrainState(NamedTuple):
    """All that training carries from one step to the next."""

    trajectory: Trajectory
    optimiser: Any
    x: Field
    guard: Guard
    #: parameters to restore after a collapse, and those with the best objective under the final target
    good: Trajectory
    best: Trajectory
    #: the average of the last parameters, about a hundred of them: less noisy than each
    average: Trajectory


class Trial(NamedTuple):
    """What became of the proposals of all chains."""

    loss: PerChain
    acceptance: PerChain
    nonfinite: Bool[Array, " chain"]
    x: Field


class Algorithm(eqx.Module):
    """The inputs of Algorithm 1: target, a schedule of its annealing factor γ or none, loss, optimiser."""

    target: Target
    gamma: Schedule | None
    loss: Loss = eqx.field(static=True)
    optimiser: optax.GradientTransformation = eqx.field(static=True)

    def target_at(self, step: Int[Array, ""]) -> Target:
        """p_t(x) ∝ e^{−γ_t S_β(x)}, eq. (8)."""
        return self.target if self.gamma is None else with_gamma(self.target, self.gamma(step))

    def begin(self, trajectory: Trajectory, x: Field) -> TrainState:
        """The state before the first step."""
        zero, none = jnp.zeros((), real_dtype(x)), jnp.zeros((), jnp.int32)
        # Averages of later stages begin in the middle of their memory: nothing has collapsed yet.
        healthy = zero + _HEALTHY
        guard = Guard(healthy, zero, none, none, none, jnp.ones_like(zero), none, zero - jnp.inf)
        optimiser = self.optimiser.init(_trainable(trajectory))
        # Each with memory of its own, which training uses again.
        mine, good, best, average = (jax.tree.map(_copy, trajectory) for _ in range(4))
        return TrainState(mine, optimiser, jax.tree.map(_copy, x), jax.tree.map(_copy, guard), good, best, average)

    def burn_in(self, seed: Int[Array, ""], index: Int[Array, ""], state: TrainState) -> TrainState:
        """A trajectory at γ_0 with the parameters as they are, before training starts."""
        kernel = DLHMC(self.target_at(jnp.zeros((), jnp.int32)), state.trajectory)
        key = rng.step_key(seed, rng.Purpose.BURN_IN, index)
        return state._replace(x=kernel.step(key, kernel.init(state.x))[0].x)

    @property
    def record_names(self) -> tuple[str, ...]:
        """What `step` records, one number each."""
        sector = self.target.known.sector
        of_sectors = ("tunnelling_rate", f"{sector}_jump_squared") if sector is not None else ()
        of_gamma = () if self.gamma is None else ("gamma",)
        return ("loss", "acceptance", "gradient_norm", "nonfinite", *of_gamma, *of_sectors)

    def step(
        self, seed: Int[Array, ""], step: Int[Array, ""], state: TrainState
    ) -> tuple[TrainState, dict[str, Array]]:
        """One training step."""
        target = self.target_at(step)
        keys = jax.random.split(rng.step_key(seed, rng.Purpose.TRAINING, step))
        inputs = (state.x, state.trajectory, target, keys)
        # Each device on its own, unless it would draw the same as the others.
        by_chain = DLHMC(target, state.trajectory).draws_by_chain
        means, x = averaged(self._of_chains, *inputs) if by_chain else self._of_chains(*inputs)
        parameters, gradient, loss = _trainable(state.trajectory), means.pop("gradient"), means["loss"]
        norm = optax.tree.norm(gradient)
        usable = jnp.isfinite(norm) & jnp.isfinite(loss)

        with jax.numpy_dtype_promotion("standard"):  # Optax raises floats to integer powers
            updates, optimiser = self.optimiser.update(gradient, state.optimiser, parameters)
        factor = state.guard.rate_factor
        updates = jax.tree.map(lambda u: (factor * u).astype(u.dtype), updates)
        changed = optax.apply_updates(parameters, updates)
        # Selected number by number, in the same pass over memory as the update; a `cond` would copy everything.
        changed, optimiser = jax.tree.map(
            lambda new, old: jnp.where(usable, new, old), (changed, optimiser), (parameters, state.optimiser)
        )
        average = jax.tree.map(lambda old, new: old + _FORGET * (new - old), _trainable(state.average), changed)
        trajectory, average = (eqx.combine(numbers, _frozen(state.trajectory)) for numbers in (changed, average))
        new = state._replace(trajectory=trajectory, optimiser=optimiser, x=x, average=average)
        new = self._watch(step, new, means["acceptance"], -loss, usable)
        nonfinite = jnp.round(x.shape[-1] * means["nonfinite"])
        annealed = {} if self.gamma is None else {"gamma": self.gamma(step)}
        return new, means | annealed | {"gradient_norm": norm, "nonfinite": nonfinite}

    def _of_chains(
        self, x: Field, trajectory: Trajectory, target: Target, keys: Key[Array, "2"]
    ) -> tuple[dict[str, Any], Field]:
        """Means over the chains, the gradient of the loss among them, and where the chains go."""
        propose_key, place_key = keys

        def mean_loss(parameters: Trajectory) -> tuple[Array, tuple[Trial, Field]]:
            layers = eqx.combine(parameters, _frozen(trajectory))
            windows = layers.windows(place_key, target, x)
            if windows is None:
                trial = self._try(layers, propose_key, target, x)
                return jnp.mean(trial.loss), (trial, trial.x)
            trial = windows.each_alone(propose_key, functools.partial(self._try, layers.inside))  # type: ignore[attr-defined]
            return jnp.mean(trial.loss), (trial, windows.pasted(x, trial.x))

        (loss, (trial, new)), gradient = jax.value_and_grad(mean_loss, has_aux=True)(_trainable(trajectory))
        means = {
            "gradient": gradient,
            "loss": loss,
            "acceptance": jnp.mean(trial.acceptance),
            "nonfinite": jnp.mean(trial.nonfinite.astype(loss.dtype)),
        }
        if (sector := target.known.sector) is not None:
            before, after = (target.observables(y)[sector] for y in (x, new))
            means["tunnelling_rate"] = jnp.mean((before != after).astype(loss.dtype))
            means[f"{sector}_jump_squared"] = jnp.mean((before - after) ** 2)
        return means, new

    def _try(self, layers: Trajectory, key: Key[Array, ""], target: Target, x: Field) -> Trial:
        """A proposal of each chain, and where it goes."""
        propose_key, accept_key = jax.random.split(key)
        kernel = DLHMC(target, layers)
        proposal = kernel.propose(propose_key, kernel.init(x))
        decision = decide(accept_key, proposal.energy_change)
        acceptance = probability(proposal.energy_change)
        transition = Transition(proposal.x, proposal.v, proposal.x_new, proposal.v_new, acceptance)
        # Where the proposal is not finite A = 0, but 0 · NaN would spoil the mean over the batch.
        loss = jnp.where(jnp.isfinite(proposal.energy_change), self.loss(target, transition), 0)
        new = select(decision.accepted, target.geometry.project(proposal.x_new), x)
        return Trial(loss, decision.acceptance, decision.nonfinite, jax.lax.stop_gradient(new))

    def _watch(self, step: Array, state: TrainState, acceptance: Array, objective: Array, usable: Array) -> TrainState:
        """Update the averages; restore after a collapse; keep good and best parameters."""
        guard = state.guard
        final = jnp.asarray(True) if self.gamma is None else self.gamma.finished(step)
        # The averages begin afresh when the target has become the final one.
        settled = jnp.where(final & (guard.settled <= 0), 1, jnp.where(final, guard.settled + 1, -step - 1))
        weight = jnp.maximum(_FORGET, 1 / jnp.abs(settled).astype(acceptance.dtype)).astype(acceptance.dtype)
        objective = jnp.where(usable, objective, guard.objective)
        guard = guard._replace(
            acceptance=guard.acceptance + weight * (acceptance - guard.acceptance),
            objective=guard.objective + weight * (objective - guard.objective),
            settled=settled,
            skipped=guard.skipped + jnp.where(usable, 0, 1),
            skipped_in_a_row=jnp.where(usable, 0, guard.skipped_in_a_row + 1),
        )
        collapsed = (guard.acceptance < COLLAPSED) & (jnp.abs(settled) > _SETTLED)
        state = _seldom(collapsed, self._restore, state._replace(guard=guard))
        guard = state.guard
        look = (step + 1) % _SNAPSHOT_EVERY == 0
        healthy = look & (guard.acceptance > _HEALTHY) & ~collapsed
        better = look & (settled > _SETTLED) & (guard.objective > guard.best_objective) & ~collapsed
        state = _seldom(healthy, lambda s: s._replace(good=_if_finite(s.trajectory, s.good)), state)
        state = _seldom(better, lambda s: s._replace(best=_if_finite(s.average, s.best)), state)
        guard = guard._replace(best_objective=jnp.where(better, guard.objective, guard.best_objective))
        return state._replace(guard=guard)

    def _restore(self, state: TrainState) -> TrainState:
        """Back to the last good parameters, with fresh moments and half the rate."""

        def scheduled(part: Any) -> bool:
            return isinstance(part, optax.ScaleByScheduleState)

        # The schedule of the learning rate goes on; the moments of Adam begin afresh.
        fresh = jax.tree.map(
            lambda new, old: old if scheduled(new) else new,
            self.optimiser.init(_trainable(state.good)),
            state.optimiser,
            is_leaf=scheduled,
        )
        guard = state.guard._replace(
            acceptance=jnp.full_like(state.guard.acceptance, _HEALTHY),
            rate_factor=0.5 * state.guard.rate_factor,
            restored=state.guard.restored + 1,
        )
        return state._replace(trajectory=state.good, average=state.good, optimiser=fresh, guard=guard)


def _seldom(wanted: Bool[Array, ""], change: Callable[[TrainState], TrainState], state: TrainState) -> TrainState:
    """The changed state if that is wanted, else the state itself.

    A loop of at most one turn leaves the parameters in place, where the two branches of a `cond` would copy them all,
    several times as many as a step of Adam touches.
    """
    # Only arrays may enter a loop: networks of a user's own hold functions, too.
    arrays, static = eqx.partition(state, eqx.is_array)

    def turn(loop: tuple[Array, TrainState]) -> tuple[Array, TrainState]:
        changed = change(eqx.combine(loop[1], static))
        return jnp.zeros_like(loop[0]), eqx.filter(changed, eqx.is_array)

    arrays = jax.lax.while_loop(lambda loop: loop[0], turn, (wanted, arrays))[1]
    result: TrainState = eqx.combine(arrays, static)
    return result


def _if_finite(trajectory: Trajectory, fallback: Trajectory) -> Trajectory:
    """The parameters, unless the last update has made one of them infinite: its acceptance is not known yet."""
    numbers = jax.tree.leaves(_trainable(trajectory))
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(number)) for number in numbers]))
    return jax.tree.map(
        lambda new, old: jnp.where(finite, new, old) if eqx.is_array(new) else new, trajectory, fallback
    )


def _copy(leaf: Any) -> Any:
    return jnp.copy(leaf) if eqx.is_array(leaf) else leaf


def _trainable(trajectory: Trajectory) -> Trajectory:
    """The part that training changes: all floating-point arrays. Masks are not among them."""
    return eqx.filter(trajectory, eqx.is_inexact_array)


def _frozen(trajectory: Trajectory) -> Trajectory:
    return eqx.filter(trajectory, eqx.is_inexact_array, inverse=True)

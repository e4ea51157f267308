"""How a race judges samplers that have not been measured yet, and on targets of which little is known."""

import dataclasses
import io
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from rich.console import Console
from scipy.special import gammaincinv

from dlhmc.actions import Action
from dlhmc.comparison.command import compare, open_results, settings_of_objects
from dlhmc.comparison.competitors import NONE
from dlhmc.comparison.contestants import Contestant, contestant_of
from dlhmc.comparison.race import Runner, drop_the_worse_half, scalars, share_variance, turns
from dlhmc.comparison.settings import CompareSettings
from dlhmc.comparison.table import markdown
from dlhmc.errors import ExitCode, UserError
from dlhmc.geometry.flat import FlatSpace
from dlhmc.kernels import HMC, Exact, Info, Kernel
from dlhmc.run.directory import Place, run_kind
from dlhmc.run.driver import ExecutionOptions
from dlhmc.settings import read_table
from dlhmc.targets import Known, Moment, Target
from dlhmc.theories.gauge.field import U1
from dlhmc.theories.u1.hits import InstantonHits
from dlhmc.theories.vectors.toys import GaussianMixture


class Well(Action):
    """x²/2."""

    def terms(self, x):
        return 0.5 * x * x


KNOWN = Known(
    moments={"x": Moment("x"), "profile": Moment("profile")},
    slow=lambda target: {"profile": None, "side": None},
    sector="side",
)


def observe(x):
    """On which side of 0 the first coordinate is, among others; nothing is known exactly."""
    return {"x": x[0], "side": jnp.sign(x[0]), "profile": x, "phase": jax.lax.complex(x[0], x[1])}


def Sides():  # noqa: N802
    return Target(FlatSpace((3,)), [Well()], observe, KNOWN)


class Counted(NamedTuple):
    """A state of its own."""

    x: Array
    steps: Array


class Flips(Kernel):
    """x → −x every so many trajectories; 0 for never."""

    target: Target
    period: int

    def init(self, x):
        return Counted(x, jnp.zeros((), jnp.int32))

    def step(self, key, state):
        flip = (self.period > 0) & (state.steps % max(self.period, 1) == max(self.period, 1) - 1)
        ones = jnp.ones(state.x.shape[-1], state.x.dtype)
        info = Info(ones, ones > 0, 0 * ones, ones < 0)
        return Counted(jnp.where(flip, -state.x, state.x), state.steps + 1), info


ROWS, CHAINS = 500, 2


def flipping(target: Target, period: int) -> Runner:
    """As if it were HMC whose every trajectory took as long as any other's."""
    return started(target, contestant_of(f"every {period}", Flips(target, period)))


def started(target: Target, contestant: Contestant) -> Runner:
    """After some trajectories."""
    x = target.start(jax.random.key(0), "hot", CHAINS, np.float32)
    runner = Runner(dataclasses.replace(contestant, kind="hmc", leapfrog_steps=1), target, x, 1)
    runner._advance(ROWS)
    runner.pace = [1.0]
    runner.look(now=True)
    return runner


def test_hmc_is_dropped_for_what_it_does_and_not_for_its_place():
    """No variance is known, so that jumps of the sector are all there is to judge by: few, and many of none."""
    runners = [flipping(Sides(), period) for period in (0, 0, 0, 0, 150, 120, 150, 120)]
    assert not any(runner.resolved for runner in runners)
    drop_the_worse_half(runners)
    assert [runner.status for runner in runners] == ["dropped"] * 4 + ["running"] * 4


def test_hmc_of_which_the_same_is_known_stays():
    runners = [flipping(Sides(), 0) for _ in range(8)]
    drop_the_worse_half(runners)
    assert {runner.status for runner in runners} == {"running"}


def test_hmc_of_which_nothing_is_known_yet_stays():
    runners = [flipping(Sides(), period) for period in (0, 150, 120, 100, 80)]
    runners[0].taus = {}
    assert runners[0].guess() is None
    drop_the_worse_half(runners)
    assert [runner.status for runner in runners] == ["running", "dropped", "running", "running", "running"]


def test_learned_samplers_have_half_of_a_round_until_they_are_measured():
    runners = [flipping(Sides(), 0) for _ in range(8)]
    for runner in runners[:2]:
        runner.contestant = dataclasses.replace(runner.contestant, kind="model")
    assert turns(runners)["model"] == 3 * turns(runners)["hmc"]
    runners[0].status = "measured"
    assert turns(runners)["model"] == 6 * turns(runners)["hmc"]
    # Nor less than others, where these are few.
    for runner in runners[2:]:
        runner.status = "dropped"
    assert turns(runners)["model"] == turns([runners[1], flipping(Sides(), 0)])["hmc"]


@pytest.mark.parametrize("period", [0, 150])
def test_the_bound_of_a_mixture_knows_that_the_mode_changes_by_two(period):
    """σ² = 1 is a quarter of a squared jump."""
    runner = flipping(GaussianMixture(), period)
    steps, jumps = (ROWS - 1) * CHAINS, CHAINS * (ROWS // period if period else 0)
    assert not runner.resolved
    assert runner.bound("mode") == pytest.approx(2 * 0.25 * steps / gammaincinv(jumps + 1, 0.95) - 0.5)
    assert runner._guess("mode") == pytest.approx(2 * 0.25 * steps / (jumps + 1) - 0.5)


def Rounded(given=None):  # noqa: N802
    """A normal of width 0.3, rounded: it is 0 in nine cases of ten, and the variance of that is not known."""
    known = Known(KNOWN.moments, lambda target: {"side": 0.0}, "side", slow_variance=lambda target, name: given)
    return Target(FlatSpace((3,)), [Well()], lambda x: {"x": x[0], "side": jnp.round(0.3 * x[0])}, known)


class Afresh(Kernel):
    """Draws from it."""

    target: Target

    def init(self, x):
        return Counted(x, jnp.zeros((), jnp.int32))

    def step(self, key, state):
        ones = jnp.ones(state.x.shape[-1], state.x.dtype)
        x = jax.random.normal(key, state.x.shape, state.x.dtype)
        return Counted(x, state.steps + 1), Info(ones, ones > 0, 0 * ones, ones < 0)


@pytest.mark.parametrize(("given", "used"), [(None, None), (0.3, None), (0.09, 0.09)])
def test_limits_of_frozen_samplers_take_the_variance_that_others_have_measured(given, used):
    """σ² = 2(1 − Φ(0.5/0.3)) = 0.0956; 0.3 is contradicted by what is seen, 0.09 is not."""
    target = Rounded(given)
    frozen, drawn = flipping(target, 0), started(target, contestant_of("drawn", Afresh(target)))
    share_variance([frozen])
    assert frozen.bound("side") == pytest.approx(limit(given or 0.5))
    assert drawn.resolved
    share_variance([frozen, drawn])
    frozen.look(now=True)
    if used is None:
        assert limit(0.06) < frozen.bound("side") < limit(0.0956)
    else:
        assert frozen.bound("side") == pytest.approx(limit(used))


def limit(variance: float) -> float:
    """Of τ_int, if nothing has changed."""
    return 2 * variance * (ROWS - 1) * CHAINS / np.log(20) - 0.5


def test_samplers_are_judged_by_single_numbers():
    assert set(scalars(Sides())) == {"x", "side"}
    runner = flipping(Sides(), 3)
    assert set(runner.slow) == set(runner.taus) == {"side"}
    assert set(runner.streams.names) == {"x", "side"}
    assert runner.streams["side"].dtype == np.int16


def test_what_is_known_of_kernels_of_any_class():
    target = U1((4, 4), 2.0)
    hmc = contestant_of("a", HMC(target, 0.25, 4))
    assert (hmc.kind, hmc.leapfrog_steps, hmc.forces, hmc.step_size, hmc.length) == ("hmc", 4, 5, 0.25, 1.0)
    hits = contestant_of("b", InstantonHits(hmc.kernel, 1))
    assert (hits.kind, hits.leapfrog_steps, hits.forces, hits.step_size) == ("move", 4, 5, 0.25)
    assert contestant_of("c", Exact(target, target.exact_draws())).kind == "exact"
    own = contestant_of("d", Flips(Sides(), 1), "some.npz")
    assert (own.kind, own.leapfrog_steps, own.forces, own.network_flops, own.model) == ("model", 0, 0, 0, "some.npz")
    assert own.step_size is own.length is None


def WithoutDraws(**settings):  # noqa: N802
    """As if nobody could draw from it."""
    target = GaussianMixture(**settings)
    known = dataclasses.replace(target.known, exact_draws=lambda target: None)
    return Target(target.geometry, target.actions, target.observables, known)


SHORT = CompareSettings(integrators=("leapfrog",), lengths=(1.0,), step_sizes=(0.25,), chains=16, budget=0.5)


def outcome(target, kernels=None, path=None):
    given = [contestant_of(name, kernel) for name, kernel in (kernels or {}).items()]
    place = None if path is None else Place(path, settings_of_objects(target, kernels or {}, SHORT, NONE))
    return compare(target, SHORT, given, NONE, [], place, Console(file=io.StringIO()), ExecutionOptions(quiet=True))


def test_chains_that_freeze_where_a_hot_start_left_them_get_a_warning(tmp_path):
    target = WithoutDraws(separation=8.0, weights=(1, 9))
    results, code = outcome(target)
    assert code == ExitCode.OK
    assert results.entries[0].tau_int["mode"]["frozen"]
    (warning,) = results.warnings
    assert "no exact draws" in warning
    assert "leapfrog 1/4 (inf)" in warning
    assert warning in markdown(results)


def test_chains_that_forget_a_hot_start_are_said_to():
    results, _ = outcome(WithoutDraws(separation=0.5, variance=1.0))
    (warning,) = results.warnings
    assert "is at most 1.0" in warning
    assert outcome(GaussianMixture(separation=0.5, variance=1.0))[0].warnings == ()


def test_objects_of_python_leave_a_comparison_like_any_other(tmp_path):
    target = GaussianMixture(separation=1.0)
    kernels = {"αβ": HMC(target, 0.2, 3), "γδ": Exact(target, target.exact_draws())}
    results, _ = outcome(target, kernels, tmp_path / "run")
    assert run_kind(tmp_path / "run") == "compare"
    assert open_results(tmp_path / "run") == results
    table = read_table(tmp_path / "run" / "config.toml")
    assert (table["kernels"], table["compare"]["chains"]) == (["αβ", "γδ"], 16)
    assert "objects" in table
    assert [entry.name for entry in results.entries] == ["leapfrog 1/4", "exact draws", "αβ", "γδ"]
    # Names that have no letter in common with those of files have files of their own all the same.
    for entry in results.entries:
        with np.load(tmp_path / "run" / entry.history, allow_pickle=False) as archive:
            assert archive["mode"].shape == (entry.trajectories, 16)
            assert archive["mode"].mean() == pytest.approx(entry.observables["mode"]["mean"])


def test_a_target_without_a_slow_observable_is_refused():
    known = dataclasses.replace(KNOWN, slow=lambda target: {"profile": None})
    with pytest.raises(UserError, match="does not say which observable is slow"):
        outcome(Target(FlatSpace((3,)), [Well()], observe, known))

"""Rounding errors of a run: measured without changing it, small where it is sound, and its end where they are not."""

import io
import json

import jax
import numpy as np
import pytest
from rich.console import Console
from small_runs import assert_same_run, histories, metrics, run, tiny

from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.kernels import HMC, Exact
from dlhmc.run import sampling
from dlhmc.run.driver import ExecutionOptions
from dlhmc.run.precision import Precision, check_precision
from dlhmc.theories.gauge.field import U1
from dlhmc.theories.u1.hits import InstantonHits

TARGET = U1((4, 4), 2.0)
# So long that trajectories from neighbouring points have lost sight of each other.
CHAOTIC = 3000


def start():
    return np.asarray(TARGET.start(jax.random.key(0), "hot", 16, np.float32))


def test_a_sound_trajectory():
    found = check_precision(HMC(TARGET, 0.1, 10), start(), seed=1, step=0)
    assert found.fine
    assert 0 < found.acceptance_error < 1e-4
    assert 0 < found.irreversibility < 1e-4
    assert 0 < found.distance < 1e-4
    # With hits between them, trajectories are the same.
    assert check_precision(InstantonHits(HMC(TARGET, 0.1, 10), 3), start(), seed=1, step=0) == found


def test_a_chaotic_trajectory():
    found = check_precision(HMC(TARGET, 0.1, CHAOTIC), start(), seed=1, step=0)
    assert not found.fine
    assert found.irreversibility > 0.02
    assert found.distance > 0.1


def test_nothing_is_accepted():
    """What is rejected anyway may lose all digits."""
    found = check_precision(HMC(TARGET, 1e4, 10), start(), seed=1, step=0)
    assert found == Precision(1, 0.0, 0.0, 0.0)


def test_exact_draws_make_no_trajectories():
    assert check_precision(Exact(TARGET, TARGET.exact_draws()), start(), seed=1, step=0) is None


@pytest.mark.usefixtures("x64")
def test_double_precision_has_nothing_to_be_compared_with():
    found = check_precision(HMC(U1((4, 4), 2.0), 0.1, 10), start().astype(np.float64), seed=1, step=0)
    assert found.acceptance_error is None
    assert 0 < found.irreversibility < 1e-12


def test_the_worst_of_two():
    one, other = Precision(1, 0.1, 0.02, 0.3), Precision(2, 0.01, 0.2, 0.03)
    assert one.worst(other) == Precision(3, 0.1, 0.2, 0.3)
    assert one.worst(None) == one
    said = "0.1 in the probability of acceptance, 0.02 in the energy there and back, 0.3 in x (1 check)"
    assert str(one) == said


@pytest.mark.slow
def test_a_run_that_is_checked_is_the_same_run(tmp_path, capsys):
    plain, checked, screen = run(tmp_path / "plain"), tmp_path / "checked", io.StringIO()
    options = ExecutionOptions(check_every=0.0)
    assert tiny(chunk=5).run(checked, Console(file=screen), options)[1] == ExitCode.OK
    assert_same_run(plain, checked)
    precision = json.loads((checked / "summary.json").read_text())["precision"]
    assert precision["checks"] > 1
    assert 0 < precision["irreversibility"] < 1e-4
    assert metrics(checked)[-1]["irreversibility"] == precision["irreversibility"]
    assert metrics(checked)[-1]["acceptance_error"] == precision["acceptance_error"]
    line = f"rounding errors: {Precision(**precision)}"
    assert line in screen.getvalue()
    sampling.show_results(checked, Console(file=(again := io.StringIO())))
    assert line in again.getvalue()
    # A run of a moment is not checked by itself, but can be afterwards.
    assert json.loads((plain / "summary.json").read_text())["precision"] is None
    assert cli.run(["doctor", str(plain)]) == ExitCode.OK
    assert "rounding errors are small" in capsys.readouterr().out


def test_a_run_that_cannot_be_trusted_is_stopped(tmp_path, capsys):
    config = tiny(step_size=0.1, leapfrog_steps=CHAOTIC, warmup=0)
    with pytest.raises(UserError, match=r"too large for exact sampling, .* start anew with float64, a smaller"):
        config.run(tmp_path / "run", Console(file=io.StringIO()), ExecutionOptions(check_every=0.0))
    assert np.isfinite(histories(tmp_path / "run")["plaquette"][0]).all()
    assert cli.run(["doctor", str(tmp_path / "run")]) == ExitCode.WRONG
    assert "too large" in capsys.readouterr().out

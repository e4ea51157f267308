import io
import json
import shutil
import signal
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray
from rich.console import Console
from small_runs import TINY, assert_same_run, histories, metrics, resume, run, state, tiny

from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.plans.sampling import SamplePlan
from dlhmc.report.sampling import SampledRun
from dlhmc.run import sampling
from dlhmc.run.loop import ExecutionOptions
from dlhmc.run.samples import load_samples

KINDS = {
    "hmc": {},
    "hits": {"hits": 1},
    "exact": {"kernel": "exact"},
    "float64": {"float64": True, "start": "hot"},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One finished run that tests look at, or copy before they harm it."""
    return run(tmp_path_factory.mktemp("runs") / "hmc")


@pytest.fixture
def copied(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "copy")


@pytest.fixture
def unfinished(copied):
    """A run of which only the warm-up and no trajectory is left: its first checkpoint."""
    (copied / "checkpoints" / "30.npz").unlink()
    return copied


# Numbers depend on the configuration and on nothing else.


@pytest.mark.parametrize(
    "kind", ["float64", *(pytest.param(k, marks=pytest.mark.slow) for k in ("hmc", "exact", "hits"))]
)
def test_numbers_do_not_depend_on_chunks(kind, tmp_path):
    whole = run(tmp_path / "whole", **KINDS[kind])
    for chunk in (1, 3, 7) if kind == "hits" else (1, 7):
        assert_same_run(whole, run(tmp_path / str(chunk), chunk=chunk, **KINDS[kind]))


@pytest.mark.parametrize(
    "kind", [{"step_size": 0.2, "hits": 1}, pytest.param({"kernel": "exact"}, marks=pytest.mark.slow)], ids=str
)
def test_a_chain_does_not_depend_on_the_number_of_chains(kind, tmp_path):
    few, many = (histories(run(tmp_path / str(chains), chains=chains, **kind)) for chains in (4, 8))
    for name, array in few.items():
        np.testing.assert_array_equal(array, many[name][:, :4], err_msg=name)


def test_another_seed_gives_other_numbers(finished, tmp_path):
    other = run(tmp_path / "other", seed=2)
    assert not np.any(histories(finished)["plaquette"] == histories(other)["plaquette"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_compiles_two_functions(kind, tmp_path):
    compiled = []

    def listen(event, _, fun_name="", **__):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(fun_name)

    jax.clear_caches()
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        run(tmp_path / "run", **KINDS[kind])
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == ["jit(begin)", "jit(advance)"]


# What a run leaves behind.


def test_all_files_are_there(finished):
    files = {"config.toml", "manifest.json", "metrics.jsonl", "history.zarr", "checkpoints", "summary.json"}
    assert {entry.name for entry in finished.iterdir() if not entry.name.startswith(".")} == files
    manifest = json.loads((finished / "manifest.json").read_text())
    assert manifest["seed"] == 1
    assert manifest["devices"] == ["cpu: cpu"]
    assert manifest["versions"]["jax"] == jax.__version__


def test_the_history_opens_without_a_warning(finished):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with xarray.open_zarr(finished / "history.zarr") as store:
            assert dict(store.sizes) == {"trajectory": 20, "chain": 4}
            observables = {"plaquette", "charge", "sine_charge"}
            diagnostics = {"accepted", "energy_change", "nonfinite", "squared_gradient", "laplacian"}
            assert set(store) == observables | diagnostics
            assert np.isfinite(store.to_array()).all()
            np.testing.assert_array_equal(store.charge, np.round(store.charge))
            assert (abs(store.plaquette) <= 1).all()
            expected = {"kernel": "hmc", "target": "u1", "lattice": [4, 4], "beta": 2.0, "leapfrog_steps": 4}
            assert {name: store.attrs[name] for name in expected} == expected


def test_metrics_count_up_to_the_end(finished):
    steps = [line["step"] for line in metrics(finished)]
    assert steps == sorted(set(steps))
    assert steps[-1] == 30
    assert metrics(finished)[-1].keys() == {
        "step",
        "steps_per_second",
        "acceptance",
        "nonfinite_rejected",
        "plaquette",
        "tunnelling_rate",
        "step_size",
    }


MOMENT = {"mean", "error", "exact", "z", "rhat", "ess_bulk"}
TIME = {"value", "error", "window", "frozen", "lower_bound"}
SUMMARY = {
    "sha256": None,
    "kernel": None,
    "target": None,
    "lattice": None,
    "beta": None,
    "action": None,
    "title": None,
    "start": None,
    "chains": None,
    "trajectories": None,
    "leapfrog_steps": None,
    "acceptance": None,
    "plaquette": MOMENT,
    "charge_squared": MOMENT | {"sector_changes"},
    "sine_charge_squared": MOMENT,
    "tau_int_charge": TIME,
    "tau_int_sine_charge": TIME,
    "exp_minus_dh": {"mean", "error"},
    "balance": {"mean", "error"},
    "temperature": {"mean", "error"},
    "nonfinite_rejected": None,
    "nonfinite_fraction": None,
    "warnings": None,
    "alarms": None,
    "precision": None,
    "seconds": None,
    "microseconds_per_trajectory": None,
    "microseconds_per_independent": None,
}


def test_the_summary_has_all_keys(finished):
    summary = json.loads((finished / "summary.json").read_text())
    assert {name: set(value) if isinstance(value, dict) else None for name, value in summary.items()} == SUMMARY
    assert (summary["kernel"], summary["lattice"], summary["trajectories"]) == ("hmc", [4, 4], 20)
    assert (summary["title"], summary["start"]) == ("hmc  u1  4×4  beta = 2  4 chains × 20 trajectories", "cold")
    history = histories(finished)
    assert summary["acceptance"] == pytest.approx(history["accepted"].mean())
    assert summary["plaquette"]["mean"] == pytest.approx(history["plaquette"].mean(dtype=np.float64))
    assert summary["exp_minus_dh"]["mean"] == pytest.approx(np.exp(-history["energy_change"].astype(float)).mean())
    assert summary["microseconds_per_trajectory"] == pytest.approx(summary["seconds"] / 80 * 1e6)


@pytest.mark.statistical
def test_the_exact_kernel_is_exact(tmp_path):
    path = run(tmp_path / "exact", kernel="exact", warmup=0, trajectories=2000, chains=8)
    summary = json.loads((path / "summary.json").read_text())
    assert (summary["acceptance"], summary["leapfrog_steps"], summary["nonfinite_rejected"]) == (1, 0, 0)
    assert summary["exp_minus_dh"] == {"mean": 1, "error": 0}
    for name in ("plaquette", "charge_squared", "sine_charge_squared"):
        assert abs(summary[name]["z"]) < 3.5  # a new seed would fail with probability 5e-4
    for name in ("tau_int_charge", "tau_int_sine_charge"):
        assert summary[name]["value"] == pytest.approx(0.5, abs=0.05)


def test_configurations_are_kept_evenly_spaced(tmp_path):
    config = tiny(keep_configurations=3, float64=True)
    path = run(tmp_path / "kept", config)
    with xarray.open_zarr(path / "history.zarr") as store:
        assert store.kept.values.tolist() == [7, 14, 20]
        assert store.configurations.dims == ("kept", "field_0", "field_1", "field_2", "chain")
        x = store.configurations.values
        assert x.dtype == np.float64
        plaquettes = x[:, 0] + np.roll(x[:, 1], -1, 1) - np.roll(x[:, 0], -1, 2) - x[:, 1]
        measured = store.plaquette.values[store.kept.values - 1]
        np.testing.assert_allclose(np.cos(plaquettes).mean(axis=(1, 2)), measured, rtol=1e-12)
        assert any(np.array_equal(x[-1], leaf) for leaf in state(path))


@pytest.mark.parametrize("size", [{"trajectories": 1, "chains": 1}, {"trajectories": 2, "lattice": (2, 2)}], ids=str)
def test_the_smallest_runs_finish(size, tmp_path):
    path = run(tmp_path / "small", **size)
    sampling.show_results(path, Console(file=io.StringIO()))


def test_a_run_far_from_equilibrium_has_a_summary_and_ends_with_an_alarm(tmp_path, capsys):
    config = tiny(beta=10_000.0, warmup=0, step_size=0.003, start="hot")
    screen = io.StringIO()
    assert config.run(tmp_path / "hot", Console(file=screen, width=1000))[1] == ExitCode.ALARM
    summary = json.loads((tmp_path / "hot" / "summary.json").read_text())
    assert summary["exp_minus_dh"]["mean"] > 1e9
    assert f"Alarm: {summary['alarms'][0]}" in screen.getvalue()
    assert cli.run(["resume", str(tmp_path / "hot"), "--json"]) == ExitCode.ALARM
    assert json.loads(capsys.readouterr().out)["alarms"] == summary["alarms"]


def test_proposals_that_are_not_finite_are_rejected_counted_and_shown(tmp_path):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, color_system="standard")
    config = tiny(step_size=1e30, warmup=0, temperature_every=0)
    assert config.run(tmp_path / "wild", console)[1] == ExitCode.ALARM
    summary = json.loads((tmp_path / "wild" / "summary.json").read_text())
    assert "No proposal was finite, so nothing has moved. No result of this run can be trusted." in summary["alarms"]
    assert summary["nonfinite_rejected"] == 20 * 4
    assert summary["acceptance"] == 0
    assert histories(tmp_path / "wild")["nonfinite"].all()
    assert summary["nonfinite_fraction"] == 1
    # Nothing has moved; the charge, too, has not.
    assert [warning.split(":")[0] for warning in summary["warnings"][1:]] == [
        "charge_squared",
        "plaquette, sine_charge_squared",
    ]
    said = f"\x1b[31mWarning: {summary['warnings'][0]}"
    assert "80 of 80 proposals (100 %) were not finite" in said
    assert said in screen.getvalue()
    screen.truncate(0)
    sampling.show_results(tmp_path / "wild", console)
    assert said in screen.getvalue()
    for before, after in zip(state(tmp_path / "wild", 0), state(tmp_path / "wild"), strict=True):
        np.testing.assert_array_equal(before, after)


# Going on with a run.


def test_a_finished_run_is_only_summarised_again(finished, copied):
    (copied / "summary.json").unlink()
    before = metrics(copied)
    resume(copied)
    assert json.loads((copied / "summary.json").read_text()) == json.loads((finished / "summary.json").read_text())
    assert metrics(copied) == before
    assert_same_run(finished, copied)


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(finished, copied):
    newest = copied / "checkpoints" / "30.npz"
    newest.write_bytes(bytes(newest.stat().st_size))
    resume(copied)
    assert_same_run(finished, copied)
    assert metrics(copied)[-1]["step"] == 30


def test_a_run_whose_history_has_lost_rows_does_them_again_and_says_so(finished, copied):
    shutil.rmtree(copied / "history.zarr" / "energy_change" / "c")
    with pytest.raises(UserError, match="no measurements yet"):  # all that is intact is the checkpoint before the first
        sampling.show_results(copied, Console(file=io.StringIO()))
    screen = io.StringIO()
    assert SamplePlan.resume(copied, Console(file=screen, width=1000)) == ExitCode.OK
    assert "checkpoint 30: The history" in screen.getvalue()
    assert "'energy_change' is not what was saved" in screen.getvalue()
    assert_same_run(finished, copied)


def test_a_finished_run_that_has_lost_its_last_checkpoint_says_so(tmp_path):
    def stop(done, *_):
        if done == 20:
            signal.raise_signal(signal.SIGINT)

    path = tmp_path / "run"
    _, code = tiny(chunk=5).run(path, Console(file=io.StringIO()), ExecutionOptions(progress=stop))
    assert code == ExitCode.INTERRUPTED
    earlier = path / "checkpoints" / "20.npz"
    saved = earlier.read_bytes()
    resume(path)
    (path / "checkpoints" / "30.npz").unlink()
    earlier.write_bytes(saved)

    screen = io.StringIO()
    summary = sampling.show_results(path, Console(file=screen, width=1000))
    for said in (screen.getvalue(), str(summary["warnings"])):
        assert "earlier checkpoint: the checkpoint of step 30 is missing" in said
    with pytest.raises(UserError, match=r"the checkpoint of step 30 is missing.*dlhmc resume"):
        load_samples(path)
    with pytest.raises(UserError, match="the checkpoint of step 30 is missing"):
        SampledRun.open(path)


def test_a_run_that_died_before_its_first_checkpoint_starts_again(finished, copied):
    (copied / "metrics.jsonl").unlink()
    shutil.rmtree(copied / "checkpoints")
    (copied / "checkpoints").mkdir()
    (copied / "checkpoints" / ".0.npz.tmp").write_bytes(b"PK")
    resume(copied)
    assert_same_run(finished, copied)


def harm_config(path):
    (path / "config.toml").write_text("beta = ")


def harm_manifest(path):
    (path / "manifest.json").write_text("{")


def harm_format(path):
    (path / "manifest.json").write_text('{"format": 99}')


def harm_all_checkpoints(path):
    for file in (path / "checkpoints").iterdir():
        file.write_bytes(b"")


HARM = {
    "config.toml is not what the run began with": harm_config,
    "manifest.json is missing or damaged": harm_manifest,
    "has format 99": harm_format,
    "No checkpoint in .* is intact .*checkpoint 30: .*checkpoint 0: ": harm_all_checkpoints,
    "manifest.json missing": lambda path: (path / "manifest.json").unlink(),
    "config.toml missing": lambda path: (path / "config.toml").unlink(),
    "no checkpoints in": lambda path: shutil.rmtree(path / "checkpoints"),
    "history.zarr is missing": lambda path: shutil.rmtree(path / "history.zarr"),
    "no run directory": shutil.rmtree,
}


@pytest.mark.parametrize("sentence", HARM)
def test_a_damaged_run_is_refused_with_the_reason_and_left_alone(sentence, copied):
    HARM[sentence](copied)
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*") if path.name != ".lock"}
    with pytest.raises(UserError, match=sentence) as refusal:
        SamplePlan.resume(copied, Console(file=io.StringIO()))
    assert "\n" not in str(refusal.value)
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*") if path.name != ".lock"} == before


def test_without_measurements_there_is_no_summary(unfinished):
    with pytest.raises(UserError, match="no measurements yet"):
        sampling.show_results(unfinished, Console(file=io.StringIO()))
    resume(unfinished)
    assert sampling.show_results(unfinished, Console(file=io.StringIO()))["trajectories"] == 20


def test_a_new_run_leaves_an_old_one_alone(finished):
    before = (finished / "config.toml").stat().st_mtime_ns
    with pytest.raises(UserError, match="already holds a run"):
        tiny().run(finished, Console(file=io.StringIO()))
    assert (finished / "config.toml").stat().st_mtime_ns == before


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "below", tmp_path / ("long" * 100), Path("/proc/read-only")):
        with pytest.raises(UserError, match="cannot be written"):
            tiny().run(path, Console(file=io.StringIO()))


# What a user sees.


def test_a_finished_run_prints_a_table(tmp_path):
    screen = io.StringIO()
    tiny(start="exact").run(tmp_path / "a[b] c", Console(file=screen, width=80))
    text = screen.getvalue()
    for word in ("hmc: 30/30", "step size", "(tuned)", "plaquette", "τ_int(charge)", "exp(-ΔH)", "µs a trajectory"):
        assert word in text
    assert f"written to {tmp_path / 'a[b] c'}" in text


def test_tiny_is_what_these_tests_assume():
    assert (TINY["chains"], TINY["warmup"] + TINY["trajectories"]) == (4, 30)

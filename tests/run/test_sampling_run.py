"""Sampling from start to end, in memory and in a directory: the same numbers, whatever happens on the way."""

import io
import json
import shutil
import tempfile
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray
import zarr
from rich.console import Console
from toys import amounts, arrays, assert_same, go, hmc, interrupt, sampler

import dlhmc
from dlhmc.errors import ExitCode, UserError
from dlhmc.report.sampling import SampledRun
from dlhmc.run.precision import Precision
from dlhmc.run.sampling import Sampling, load_samples, show_results
from dlhmc.run.settings import TrainAmounts

KEPT = {"keep_configurations": 3}


@pytest.fixture(scope="module")
def whole():
    """The run that others are compared with: in memory, in chunks that follow the speed."""
    work, code = go(**KEPT)
    assert code == ExitCode.OK
    return work


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One finished run that tests look at, or copy before they harm it: its last checkpoints are of 27 and 30."""
    path = tmp_path_factory.mktemp("runs") / "hmc"
    assert go(path, chunk=3)[1] == ExitCode.OK
    return path


@pytest.fixture
def copied(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "copy")


def resume(path, **changes):
    work, code = go(path, resuming=True, **{"chunk": 3} | changes)
    assert code == ExitCode.OK
    return work


def quiet():
    return Console(file=io.StringIO(), width=1000)


# Numbers depend on the configuration and on nothing else.


@pytest.mark.parametrize("chunk", [7, None])
@pytest.mark.parametrize("stored", [False, True])
def test_numbers_do_not_depend_on_chunks_and_files(chunk, stored, whole, tmp_path):
    assert_same(whole, go(tmp_path / "run" if stored else None, chunk=chunk, **KEPT)[0])


def test_an_interrupted_run_equals_the_uninterrupted_one(whole, tmp_path):
    for step in (6, 21):
        screen = io.StringIO()
        resuming = (tmp_path / "run").exists()
        _, code = go(tmp_path / "run", resuming, progress=interrupt(step), screen=screen, chunk=3, **KEPT)
        assert code == ExitCode.INTERRUPTED
        assert f"of 30 trajectories, all saved; go on with\n  dlhmc resume {tmp_path / 'run'}\n" in screen.getvalue()
    assert_same(whole, resume(tmp_path / "run", **KEPT))


def test_a_finished_run_can_go_on(tmp_path):
    longer, _ = go(trajectories=40, keep_configurations=6)
    go(tmp_path / "run", **KEPT)
    extended = amounts(**KEPT).extended(40)
    assert (extended.trajectories, extended.keep_configurations) == (40, 6)
    work, code = go(tmp_path / "run", True, trajectories=40, keep_configurations=6)
    assert code == ExitCode.OK
    assert_same(longer, work)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["trajectories"] == 40
    assert show_results(tmp_path / "run", quiet())["trajectories"] == 40


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trajectories": 10}, "was begun with trajectories 20: it can go on with more, not with fewer"),
        ({"trajectories": 40}, "keep_configurations, 3 in .*, must grow in proportion"),
        ({"seed": 2}, "was begun with another seed"),
        ({"what": sampler(kernel=hmc(0.25))}, "was begun with other numbers"),
    ],
)
def test_a_run_goes_on_with_the_same_numbers_only(changes, message, tmp_path):
    go(tmp_path / "run", **KEPT)
    with pytest.raises(UserError, match=message):
        go(tmp_path / "run", True, **KEPT | changes)
    with pytest.raises(UserError, match="trajectories is 25, but must be a multiple of 20"):
        amounts(**KEPT).extended(25)
    assert TrainAmounts(steps=10).extended(20).total == 20


def test_in_memory_no_file_is_touched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "mkdtemp", None)
    opened = []
    monkeypatch.setattr("dlhmc.files.write_whole", lambda path, *_, **__: opened.append(path))
    monkeypatch.setattr(Path, "mkdir", lambda path, *_, **__: opened.append(path))
    samples = dlhmc.sample(hmc(), chains=4, trajectories=20, warmup=10, start="hot", progress=False)
    assert samples.data.sizes["trajectory"] == 20
    assert opened == [*tmp_path.iterdir()] == []


def test_a_chain_does_not_depend_on_the_number_of_chains():
    fixed = sampler(tune=False)
    few, many = (arrays(go(what=fixed, chains=chains)[0]) for chains in (4, 8))
    for name in few.keys() - {"log_step"}:
        np.testing.assert_array_equal(few[name], many[name][..., :4], err_msg=name)


def test_another_seed_gives_other_numbers(whole):
    assert not np.any(arrays(whole)["widest"] == arrays(go(seed=2)[0])["widest"])


def test_a_run_compiles_two_functions():
    compiled = []

    def listen(event, _, fun_name="", **__):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(fun_name)

    jax.clear_caches()
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        go()
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert [name for name in compiled if name in ("jit(begin)", "jit(advance)")] == ["jit(begin)", "jit(advance)"]


# What a run leaves behind.


def test_all_files_are_there(finished):
    files = {"config.toml", "manifest.json", "metrics.jsonl", "history.zarr", "checkpoints", "summary.json"}
    assert {entry.name for entry in finished.iterdir() if not entry.name.startswith(".")} == files
    manifest = json.loads((finished / "manifest.json").read_text())
    assert (manifest["seed"], manifest["devices"], manifest["versions"]["jax"]) == (1, ["cpu: cpu"], jax.__version__)
    steps = [json.loads(line)["step"] for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(3, 31, 3))


def test_the_history_opens_without_a_warning(finished):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with xarray.open_zarr(finished / "history.zarr") as store:
            assert dict(store.sizes) == {"trajectory": 20, "chain": 4}
            observables = {"widest", "narrowest", "squared_norm"}
            diagnostics = {"accepted", "energy_change", "nonfinite", "squared_gradient", "laplacian"}
            assert set(store) == observables | diagnostics
            assert np.isfinite(store.to_array()).all()
            expected = {"kernel": "hmc", "leapfrog_steps": 1, "seed": 1, "warmup": 10}
            assert {name: store.attrs[name] for name in expected} == expected


def test_the_summary_is_that_of_the_histories(finished, whole):
    summary = json.loads((finished / "summary.json").read_text())
    moment = {"mean", "error", "exact", "z", "rhat", "ess_bulk", "ess_per_second"}
    assert summary["widest_squared"].keys() == moment
    assert {"alarms", "warnings", "precision", "temperature", "balance", "nonfinite_fraction"} <= summary.keys()
    assert summary["title"].startswith("hmc  Gaussian")
    assert summary["title"].endswith("4 chains × 20 trajectories")
    found = arrays(whole)
    assert summary["acceptance"] == pytest.approx(found["accepted"].mean())
    assert summary["widest_squared"]["mean"] == pytest.approx((found["widest"].astype(float) ** 2).mean())
    assert summary["exp_minus_dh"]["mean"] == pytest.approx(np.exp(-found["energy_change"].astype(float)).mean())
    assert summary["microseconds_per_trajectory"] == pytest.approx(summary["seconds"] / 80 * 1e6)
    timed = {"seconds", "microseconds_per_trajectory", "microseconds_per_independent"}
    other = whole.so_far.summary()
    for name in summary.keys() - timed:
        entry, same = summary[name], other[name]
        if isinstance(entry, dict):
            entry, same = ({key: e[key] for key in e.keys() - {"ess_per_second"}} for e in (entry, same))
        assert entry == same, name


def test_configurations_are_kept_evenly_spaced(whole):
    found = arrays(whole)
    assert found["kept"].tolist() == [7, 14, 20]
    np.testing.assert_allclose(found["configurations"][:, 0], found["narrowest"][[6, 13, 19]])
    np.testing.assert_array_equal(found["configurations"][-1], found["x"])


def test_the_smallest_run_finishes():
    assert go(trajectories=1, chains=1)[0].so_far.summary()["trajectories"] == 1


# Alarms.


def test_a_run_far_from_equilibrium_ends_with_an_alarm(tmp_path):
    far = sampler(tune=False, start=np.full(2, 300.0))
    screen = io.StringIO()
    work, code = go(tmp_path / "run", what=far, screen=screen, warmup=0, start=None)
    assert code == ExitCode.ALARM
    assert f"Alarm: {work.so_far.summary()['alarms'][0]}" in screen.getvalue()


def test_proposals_that_are_not_finite_are_rejected_counted_and_shown():
    screen = io.StringIO()
    work, code = go(what=sampler(kernel=hmc(1e30), tune=False), warmup=0, temperature_every=0, screen=screen)
    summary = work.so_far.summary()
    assert code == ExitCode.ALARM
    assert "No proposal was finite, so nothing has moved. No result of this run can be trusted." in summary["alarms"]
    assert (summary["nonfinite_rejected"], summary["nonfinite_fraction"], summary["acceptance"]) == (80, 1, 0)
    assert "80 of 80 proposals (100 %) were not finite" in screen.getvalue()


def test_rounding_errors_that_are_too_large_end_the_run(monkeypatch):
    monkeypatch.setattr(Sampling, "inspect", lambda work, _: setattr(work, "precision", Precision(1, 0.5, 0, 0)))
    with pytest.raises(UserError, match="Rounding errors are too large for exact sampling"):
        go()


# Going on with a run that was harmed.


def test_a_finished_run_is_only_summarised_again(finished, copied):
    (copied / "summary.json").unlink()
    resume(copied)
    for name in ("summary.json", "metrics.jsonl"):
        assert (copied / name).read_text() == (finished / name).read_text()


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(finished, copied):
    newest = copied / "checkpoints" / "30.npz"
    newest.write_bytes(bytes(newest.stat().st_size))
    again, before = resume(copied), resume(finished)
    assert_same(before, again)
    assert (copied / "metrics.jsonl").read_text().count("\n") == 10


def test_a_run_whose_history_has_lost_rows_does_them_again_and_says_so(finished, copied):
    """The history ends before the newest checkpoint, as after a power cut."""
    shutil.rmtree(copied / "history.zarr" / "energy_change" / "c")
    with pytest.raises(UserError, match="'energy_change'"):
        show_results(copied, quiet())
    shutil.copytree(finished / "history.zarr", copied / "history.zarr", dirs_exist_ok=True)
    zarr.open_group(copied / "history.zarr", mode="r+")["widest"][17:] = np.nan
    screen = io.StringIO()
    again, code = go(copied, True, chunk=3, screen=screen)
    assert code == ExitCode.OK
    assert "an earlier checkpoint is used (step 27): checkpoint 30: The history" in screen.getvalue()
    assert_same(resume(finished), again)


def test_a_finished_run_that_has_lost_its_last_checkpoint_says_so(copied):
    (copied / "checkpoints" / "30.npz").unlink()
    screen = io.StringIO()
    summary = show_results(copied, Console(file=screen, width=1000))
    for said in (screen.getvalue(), str(summary["warnings"])):
        assert "earlier checkpoint: the checkpoint of step 30 is missing" in said
    for reader in (load_samples, SampledRun.open):
        with pytest.raises(UserError, match=r"the checkpoint of step 30 is missing.*dlhmc resume"):
            reader(copied)


def test_a_run_that_died_before_its_first_checkpoint_starts_again(finished, copied):
    (copied / "metrics.jsonl").unlink()
    shutil.rmtree(copied / "checkpoints")
    (copied / "checkpoints").mkdir()
    (copied / "checkpoints" / ".0.npz.tmp").write_bytes(b"PK")
    assert_same(resume(finished), resume(copied))


def harm_all_checkpoints(path):
    for file in (path / "checkpoints").iterdir():
        file.write_bytes(b"")


HARM = {
    "config.toml cannot be read": lambda path: (path / "config.toml").write_text("beta = "),
    "manifest.json is missing or damaged": lambda path: (path / "manifest.json").write_text("{"),
    "No checkpoint in .* is intact .*checkpoint 30: .*checkpoint 27: ": harm_all_checkpoints,
    "manifest.json missing": lambda path: (path / "manifest.json").unlink(),
    "no checkpoints in": lambda path: shutil.rmtree(path / "checkpoints"),
    "history.zarr is missing": lambda path: shutil.rmtree(path / "history.zarr"),
    "no run directory": shutil.rmtree,
}


@pytest.mark.parametrize("sentence", HARM)
def test_a_damaged_run_is_refused_with_the_reason_and_left_alone(sentence, copied):
    HARM[sentence](copied)
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*") if path.name != ".lock"}
    with pytest.raises(UserError, match=sentence) as refusal:
        resume(copied)
    assert "\n" not in str(refusal.value)
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*") if path.name != ".lock"} == before


def test_a_new_run_leaves_an_old_one_alone(finished):
    before = (finished / "config.toml").stat().st_mtime_ns
    with pytest.raises(UserError, match="already holds a run"):
        go(finished)
    assert (finished / "config.toml").stat().st_mtime_ns == before


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "below", tmp_path / ("long" * 100), Path("/proc/read-only")):
        with pytest.raises(UserError, match="cannot be written"):
            go(path)


def test_a_directory_that_is_removed_ends_the_run(tmp_path):
    path = tmp_path / "run"
    with pytest.raises(UserError, match="run was removed while the run was going on"):
        go(path, progress=lambda done, *_: done == 15 and shutil.rmtree(path), chunk=3)
    assert not path.exists()

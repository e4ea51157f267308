"""Histories and kernels in other packages, and configurations from them."""

import csv
import json
import re
import warnings
from pathlib import Path

import blackjax.util
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import dlhmc
from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.run.describe import describe_target
from dlhmc.run.measuring import measure_file
from dlhmc.run.metrics import WeightsAndBiases
from dlhmc.run.summary import Quantities
from dlhmc.theories.gauge.known import charge, plaquette
from dlhmc.theories.u1.theory import U1Settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its next version, pyerrors is older than NumPy's newest
    import arviz

TARGET = dlhmc.U1((4, 4), beta=2.0)
ROWS, CHAINS = 4000, 3


@pytest.fixture(scope="module")
def samples():
    """A made-up history with a known autocorrelation: an AR(1) process for every observable."""
    noise = np.random.default_rng(1).normal(size=(3, CHAINS, ROWS)).astype(np.float32)
    for t in range(1, ROWS):
        noise[..., t] = 0.8 * noise[..., t - 1] + 0.6 * noise[..., t]
    names = ("plaquette", "charge", "sine_charge")
    variables = {name: (("chain", "trajectory"), values) for name, values in zip(names, noise, strict=True)}
    flags = np.ones((CHAINS, ROWS), np.int8)
    variables |= dict.fromkeys(("accepted", "nonfinite"), (("chain", "trajectory"), flags))
    variables["energy_change"] = (("chain", "trajectory"), noise[0])
    loops = np.stack([noise, noise + 1]).transpose(2, 3, 0, 1)  # an observable that is a matrix
    variables["loops"] = (("chain", "trajectory", "loops_0", "loops_1"), loops)
    about = {"kernel": "made up", "leapfrog_steps": 4, "seconds": 1.0, "seed": 1, "warmup": 0} | describe_target(TARGET)
    about["quantities"] = Quantities.of(TARGET).to_json()
    about["diagnostics"] = json.dumps(["accepted", "energy_change", "nonfinite"])
    coordinates = {"chain": np.arange(CHAINS), "trajectory": np.arange(1, ROWS + 1)}
    return dlhmc.Samples(xr.Dataset(variables, coordinates, about))


def test_arviz(samples):
    found = dlhmc.to_arviz(samples)
    assert found.posterior["charge"].dims == ("chain", "draw")
    assert bool(found.sample_stats["diverging"].all())
    assert "accepted" not in found.posterior
    # ArviZ estimates from ranks and by another truncation.
    theirs = float(arviz.ess(found, var_names=["plaquette"], method="mean")["plaquette"])
    assert theirs == pytest.approx(samples.effective_sample_size("plaquette"), rel=0.15)
    # The data are in single precision, and ArviZ folds them in it.
    assert float(arviz.rhat(found)["charge"]) == pytest.approx(samples.mean("charge").rhat, rel=1e-6)
    assert float(arviz.ess(found)["charge"]) == pytest.approx(samples.mean("charge").ess_bulk, rel=1e-6)
    assert found.posterior["loops"].dims == ("chain", "draw", "loops_0", "loops_1")
    np.testing.assert_allclose(arviz.rhat(found)["loops"][1, 2], samples.mean("loops")[1, 2].rhat, rtol=1e-6)


def test_other_records_of_a_kernel_are_statistics_of_the_sample(samples):
    data = samples.data.rename(loops="depths").assign_attrs(diagnostics='["depths", "accepted"]')
    found = dlhmc.to_arviz(dlhmc.Samples(data))
    assert set(found.sample_stats) == {"depths", "accepted"}
    assert "energy_change" in found.posterior


def test_arviz_is_not_needed(samples, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    tree = dlhmc.to_arviz(samples)
    assert isinstance(tree, xr.DataTree)
    assert set(tree.children) == {"posterior", "sample_stats"}


@pytest.mark.filterwarnings("ignore:.*scipy.odr.*:DeprecationWarning")
def test_errors_are_those_of_pyerrors(samples):
    """On the same history; they differ in what they take for the mean of a chain, by terms of order 1/N."""
    found = dlhmc.to_pyerrors(samples)
    loops = found.pop("loops")
    assert loops.shape == (2, 3)
    assert loops[1, 0].value == pytest.approx(samples.mean("loops")[1, 0].value) == found["plaquette"].value + 1
    assert found.keys() == {"plaquette", "charge", "sine_charge", "charge_squared", "sine_charge_squared"}
    for name, obs in found.items():
        obs.gamma_method()
        ours = samples.mean(name)
        assert obs.value == pytest.approx(ours.value, abs=1e-6)
        assert obs.dvalue == pytest.approx(ours.error, rel=0.02)
    plaquette = found["plaquette"]
    tau = samples.tau_int("plaquette")
    assert plaquette.e_tauint["dlhmc"] == pytest.approx(tau.value, rel=0.02)
    assert plaquette.e_dtauint["dlhmc"] == pytest.approx(tau.error, rel=0.05)
    assert tau.value == pytest.approx(4.5, rel=0.15)  # (1 + 0.8)/(1 − 0.8)/2; the error of the estimate is 5 %
    assert sorted(plaquette.names) == ["dlhmc|r0", "dlhmc|r1", "dlhmc|r2"]


@pytest.mark.parametrize("suffix", [".nc", ".h5"])
def test_netcdf_holds_everything(samples, suffix, tmp_path):
    file = tmp_path / f"a{suffix}"
    samples.save(file)
    again = dlhmc.load(file)
    assert isinstance(again, dlhmc.Samples)
    xr.testing.assert_equal(again.data, samples.data)
    assert again.data.attrs["elements"].tolist() == samples.data.attrs["elements"]
    assert again.summary() == samples.summary() | {"elements": again.summary()["elements"]}
    with pytest.raises(UserError, match="exists already"):
        samples.save(file)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(UserError, match="missing or damaged"):
        dlhmc.load(file)


def test_csv(samples, tmp_path):
    samples.save(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == ROWS * CHAINS
    assert rows[ROWS + 1]["chain"] == "1"
    assert rows[ROWS + 1]["trajectory"] == "2"
    assert np.float32(rows[ROWS + 1]["charge"]) == samples.data["charge"].values[1, 1]
    assert np.float32(rows[ROWS + 1]["loops[1,2]"]) == samples.data["loops"].values[1, 1, 1, 2]
    assert list(tmp_path.iterdir()) == [tmp_path / "a.csv"]
    with pytest.raises(UserError, match=r"no known format: end it with \.nc, \.h5, \.csv"):
        samples.save(tmp_path / "a.xlsx")


# Configurations from elsewhere.


@pytest.fixture(scope="module")
def links():
    rng = np.random.default_rng(3)
    return rng.uniform(-np.pi, np.pi, size=(2, 300, 2, 4, 6))


def test_measure(links, tmp_path, capsys):
    target = dlhmc.U1((4, 6), beta=2.0)
    found = dlhmc.measure(links, target)
    assert dict(found.data.sizes) == {"chain": 2, "trajectory": 300}
    one = jnp.asarray(np.moveaxis(links[1, 256:258], 0, -1), jnp.float32)
    np.testing.assert_allclose(found.data["plaquette"].values[1, 256:258], plaquette(one), rtol=1e-5)
    np.testing.assert_array_equal(found.data["charge"].values[1, 256:258], charge(one))
    np.testing.assert_allclose(dlhmc.measure(links[1], target).data["sine_charge"][0], found.data["sine_charge"][1])
    complex_links = dlhmc.measure(np.exp(1j * links), target)
    np.testing.assert_allclose(complex_links.data["sine_charge"], found.data["sine_charge"], atol=1e-5)

    rows = dlhmc.Target(target.geometry, target.actions, lambda x: {"rows": x.mean(axis=2)}, target.known)
    arrays = dlhmc.measure(links, rows)
    assert arrays.data["rows"].shape == (2, 300, 2, 4)
    np.testing.assert_allclose(arrays.data["rows"], links.mean(axis=-1), rtol=1e-4, atol=1e-5)

    np.save(tmp_path / "links.npy", links)
    assert cli.run(["measure", "u1", str(tmp_path / "links.npy"), "--beta", "2", "--json"]) == ExitCode.OK
    result = json.loads(capsys.readouterr().out)
    assert result["lattice"] == [4, 6]
    assert result["plaquette"]["mean"] == pytest.approx(found.mean("plaquette").value)
    assert result["plaquette"]["exact"] == pytest.approx(target.exact()["plaquette"])
    assert abs(result["plaquette"]["mean"]) < 0.1  # these links know nothing of β
    assert cli.run(["measure", "u1", str(tmp_path / "links.npy"), "--beta", "2", "--out", str(tmp_path / "m.csv")]) == 0
    assert "τ_int(charge)" in capsys.readouterr().out
    assert (tmp_path / "m.csv").stat().st_size > 0


def target_of(shape):
    settings = U1Settings.of_shape(shape, {"beta": 2.0})
    if settings is None:
        raise UserError("These are no links.")
    return settings


def test_measure_hdf5(links, tmp_path):
    import h5py

    with h5py.File(tmp_path / "links.h5", "w") as file:
        file["group/links"] = links[0]
    found = measure_file(tmp_path / "links.h5", target_of)
    np.testing.assert_array_equal(found.data["charge"], dlhmc.measure(links[0], dlhmc.U1((4, 6), 2.0)).data["charge"])
    with pytest.raises(UserError, match="no array 'links': there are group/links"):
        measure_file(tmp_path / "links.h5", target_of, "links")
    with h5py.File(tmp_path / "links.h5", "a") as file:
        file["other"] = links[0]
    with pytest.raises(UserError, match="give dataset"):
        measure_file(tmp_path / "links.h5", target_of)


def refused(file, capsys):
    """What the command says of a file that it cannot measure."""
    assert cli.run(["measure", "u1", str(file), "--beta", "2"]) == ExitCode.BAD_INPUT
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (
            np.zeros((5, 4, 4, 2)),
            "u1 --lattice 16 16, for one, have the shape "
            "[configuration, 2, 16, 16] or [chain, configuration, 2, 16, 16]",
        ),
        (np.zeros((2, 4, 4)), "cannot hold configurations"),
        (np.zeros((0, 2, 4, 4)), "no configurations"),
        (np.full((5, 2, 4, 4), np.nan), "not finite"),
        (np.full((5, 2, 4, 4), 2j), "absolute value 1"),
        (np.full((5, 2, 4, 4), "x"), "must be numbers"),
        (np.full((5, 2, 4, 4), None), "no array of numbers"),
    ],
)
def test_what_cannot_be_measured(array, reason, tmp_path, capsys):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    assert reason in refused(tmp_path / "a.npy", capsys)


@pytest.mark.parametrize(("name", "reason"), [("a.npy", "no array"), ("a.h5", "no HDF5 file"), ("a.txt", "no known")])
def test_other_files(name, reason, tmp_path, capsys):
    assert "There is no file" in refused(tmp_path / name, capsys)
    (tmp_path / name).write_text("hello")
    assert reason in refused(tmp_path / name, capsys)


# Kernels and metrics.


def test_the_page(tmp_path, monkeypatch):
    """What docs/guides/files.md shows runs as it stands there."""
    monkeypatch.chdir(tmp_path)
    amount = {"chains": 4, "trajectories": 200, "warmup": 0, "start": "cold"}
    dlhmc.sample(dlhmc.HMC(TARGET, step_size=0.2, steps=4), **amount, out="runs/hmc7", progress=False)
    page = Path(__file__).parents[2] / "docs" / "guides" / "files.md"
    names: dict[str, object] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
        exec(code, names)  # noqa: S102 our own page
    assert names["obs"]["plaquette"].dvalue > 0
    assert names["states"].x.shape == (100, 2, 8, 8, 64)


def test_a_loop_of_blackjax():
    kernel = dlhmc.HMC(TARGET, 0.3, 4)
    x = TARGET.start(jax.random.key(0), "cold", 8, jnp.float32)
    algorithm = dlhmc.to_blackjax(kernel)
    with jax.numpy_dtype_promotion("standard"):
        _, (states, info) = blackjax.util.run_inference_algorithm(
            jax.random.key(1), algorithm, num_steps=5, initial_position=x
        )
    assert states.x.shape == (5, *x.shape)
    assert info.acceptance.shape == (5, 8)
    moved = np.any(np.asarray(states.x[1:] != states.x[:-1]), axis=(1, 2, 3))
    np.testing.assert_array_equal(moved, info.accepted[1:])


class FakeWandb:
    """What the package offers, as far as it is used: wandb itself would bring thirty others."""

    def __init__(self):
        self.logged, self.arguments, self.finished = [], {}, 0

    def init(self, **arguments):
        self.arguments = arguments
        return self

    def log(self, figures, step):
        self.logged.append((step, figures))

    def finish(self):
        self.finished += 1


def test_weights_and_biases_is_offline_unless_told_otherwise(tmp_path, monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(__import__("sys").modules, "wandb", fake)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    names = set()
    for step in (0, 4):
        sink = WeightsAndBiases(tmp_path)
        sink.report(step + 1, {"loss": -1.0}, "")
        sink.close()
        names.add(fake.arguments["id"])
    assert fake.logged == [(1, {"loss": -1.0}), (5, {"loss": -1.0})]
    assert fake.finished == 2
    assert len(names) == 1  # a run that goes on is the same run
    assert fake.arguments["mode"] == "offline"
    assert fake.arguments["dir"] == str(tmp_path)


def test_weights_and_biases_must_be_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(UserError, match=r"pip install 'dlhmc\[wandb\]'"):
        dlhmc.train(TARGET, "dense", wandb=True, out=tmp_path / "x", progress=False)
    assert list(tmp_path.iterdir()) == []

"""The Python interface: what runs is what the command line runs, with objects in place of names."""

import os
import signal
import subprocess
import sys
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr
from rich.console import Console
from small_runs import TINY, histories, run

import dlhmc
from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.report.command import build_page
from dlhmc.report.page import Table
from dlhmc.report.plots import mathtext
from dlhmc.run.progress import Display
from dlhmc.theories import catalogue
from dlhmc.theories.gauge.known import measure_loop
from dlhmc.theories.gauge.phases import OnPhases

TARGET = dlhmc.U1((4, 4), beta=2.0)
AMOUNT = {"chains": 4, "trajectories": 20, "warmup": 10, "start": "cold", "progress": False}


def hmc(target=TARGET, step_size=0.1):
    return dlhmc.HMC(target, step_size, steps=4)


def loop(x):
    return measure_loop(x, 2, 2)


def small_run(kernel=None, **more):
    """Always the same program: compiling is what takes time."""
    own = {"tune": 0.8, "keep_configurations": 2, "observables": {"loop": loop}}
    return dlhmc.sample(kernel or hmc(), **AMOUNT | own | more)


@pytest.fixture(scope="module")
def samples():
    return small_run()


def test_importing_takes_nothing_with_it():
    code = "import sys, dlhmc; assert not {'jax', 'numpy'} & set(sys.modules); dlhmc.U1; assert 'jax' in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_name_is_there():
    for name in dir(dlhmc):
        assert getattr(dlhmc, name) is not None
    assert set(dir(dlhmc)) > set(dlhmc.__all__)
    assert set(catalogue.__all__) == set(dir(dlhmc)) - set(dlhmc.__all__)
    with pytest.raises(AttributeError, match="no attribute 'smaple'"):
        _ = dlhmc.smaple


def test_the_numbers_are_those_of_the_command_line(samples, tmp_path):
    by_name = histories(run(tmp_path / "run", keep_configurations=2))
    for name, array in by_name.items():
        found = samples.data[name]
        np.testing.assert_array_equal(found.values.T if found.dims == ("chain", "trajectory") else found.values, array)
    stored = dlhmc.load(tmp_path / "run")
    xr.testing.assert_equal(stored.data, samples.data.drop_vars("loop"))
    # The command line knows its theory and its options.
    unlike = {"seconds", "quantities", "versions", "target", "action", "lattice", "beta", "elements", "coefficient"}
    assert {k: v for k, v in stored.data.attrs.items() if k not in unlike} == {
        k: v for k, v in samples.data.attrs.items() if k not in unlike
    }


def test_a_dataset_says_what_it_is(samples):
    data = samples.data
    assert data["charge"].dims == ("chain", "trajectory")
    assert data["configurations"].dims == ("kept", "field_0", "field_1", "field_2", "chain")
    about = {
        "kernel": "hmc",
        "target": "Plaquette",
        "coefficient": 2.0,
        "leapfrog_steps": 4,
        "seed": 1,
        "warmup": 10,
    }
    assert about.items() <= data.attrs.items()
    assert data.attrs["step_size"] > 0.1


def test_what_one_asks_next(samples):
    assert samples.observables == ("charge", "loop", "plaquette", "sine_charge")
    assert samples.acceptance == samples.data["accepted"].values.mean()
    assert samples.mean("charge_squared").value == pytest.approx((samples.series("charge") ** 2).mean())
    assert samples.tau_int() == samples.tau_int("charge")
    assert samples.exact().keys() == {"plaquette", "charge_squared", "sine_charge_squared"}
    assert samples.summary()["acceptance"] == samples.acceptance
    assert samples.effective_sample_size("plaquette") > 1
    assert "hmc  Plaquette" in repr(samples)
    with pytest.raises(UserError, match="no observable 'Q': there are charge"):
        samples.series("Q")


def test_a_run_with_a_directory_goes_on_with_the_same_objects_only(samples, tmp_path, capsys):
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt, match=r"stopped after .* of 20 trajectories; go on with") as stopped:
        small_run(out=out, progress=stop)
    assert 0 < stopped.value.result.data.sizes["trajectory"] < 20
    with pytest.raises(UserError, match="was begun with other numbers"):
        small_run(hmc(step_size=0.2), out=out, resume=True)
    with pytest.raises(UserError, match="already holds a run"):
        small_run(out=out)
    assert cli.run(["resume", str(out)]) == ExitCode.BAD_INPUT
    assert "go on with dlhmc.sample(…, out=…, resume=True)" in capsys.readouterr().err
    whole = small_run(out=out, resume=True)
    assert cli.run(["report", str(out), "--out", str(tmp_path / "report.html")]) == ExitCode.OK
    assert "plaquette" in (tmp_path / "report.html").read_text()
    xr.testing.assert_equal(whole.data, samples.data)
    xr.testing.assert_equal(dlhmc.load(out).data, samples.data)
    assert cli.run(["summary", str(out)]) == ExitCode.OK
    assert "plaquette" in capsys.readouterr().out


def stop(done, total, facts):
    """As somebody would who has seen enough."""
    if done > AMOUNT["warmup"]:
        os.kill(os.getpid(), signal.SIGINT)


def test_progress_is_shown_to_a_function():
    seen = []
    small_run(progress=lambda done, total, facts: seen.append((done, total, facts)))
    assert seen[-1][:2] == (30, 30)
    assert "acceptance" in seen[-1][2]


def test_outside_the_main_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(small_run()))
    thread.start()
    thread.join()
    assert found[0].data.sizes["trajectory"] == 20


def test_in_a_notebook(monkeypatch):
    """One output of the cell, updated in place."""
    shown = []

    class Handle:
        def update(self, bundle, raw):
            shown.append(bundle)

    monkeypatch.setattr("dlhmc.run.progress._notebook_output", Handle)
    console = Console(force_jupyter=True)
    with Display(console, "hmc", 10).running(0) as display:
        display.update(4, "a < b")
    assert [bundle["text/plain"] for bundle in shown] == ["hmc: 0/10  compiling …", "hmc: 4/10  a < b"]


def test_observables_of_ones_own(samples):
    last = loop(jnp.asarray(samples.data["configurations"].values[-1]))
    np.testing.assert_allclose(samples.data["loop"].values[:, -1], last, rtol=1e-6)
    assert samples.tau_int("loop").value > 0
    assert samples.summary()["loop"]["mean"] == pytest.approx(samples.series("loop").mean())
    with pytest.raises(AssertionError, match="wrong breaks its contract"):
        dlhmc.sample(hmc(), observables={"wrong": lambda x: jnp.cos(x).mean(axis=-1)}, **AMOUNT)


class Half(dlhmc.Schedule):
    """γ = ½ for some steps, then 1."""

    until: int = eqx.field(static=True)

    def __call__(self, step):
        return jnp.where(step < self.until, 0.5, 1.0)

    def finished(self, step):
        return step >= self.until


def squared_jump(target, transition):
    jump = transition.x_new - transition.x
    return -transition.acceptance * jnp.sum(jump * jump, axis=0)


def own_density():
    return dlhmc.LogDensity(_quartic, dim=2)


def _quartic(x):
    return -jnp.sum(x**4)


def test_training_with_objects(tmp_path):
    target = own_density()
    trajectory = dlhmc.build_trajectory(target, "dense", layers=2, hidden=(4,), rule=dlhmc.Shift())
    assert isinstance(trajectory.layers.rule, dlhmc.Shift)
    amount = {"steps": 6, "chains": 8, "burn_in": 2, "progress": False}
    trained = dlhmc.train(
        target, trajectory, loss=squared_jump, gamma=Half(3), optimiser=optax.adam(1e-2), out=tmp_path / "t", **amount
    )
    assert trained.data["gamma"].values.tolist() == [0.5] * 3 + [1.0] * 3
    assert trained.data["step"].values.tolist() == [1, 2, 3, 4, 5, 6]
    assert "2 layers after 6 steps" in repr(trained)
    trained.save(tmp_path / "model.safetensors")
    for file in (tmp_path / "t", tmp_path / "model.safetensors"):
        kernel = dlhmc.load_kernel(file, target, like=trajectory)
        for a, b in zip(jax.tree.leaves(kernel.trajectory), jax.tree.leaves(trained.trajectory), strict=True):
            np.testing.assert_array_equal(a, b)
        with pytest.raises(UserError, match="were made in Python: load it there"):
            dlhmc.load_kernel(file, target)
    with pytest.raises(UserError, match="load_kernel gives its sampler"):
        dlhmc.load(tmp_path / "t")
    (picture,) = build_page([tmp_path / "t"]).pictures
    assert picture.title == "Training of LayerStack"
    assert [axis.get_ylabel() for axis in picture.figure.axes] == ["loss L", "acceptance A", mathtext("γ_{t}")]


def test_a_loop_over_seeds_can_be_stopped(tmp_path):
    """Ctrl-C saves, and is not swallowed: a loop would go on with a sampler that is hardly trained."""
    seeds = []

    def loop_over_seeds():
        for seed in (1, 2):
            seeds.append(seed)
            out = tmp_path / str(seed)
            dlhmc.train(own_density(), _linear, steps=500, chains=4, seed=seed, out=out, progress=stop_training)

    with pytest.raises(KeyboardInterrupt, match=r"stopped after .* of 500 steps") as stopped:
        loop_over_seeds()
    assert seeds == [1]
    partial = stopped.value.result
    assert 0 < partial.data.sizes["step"] < 500
    assert (tmp_path / "1" / "checkpoints").is_dir()
    assert isinstance(partial.kernel, dlhmc.DLHMC)


def stop_training(done, total, figures):
    os.kill(os.getpid(), signal.SIGINT)


class Linear(dlhmc.Network):
    """One parameter."""

    weight: jax.Array

    def __call__(self, zeta):
        t = self.weight.astype(zeta.vector.dtype) * zeta.vector
        return dlhmc.SQT(0 * t, 0 * t, t)


def _linear(key, geometry):
    return Linear(jnp.zeros(()))


@pytest.mark.slow
def test_training_by_name_is_that_of_the_command_line(tmp_path):
    """A model that both understand."""
    trained = dlhmc.train(
        TARGET, "local", hidden=(4,), window=2, steps=4, chains=8, burn_in=0, start="cold", progress=False
    )
    trained.save(tmp_path / "model.safetensors")
    kernel = dlhmc.load_kernel(tmp_path / "model.safetensors", TARGET)
    for a, b in zip(jax.tree.leaves(kernel.trajectory), jax.tree.leaves(trained.trajectory), strict=True):
        np.testing.assert_array_equal(a, b)
    assert cli.run(["sample", "u1", "--model", str(tmp_path / "model.safetensors"), "--dry-run"]) == ExitCode.OK


def test_comparing_objects(tmp_path):
    """A density without exact draws or exact results; nobody has told which observable is slow."""
    out = tmp_path / "run"
    target = own_density()
    found = dlhmc.compare(
        target,
        {"mine": dlhmc.HMC(target, 0.2, 3)},
        lengths=(0.5,),
        acceptances=(0.8,),
        chains=16,
        budget=0.5,
        precision=0.5,
        out=out,
        progress=False,
    )
    names = [entry.name for entry in found]
    assert names[0] == "mine"
    assert found["mine"].taus.keys() == {"x0", "x1", "squared_norm"}
    assert found.best_hmc is not None
    assert "OwnDensity" in repr(found)
    assert [entry.name for entry in dlhmc.load(out)] == names
    with pytest.raises(KeyError, match="no sampler is called 'yours'"):
        found["yours"]
    page = build_page([out])
    assert "an independent x0 costs " in page.answers[0]
    costs, chart = page.pictures
    assert "mine" in [label.get_text() for label in costs.figure.axes[0].get_yticklabels()]
    assert chart.name == "autocorrelation"
    labels = [f"ρ(t) of {name}" for name in ("x0", "x1", "squared norm")]
    assert [axis.get_ylabel() for axis in chart.figure.axes] == labels
    assert sum(isinstance(block, Table) for section in page.sections for block in section.blocks) == 3


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: dlhmc.sample(hmc(), chains=0), "^chains is 0"),
        (lambda: dlhmc.sample(hmc(), tune=0.8, warmup=0), "tuned during the warm-up"),
        (lambda: dlhmc.sample(hmc(), resume=True), "give out"),
        (lambda: dlhmc.sample(hmc(own_density()), start="exact"), "has no exact draws"),
        (lambda: dlhmc.sample(dlhmc.Exact(TARGET, TARGET.exact_draws()), tune=0.8), "no step size to tune"),
        (lambda: dlhmc.train(own_density(), loss="charge"), "^The loss charge is not for this target: use jump"),
        (
            lambda: dlhmc.train(own_density(), "local"),
            "^local layers .* are not for this target: use network",
        ),
        (lambda: dlhmc.train(TARGET, "dnse"), "There is no network 'dnse': did you mean 'dense'"),
        (
            lambda: dlhmc.build_trajectory(TARGET, "local", rule="shift"),
            "The network local has an unknown key 'rule'",
        ),
        (lambda: dlhmc.build_trajectory(TARGET, "local", rule=dlhmc.Shift()), "^rule is for leapfrog layers"),
        (lambda: dlhmc.train(TARGET, loss="jmup"), "There is no loss 'jmup': did you mean 'jump'"),
        (lambda: dlhmc.train(TARGET, wandb=True), "give out"),
        (lambda: dlhmc.compare(own_density(), hits=1), "hits are for angles"),
        (lambda: dlhmc.compare(TARGET, hts=1), "has an unknown key 'hts': did you mean 'hits'"),
        (lambda: dlhmc.load("nowhere"), "There is no run directory nowhere"),
    ],
)
def test_mistakes_are_one_sentence(call, reason):
    with pytest.raises(UserError, match=reason):
        call()


def test_tiny_is_what_the_command_line_runs():
    """The comparison above is of the same run."""
    assert {name: TINY[name] for name in ("chains", "trajectories", "warmup", "start")} == {
        name: AMOUNT[name] for name in ("chains", "trajectories", "warmup", "start")
    }


@pytest.mark.slow
def test_training_goes_through_all_stages_of_an_architecture():
    """Two steps for angles, in which γ rises, and two for U(2)."""
    target = dlhmc.wilson("u2", (4, 4), 4.0)
    trained = dlhmc.train(target, "local", steps=4, chains=8, burn_in=1, gamma=0.5, progress=False)
    np.testing.assert_allclose(trained.data["gamma"], [0.5, 1, 1, 1])
    assert isinstance(trained.trajectory.inside, OnPhases)

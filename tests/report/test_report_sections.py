"""Sections of sampling and training runs: true for any target and any loss."""

import io

import hand_made
import jax
import numpy as np
import pytest
from drawn import legend, pictures
from rich.console import Console

from dlhmc.errors import ExitCode, UserError
from dlhmc.models.dense import DenseArchitecture
from dlhmc.models.model import describe, save
from dlhmc.report.command import build_page
from dlhmc.report.page import Table, render
from dlhmc.report.plots import mathtext
from dlhmc.spec.sampling import SampleSpec
from dlhmc.spec.training import TrainSpec
from dlhmc.theories.gauge.field import U1

TRAINING = {"leapfrog_steps": 2, "chains": 8, "steps": 6, "burn_in": 0, "chunk": 3, "start": "cold"}
DENSE = TRAINING | {"network": "dense", "hidden": (4,)}
WINDOWS = TRAINING | {"network": "local", "hidden": (4,), "lattice": (4, 4), "window": 2}


def train(path, **settings):
    assert TrainSpec.of(settings).run(path, Console(file=io.StringIO()))[1] is ExitCode.OK
    return path


@pytest.fixture(scope="module")
def mixtures(tmp_path_factory):
    """The same but for the seed."""
    folder = tmp_path_factory.mktemp("trainings")
    return [train(folder / name, target="mixture", seed=seed, **DENSE) for name, seed in (("one", 1), ("two", 2))]


def test_training_of_vectors(mixtures):
    (picture,) = build_page(mixtures).pictures
    assert picture.title == "Training of dense networks, 2 layers, two Gaussians far apart"
    assert legend(picture.figure) == ["one", "two"]
    # A point for each chunk.
    for axis in picture.figure.axes:
        assert [line.get_xdata().tolist() for line in axis.lines] == [[3, 6]] * 2
    labels = [axis.get_ylabel() for axis in picture.figure.axes]
    assert labels[:2] == ["loss L", "acceptance A"]
    assert labels[-1] == mathtext("γ_{t}")
    assert "L = −A·|Δx|², averaged over the batch; " in picture.caption


def test_runs_of_the_same_layers_are_shown_together(mixtures, tmp_path):
    settings = WINDOWS | {"loss": "charge"}
    first = train(tmp_path / "first", beta=2.0, gamma_start=0.75, **settings)
    second = train(tmp_path / "second", beta=3.0, gamma_start=0.6, model=str(first), **settings)
    together, alone = build_page([second, mixtures[0], first]).pictures
    assert [together.name, alone.name] == ["training-second", "training-one"]
    assert together.title == "Training of networks in windows, 2 layers, U(1) gauge theory"
    assert legend(together.figure) == ["second", "first"]
    (rising,) = (axis for axis in together.figure.axes if axis.get_ylabel() == mathtext("γ_{t}"))
    assert [line.get_ydata()[-1] for line in rising.lines] == pytest.approx([1.0, 1.0])


def test_layers_of_a_model(tmp_path):
    settings = {"target": "u1", "lattice": [4, 4], "beta": 2.0}
    quantities = {"slow": ("charge", "sine_charge"), "moments": ("plaquette",)}
    target = U1((4, 4), 2.0)
    architecture = DenseArchitecture(3, 0.1, hidden=(4,)).completed(target)
    file = tmp_path / "dense.safetensors"
    save(file, architecture.build(target, jax.random.key(1)), describe(architecture, settings))

    def page(name, model):
        hmc = hand_made.entry("leapfrog 1/4", "hmc", 5.0, **quantities)
        trained = hand_made.entry("model", "model", 2.0, model=str(model), **quantities)
        return build_page([hand_made.comparison(tmp_path / name, settings, [hmc, trained], whole=True)])

    found = pictures(page("seen", file))
    assert len(found["layers"].figure.axes) == 3
    for axis in found["layers"].figure.axes:
        (line,) = axis.lines
        assert len(line.get_ydata()) == 4  # the start, then three layers
    plaquette, energy, charge = (axis.lines[0].get_ydata() for axis in found["layers"].figure.axes)
    assert (energy[0], charge[0]) == (0, 0)
    assert plaquette[0] == pytest.approx(0, abs=0.05)  # exact draws
    assert [np.shape(axis.images[0].get_array()) for axis in found["tunnelling"].figure.axes[:4]] == [(4, 4)] * 4
    gone = page("unseen", "gone")
    assert {"layers", "tunnelling"}.isdisjoint(pictures(gone))
    assert "The layers cannot be shown: There is no model or training run gone" in render(gone)


def test_a_sampling_run(tmp_path):
    amounts = {"chains": 4, "trajectories": 20, "warmup": 10, "leapfrog_steps": 4, "start": "cold"}
    plan = SampleSpec.of({"lattice": (4, 4), "beta": 2.0} | amounts)
    work, code = plan.run(tmp_path / "run", Console(file=io.StringIO()))
    assert code is ExitCode.OK
    page = build_page([tmp_path / "run"])
    assert page.answers == []
    (picture,) = page.pictures
    charge, sine = picture.figure.axes
    assert [axis.get_ylabel() for axis in (charge, sine)] == [mathtext("Q_{ℤ}"), mathtext("Q_{ℝ}")]
    assert [axis.lines[0].get_drawstyle() for axis in (charge, sine)] == ["steps-mid", "default"]
    np.testing.assert_array_equal(charge.lines[0].get_ydata(), work.history.arrays["charge"][:, 0])
    (table,) = (block for section in page.sections for block in section.blocks if isinstance(block, Table))
    assert [row[0] for row in table.rows][:2] == ["plaquette", "charge squared"]
    assert table.caption.startswith("hmc  u1  4×4  β = 2  4 chains × 20 trajectories")


def test_nothing_to_report_is_said(tmp_path):
    with pytest.raises(UserError, match="nothing to report yet"):
        build_page([])

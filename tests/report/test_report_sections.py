"""Sections of sampling and training runs: true for any target and any loss."""

import io
from pathlib import Path

import hand_made
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from dlhmc.errors import ExitCode
from dlhmc.kernels import HMC
from dlhmc.models.dense import DenseArchitecture
from dlhmc.models.model import describe, save
from dlhmc.plans.sampling import SamplePlan
from dlhmc.plans.training import TrainPlan
from dlhmc.report.charts import Table, Text
from dlhmc.report.comparisons import ComparedRun
from dlhmc.report.contents import build_page, drawn
from dlhmc.report.layers import ENERGY, Batch, _equilibrium
from dlhmc.report.training import Training
from dlhmc.theories import registry
from dlhmc.theories.gauge.architectures import LocalArchitecture
from dlhmc.theories.vectors.log_density import LogDensity
from dlhmc.theories.vectors.mixture import GaussianMixture
from unoptimised import unoptimised

TRAINING = {"leapfrog_steps": 2, "chains": 8, "steps": 6, "burn_in": 0, "chunk": 3, "start": "cold"}
DENSE = TRAINING | {"network": "dense", "hidden": (4,)}
WINDOWS = TRAINING | {"network": "local", "hidden": (4,), "lattice": (4, 4), "window": 2}


def train(path, **settings):
    assert TrainPlan.from_table(settings).run(path, Console(file=io.StringIO()))[1] is ExitCode.OK
    return path


@pytest.fixture(scope="module")
def mixtures(tmp_path_factory):
    """The same but for the seed."""
    folder = tmp_path_factory.mktemp("trainings")
    return [train(folder / name, target="mixture", seed=seed, **DENSE) for name, seed in (("one", 1), ("two", 2))]


def test_training_of_vectors(mixtures):
    (chart,) = drawn(build_page(mixtures))
    assert chart.title == "Training of 2 dense layers, mixture"
    assert [series.name for series in chart.panels[0].series] == ["one", "two"]
    # A point for each step, although the chunks have three.
    assert [list(series.x) for series in chart.panels[0].series] == [[1, 2, 3, 4, 5, 6]] * 2
    labels = [panel.y_label for panel in chart.panels]
    assert labels == ["loss L", "acceptance A", "tunnelling rate", "γ_{t}", "learning rate"]
    assert "L = −A·|Δx|², averaged over the batch." in chart.caption
    assert "sector or mode" in chart.caption
    assert "trained before" not in chart.caption
    assert "Every step up to the hundredth" in chart.caption


def test_trainings_are_named_by_what_is_unusual_about_their_target():
    settings = {"target": "schwinger", "lattice": (4, 6), "expected_charge_squared": 0.13, "hasenbusch": ()}
    training = Training(Path("run"), {}, TrainPlan.from_table(settings), [])
    assert training.family[-1] == "4×6, expected charge squared = 0.13"


def test_runs_that_differ_in_couplings_are_shown_together(mixtures, tmp_path):
    settings = WINDOWS | {"loss": "charge"}
    first = train(tmp_path / "first", beta=2.0, beta_start=1.5, **settings)
    second = train(tmp_path / "second", beta=3.0, beta_start=2.0, model=str(first), **settings)
    chart, alone = drawn(build_page([second, mixtures[0], first]))
    assert [chart.name, alone.name] == ["training-local-2-4x4", "training-dense-2-mixture"]
    assert [series.name for series in chart.panels[0].series] == ["β = 2", "β = 3"]
    assert "L = −A·(ΔQ_{R})², averaged over the batch." in chart.caption
    assert chart.caption.endswith("From parameters trained before: β = 3.")
    (rising,) = (panel for panel in chart.panels if panel.y_label == "β_{t}")
    assert [series.y[-1] for series in rising.series] == pytest.approx([2.0, 3.0])


def built(path, architecture, target, described):
    """A model that is not trained."""
    architecture = architecture.completed(target)
    save(path, unoptimised(architecture.build)(target, jax.random.key(1)), describe(architecture, described))
    return path


def test_each_kind_of_layers_is_followed_beside_the_best_hmc(tmp_path):
    described = {"target": "u1", "lattice": [4, 4], "beta": 2.0}
    kinds = {"dense": DenseArchitecture(3, 0.1, hidden=(4,)), "local": LocalArchitecture(2, hidden=(4,), window=2)}
    target = registry.theory("u1").settings((4, 4), 2.0).build()
    trained = [
        hand_made.entry(name, "model", 2.0, model=str(built(tmp_path / f"{name}.npz", kind, target, described)))
        for name, kind in kinds.items()
    ]
    hmc = hand_made.entry("leapfrog 1/4", "hmc", 5.0)
    run = ComparedRun.open(hand_made.comparison(tmp_path / "both", described, [hmc, *trained], whole=True))
    batch = Batch.of(run)
    assert [name.partition(" (")[0] for name in batch.ways] == ["dense", "HMC", "local"]
    followed = [batch.follow(way, lambda x: {"charge": target.observables(x)["charge"]}) for way in batch.ways.values()]
    # The start, then three layers, four steps or two layers.
    assert [len(found[ENERGY]) for found in followed] == [4, 5, 3]
    assert all(np.all(found[ENERGY][0] == 0) and np.isfinite(found[ENERGY]).all() for found in followed)


def test_layers_of_any_target(mixtures, tmp_path):
    target = GaussianMixture()
    quantities = {"slow": tuple(target.slow), "moments": tuple(target.moments)}
    hmc = hand_made.entry("leapfrog 1/4", "hmc", 5.0, **quantities)

    other = built(tmp_path / "dense.npz", DenseArchitecture(3, 0.1, hidden=(4,)), target, {"target": "mixture"})

    def page(name, *models):
        trained = [hand_made.entry(f"of {m}", "model", 2.0, model=str(m), **quantities) for m in models]
        return build_page([hand_made.comparison(tmp_path / name, {"target": "mixture"}, [hmc, *trained])])

    # Two models with layers of the same kind count once.
    seen, gone = page("seen", mixtures[0], mixtures[0], other), page("unseen", "gone")
    chart, film = (block for block in drawn(seen) if block.name.startswith("layers"))
    slow = next(iter(quantities["slow"])).replace("_", " ")
    assert [panel.y_label for panel in chart.panels] == [ENERGY, slow] * 2
    # The start, then two layers or four steps.
    assert [len(panel.series[1].y) for panel in chart.panels] == [3, 3, 5, 5]
    assert [panel.series[1].y[0] for panel in chart.panels[::2]] == [0.0, 0.0]
    assert len(film.frames) == 3
    assert not [block for block in drawn(gone) if block.name.startswith("layers")]
    assert [block.text for block in gone.sections[1].blocks if isinstance(block, Text)] == [
        "The layers cannot be shown: There is no model or training run gone; 'dlhmc models' lists those of the package."
    ]


def test_without_exact_draws_trajectories_begin_where_hmc_has_come_to():
    kernel = HMC(LogDensity(lambda x: -jnp.sum(x**2, axis=0) / 8, dim=2), 0.5, 4)
    assert np.std(_equilibrium(kernel, 1), axis=1) == pytest.approx([2.0, 2.0], abs=0.3)


def test_a_sampling_run(tmp_path):
    amounts = {"chains": 4, "trajectories": 20, "warmup": 10, "leapfrog_steps": 4, "start": "cold"}
    plan = SamplePlan.from_table({"lattice": (4, 4), "beta": 2.0} | amounts)
    _, code = plan.run(tmp_path / "run", Console(file=io.StringIO()), show_results=False)
    assert code is ExitCode.OK
    page = build_page([tmp_path / "run"])
    assert page.answer == "Sampling runs: 1. Tables and charts are below."
    (chart,) = drawn(page)
    assert [panel.y_label for panel in chart.panels] == ["Q_{ℤ}", "Q_{ℝ}"]
    assert [panel.series[0].kind for panel in chart.panels] == ["steps", "line"]
    (table,) = (block for section in page.sections for block in section.blocks if isinstance(block, Table))
    assert [row[0] for row in table.rows][:2] == ["plaquette", "charge squared"]
    assert table.caption.startswith("hmc, u1, 4×4, beta = 2, 4 chains × 20 trajectories, 4 leapfrog steps each. ")

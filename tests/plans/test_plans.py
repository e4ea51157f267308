import math
from pathlib import Path

import pytest

from dlhmc.errors import UserError
from dlhmc.plans.sampling import SamplePlan
from dlhmc.plans.training import TrainPlan
from dlhmc.run.settings import SampleAmounts
from dlhmc.settings import read_table, to_toml


@pytest.mark.parametrize(
    "bad",
    [
        {"beta": 0.0},
        {"beta": -1.0},
        {"beta": math.nan},
        {"beta": math.inf},
        {"lattice": (1, 4)},
        {"lattice": (4, 0)},
        {"chains": 0},
        {"chains": -3},
        {"trajectories": 0},
        {"trajectories": 2**31},
        {"warmup": -1},
        {"seed": -1},
        {"seed": 2**32},
        {"leapfrog_steps": 0},
        {"leapfrog_steps": 2**31},
        {"step_size": 0.0},
        {"step_size": math.nan},
        {"step_size": math.inf},
        {"target_acceptance": 0.0},
        {"target_acceptance": 1.0},
        {"hits": -1},
        {"keep_configurations": -1},
        {"keep_configurations": 10_001},
        {"chunk": 0},
    ],
    ids=str,
)
def test_a_value_that_cannot_run_is_named(bad):
    (name,) = bad
    with pytest.raises(UserError, match=rf"^{name} is .*, but must be .*\.$") as refusal:
        SamplePlan.from_table(bad)
    assert refusal.value.on_command_line().startswith(f"--{name.replace('_', '-')} is ")


def test_tuning_needs_a_warmup():
    with pytest.raises(UserError, match="give warmup above 0 or a step_size") as refusal:
        SampleAmounts(warmup=0).require_warmup()
    assert "--warmup above 0 or a --step-size" in refusal.value.on_command_line()


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"target": "mixture"},
        {"kernel": "exact", "lattice": (2, 6), "beta": 0.5, "start": "cold", "float64": True, "hits": 2, "chunk": 3},
    ],
)
def test_a_saved_plan_comes_back(table, tmp_path):
    plan = SamplePlan.from_table(table)
    (tmp_path / "config.toml").write_text(to_toml(plan.table()))
    assert SamplePlan.from_table(read_table(tmp_path / "config.toml")).table() == plan.table()


def test_defaults_depend_on_the_target():
    table = SamplePlan.from_table({}).table()
    assert (table["target"], table["lattice"], table["beta"]) == ("u1", (16, 16), 7.0)
    assert not {"lattice", "beta", "hits"} & SamplePlan.from_table({"target": "funnel"}).table().keys()
    own, other = (TrainPlan.from_table({"target": name, "network": "dense"}).table() for name in ("u1", "mixture"))
    assert (own["rule"], own["loss"]) == ("circle", "charge")
    assert (other["rule"], other["loss"]) == ("affine", "jump")
    with pytest.raises(UserError, match="loss charge is not for this target: use jump"):
        TrainPlan.from_table({"target": "mixture", "loss": "charge"})
    with pytest.raises(UserError, match="beta is for the targets u1, u2, su2, su3, schwinger, cpn, not"):
        TrainPlan.from_table({"target": "mixture", "beta": 3.0})


def test_hyphens_and_whole_numbers_are_understood(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("leapfrog-steps = 7\nbeta = 3\n")
    plan = SamplePlan.from_table(read_table(file))
    assert (plan.sampler.leapfrog_steps, plan.target.beta) == (7, 3.0)
    assert isinstance(plan.target.beta, float)


def test_settings_of_other_networks_are_allowed_where_they_say_nothing():
    """As in a file that holds all there are; anything else would be ignored, and is refused."""
    plan = TrainPlan.from_table({"network": "local", "mask": "random"})
    assert not {"mask", "rule"} & plan.table().keys()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("chians = 4", "unknown key 'chians': did you mean 'chains'?"),
        ("q = 4", "unknown key 'q': known keys: target, kernel"),
        ("beta = 'seven'", "beta is 'seven', but must be a number above 0 and at most 10000"),
        ("beta = true", "beta is True, but must be a number"),
        ("beta = nan", "beta is nan, but must be a number"),
        ("chains = 4.0", "chains is 4.0, but must be a whole number from 1 to 10000000"),
        ("chains = true", "chains is True, but must be a whole number"),
        ("float64 = 1", "float64 is 1, but must be true or false"),
        ("lattice = 16", "lattice is 16, but must be a list of whole numbers from 2 to 10000, 2 to 4 of them"),
        ("lattice = [4, 4, 4, 4, 4]", "2 to 4 of them"),
        ("lattice = [4, 4.5]", "but must be a list of whole numbers"),
        ("kernel = 'hcm'", "kernel is 'hcm', but must be one of hmc, exact, dlhmc"),
        ("kernel = ['hmc']", "but must be a text"),
        ("target = 'v1'", "target is 'v1', but must be one of u1, "),
        ("target = 3", "target is 3, but must be one of u1, "),
        ("[beta]\nvalue = 1", "but must be a number"),
        ("beta = ", "cannot be read"),
        ("beta = 1\nbeta = 2", "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(text, sentence, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(UserError) as refusal:
        SamplePlan.from_table(read_table(file))
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path, reason in [(tmp_path / "none", "There is no"), (tmp_path, "cannot be"), (tmp_path / "binary", "cannot")]:
        with pytest.raises(UserError, match=reason):
            read_table(path)


def test_default_directories_differ_where_runs_do():
    kinds = [
        {},
        {"hits": 1},
        {"kernel": "exact"},
        {"lattice": (4, 8)},
        {"beta": 6.5},
        {"seed": 2},
        {"target": "funnel"},
    ]
    directories = {SamplePlan.from_table(kind).default_directory for kind in kinds}
    assert len(directories) == len(kinds)
    assert Path("runs") / "hmc-16x16-b7-seed1" in directories

import math
from pathlib import Path

import pytest

from dlhmc.errors import UserError
from dlhmc.runs.config import SampleConfig, TrainConfig, load, save


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
    with pytest.raises(UserError, match=rf"^--{name.replace('_', '-')} is .*, but must be .*\.$"):
        SampleConfig(**bad)


def test_tuning_needs_a_warmup():
    with pytest.raises(UserError, match="--warmup above 0 or a --step-size"):
        SampleConfig(warmup=0)
    SampleConfig(warmup=0, step_size=0.1)
    SampleConfig(warmup=0, kernel="exact")


@pytest.mark.parametrize(
    "config",
    [
        SampleConfig(),
        SampleConfig(target="mixture"),
        SampleConfig(
            kernel="exact", lattice=(2, 6), beta=0.5, step_size=0.25, start="cold", float64=True, hits=2, chunk=3
        ),
    ],
)
def test_a_saved_configuration_comes_back(config, tmp_path):
    save(config, tmp_path / "config.toml")
    assert load(SampleConfig, tmp_path / "config.toml") == config


def test_defaults_depend_on_the_target():
    assert (SampleConfig().lattice, SampleConfig().beta) == ((16, 16), 7.0)
    assert (SampleConfig(target="funnel").lattice, SampleConfig(target="funnel").beta) == (None, None)
    assert (TrainConfig().rule, TrainConfig().loss) == ("circle", "charge")
    assert (TrainConfig(target="mixture").rule, TrainConfig(target="mixture").loss) == ("affine", "jump")
    with pytest.raises(UserError, match="no topological charge: use --loss jump"):
        TrainConfig(target="mixture", loss="charge")
    with pytest.raises(UserError, match="--symmetric is for the target u1"):
        TrainConfig(target="mixture", symmetric=True)


def test_the_target_of_a_file_can_be_overridden(tmp_path):
    (tmp_path / "config.toml").write_text("chains = 9\n")
    config = load(SampleConfig, tmp_path / "config.toml", target="mixture")
    assert config == SampleConfig(target="mixture", chains=9)


def test_hyphens_and_whole_numbers_are_understood(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("leapfrog-steps = 7\nbeta = 3\n")
    config = load(SampleConfig, file)
    assert (config.leapfrog_steps, config.beta) == (7, 3.0)
    assert isinstance(config.beta, float)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("chians = 4", "unknown key 'chians': did you mean 'chains'?"),
        ("q = 4", "unknown key 'q': known keys: kernel, target"),
        ("beta = 'seven'", "beta = 'seven', but it must be a number"),
        ("beta = true", "beta = True, but it must be a number"),
        ("beta = nan", "--beta is nan"),
        ("chains = 4.0", "chains = 4.0, but it must be a whole number"),
        ("chains = true", "chains = True, but it must be a whole number"),
        ("float64 = 1", "float64 = 1, but it must be true or false"),
        ("lattice = 16", "lattice = 16, but it must be a list of 2 whole numbers"),
        ("lattice = [4, 4, 4]", "it must be a list of 2 whole numbers"),
        ("lattice = [4, 4.5]", "it must be a list of 2 whole numbers"),
        ("kernel = 'hcm'", "kernel = 'hcm', but it must be one of hmc, exact"),
        ("kernel = ['hmc']", "it must be one of hmc, exact"),
        ("[beta]\nvalue = 1", "it must be a number"),
        ("beta = ", "cannot be read"),
        ("beta = 1\nbeta = 2", "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(text, sentence, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(UserError) as refusal:
        load(SampleConfig, file)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path, reason in [(tmp_path / "none", "There is no"), (tmp_path, "cannot be"), (tmp_path / "binary", "cannot")]:
        with pytest.raises(UserError, match=reason):
            load(SampleConfig, path)


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
    directories = {SampleConfig(**kind).default_directory for kind in kinds}
    assert len(directories) == len(kinds)
    assert Path("runs") / "hmc-16x16-b7-seed1" in directories

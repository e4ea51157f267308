"""Specifications: checked once, the same from Python, from files and from a model."""

import math

import pytest

from dlhmc.errors import UserError
from dlhmc.run.settings import SampleAmounts
from dlhmc.settings import read_table, to_toml
from dlhmc.spec.comparing import CompareSpec
from dlhmc.spec.sampling import SampleSpec
from dlhmc.spec.training import TrainSpec


@pytest.mark.parametrize(
    "bad",
    [
        {"beta": 0.0},
        {"beta": math.nan},
        {"beta": math.inf},
        {"lattice": (1, 4)},
        {"chains": 0},
        {"trajectories": 2**31},
        {"warmup": -1},
        {"seed": 2**32},
        {"leapfrog_steps": 0},
        {"step_size": math.nan},
        {"target_acceptance": 1.0},
        {"hits": -1},
        {"keep_configurations": 10_001},
        {"chunk": 0},
    ],
    ids=str,
)
def test_a_value_that_cannot_run_is_named(bad):
    (name,) = bad
    with pytest.raises(UserError, match=rf"^{name} is .*, but must be .*\.$") as refusal:
        SampleSpec.of(bad)
    assert refusal.value.on_command_line().startswith(f"--{name.replace('_', '-')} is ")


def test_tuning_needs_a_warmup():
    with pytest.raises(UserError, match="give warmup above 0 or a step_size") as refusal:
        SampleAmounts(warmup=0).require_warmup()
    assert "--warmup above 0 or a --step-size" in refusal.value.on_command_line()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (SampleSpec, {}),
        (SampleSpec, {"target": "mixture"}),
        (SampleSpec, {"kernel": "exact", "lattice": (2, 6), "beta": 0.5, "start": "cold", "float64": True, "hits": 2}),
        (SampleSpec, {"target": "su3", "kernel": "heatbath", "flow_time": 0.5, "devices": 2, "time_limit": "1h"}),
        (TrainSpec, {"target": "u2", "network": "local", "gamma_start": 0.3, "loss": "leaving"}),
        (CompareSpec, {"target": "schwinger", "mass": 0.1, "hits": 2, "budget": 9.0, "model": ["u1-b2"]}),
    ],
    ids=str,
)
def test_a_file_gives_the_specification_back(kind, options, tmp_path):
    spec = kind.of(options)
    (tmp_path / "config.toml").write_text(to_toml(spec.to_tables()))
    assert kind.of({}, read_table(tmp_path / "config.toml")) == spec


def test_a_file_has_what_is_for_the_theory_and_the_network_alone():
    tables = SampleSpec.of({"target": "funnel"}).to_tables()
    assert tables["target"] == {"name": "funnel"}
    assert tables["measure"] == {}
    assert "hits" not in tables["sampler"]
    assert "hits" in SampleSpec.of({}).to_tables()["sampler"]
    assert "window" not in TrainSpec.of({"network": "dense"}).to_tables()["network"]


def test_what_depends_on_the_target_is_settled_with_it():
    own, other = (TrainSpec.of({"target": name, "network": "dense"}) for name in ("u1", "mixture"))
    settled = [spec.settle(spec.target.build()) for spec in (own, other)]
    assert [one.network.rule for one in settled] == ["circle", "affine"]
    assert [one.loss.meaning for one in settled] == ["−A·(ΔQ_R)², the paper's", "−A·|Δx|²"]
    assert own.network.rule is None
    with pytest.raises(UserError, match="loss charge is not for this target: use jump or action"):
        TrainSpec.of({"target": "mixture", "network": "dense", "loss": "charge"}).build()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[run]\nchians = 4", "c.toml in [run] has an unknown key 'chians': did you mean 'chains'?"),
        ("[rnu]\nchains = 4", "c.toml has an unknown key 'rnu': did you mean 'run'?"),
        ("chains = 4", "c.toml has an unknown key 'chains'"),
        ("[target]\nbeta = 'seven'", "beta is 'seven', but must be a number above 0 and at most 10000"),
        ("[target]\nbeta = true", "beta is True, but must be a number"),
        ("[run]\nchains = 4.0", "chains is 4.0, but must be a whole number from 1 to 10000000"),
        ("[run]\nfloat64 = 1", "float64 is 1, but must be true or false"),
        ("[target]\nlattice = 16", "lattice is 16, but must be a list of whole numbers from 2 to 10000, 2 to 4 of"),
        ("[sampler]\nkernel = 'hcm'", "kernel is 'hcm', but must be one of hmc, exact, heatbath, dlhmc"),
        ("[target]\nname = 'v1'", "There is no theory 'v1': there are u1, u2"),
        ("[target]\nname = 3", "There is no theory 3"),
        ("target = 3", "but must be a table"),
        ("[target]\nbeta = ", "cannot be read"),
        ("[target]\nname = 'su3'", "c.toml is for the target 'su3', not for u1"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(text, sentence, tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(UserError) as refusal:
        SampleSpec.of({"target": "u1"} if "su3" in text else {}, read_table(file), "The configuration c.toml")
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path, reason in [(tmp_path / "none", "There is no"), (tmp_path, "cannot be"), (tmp_path / "binary", "cannot")]:
        with pytest.raises(UserError, match=reason):
            read_table(path)


def test_a_model_tells_lattice_and_coupling_unless_they_are_given():
    spec = SampleSpec.of({"model": "u1-b2"})
    assert (spec.sampler.kernel, spec.target.lattice, spec.target.beta) == ("dlhmc", (16, 16), 2.0)
    assert SampleSpec.of({"model": "u1-b2", "beta": 3.0}).target.beta == 3.0
    assert SampleSpec.of({"target": "schwinger", "model": "u1-b2"}).target.beta == 2.0
    assert TrainSpec.of({"network": "local", "model": "u1-b2"}).network.window == 3
    with pytest.raises(UserError, match="was trained for u1, not for funnel"):
        SampleSpec.of({"target": "funnel", "model": "u1-b2"})


def test_default_directories_differ_where_runs_do_and_are_free(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kinds = [{}, {"hits": 1}, {"kernel": "exact"}, {"lattice": (4, 8)}, {"beta": 6.5}, {"seed": 2}, {"target": "su3"}]
    assert len({SampleSpec.of(kind).default_directory for kind in kinds}) == len(kinds)
    first = SampleSpec.of({}).default_directory
    assert str(first) == "runs/hmc-16x16-b7-seed1"
    first.mkdir(parents=True)
    assert str(SampleSpec.of({}).default_directory) == "runs/hmc-16x16-b7-seed1-2"

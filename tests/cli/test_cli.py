"""The command line as a user meets it. Runs themselves are tested in tests/run."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from rich.console import Console

from dlhmc import __version__, cli
from dlhmc.cli.commands import COMMANDS
from dlhmc.cli.doctor import show
from dlhmc.cli.parsing import find_leaf
from dlhmc.errors import ExitCode
from dlhmc.run.needs import is_exhausted

OPTIONS = "--lattice 4 4 --beta 2 --chains 4 --trajectories 20 --warmup 5 --leapfrog-steps 4 --start cold"
TINY = OPTIONS.split()
MAIN = [sys.executable, "-c", "from dlhmc.cli import main; main()"]
#: words that lead to every kind of options
LEAVES = [
    *("demo", "sample u1", "sample funnel", "train u1 local", "train su3 covariant", "train mixture dense"),
    *("compare u1", "compare schwinger", "reproduce u1", "reproduce schwinger", "resume", "summary", "report"),
    *("export", "measure su3", "models", "doctor", "completion"),
]


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """Everything happens in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence of a command that must fail without writing anything."""
    before = sorted(Path().rglob("*"))
    assert cli.run(words.split()) == ExitCode.BAD_INPUT
    output = capsys.readouterr()
    assert output.out == ""
    assert sorted(Path().rglob("*")) == before
    assert output.err.startswith("dlhmc: ")
    assert output.err.count("\n") == 1
    return output.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("smaple", "There is no command 'smaple': did you mean 'sample'?"),
        ("sample", "Say which theory: 'dlhmc sample THEORY', u1, u2"),
        ("sample u3", "There is no theory 'u3' for 'dlhmc sample': did you mean 'su3'?"),
        ("train u1", "Say which network: 'dlhmc train u1 NETWORK', local, covariant, dense."),
        ("train u1 locl", "There is no network 'locl' for 'dlhmc train u1': did you mean 'local'?"),
        ("reproduce u3", "There is no study 'u3'"),
        ("sample u1 --lattise 4 4", "no option '--lattise' of 'dlhmc sample u1': did you mean '--lattice'?"),
        ("sample u1 4", "'dlhmc sample u1' does not take '4'"),
        ("sample funnel --hits 1", "no option '--hits' of 'dlhmc sample funnel'"),
        ("train u1 dense --heads links", "no option '--heads' of 'dlhmc train u1 dense'"),
        ("train u1 local --leapfrog_step=3", "did you mean '--leapfrog-steps'?"),
        ("summary --jsn run", "did you mean '--json'?"),
        ("summary", "'dlhmc summary' needs DIRECTORY"),
        ("export run", "'dlhmc export' needs --out"),
        ("sample u1 --beta 0", "--beta is 0, but must be a number above 0 and at most 10000."),
        ("sample u1 --beta nan", "--beta is nan"),
        ("sample u1 --beta 1,5", "--beta is 1,5, but must be a number above 0 and at most 10000: write 1.5."),
        ("sample u1 --beta", "--beta has no value"),
        ("sample u1 --lattice 1 4", "--lattice is 1 4, but must be a list of whole numbers from 2"),
        ("sample u1 --lattice 4 x --beta 2", "--lattice is 4 x, but must be a list of whole numbers"),
        ("sample schwinger --lattice 4", "--lattice has no value, but must be 2 whole numbers from 2 to 10000."),
        ("sample u1 --kernel hcm", "--kernel is 'hcm', but must be one of hmc"),
        ("sample u1 --integrator euler", "--integrator is 'euler', but must be leapfrog, omelyan or omelyan4."),
        ("sample u1 --keep-configurations 99999", "--keep-configurations is 99999"),
        ("sample u1 --time-limit soon", "'soon' is no duration"),
        ("sample u1 --model nowhere", "There is no model or training run nowhere"),
        ("sample u1 --start nowhere", "There is no file nowhere: --start is one of hot"),
        ("compare u1 --model nowhere", "There is no model or training run nowhere"),
        ("train u1 local --model nowhere", "There is no model or training run nowhere"),
        ("sample u1 --config missing.toml", "There is no configuration file missing.toml"),
        ("sample u1 --config=unknown.toml", "in [run] has an unknown key 'chians': did you mean 'chains'?"),
        ("sample u1 --config type.toml", "--beta is 'seven', but must be a number"),
        ("sample u1 --config .", "cannot be read"),
        ("sample u1 --out taken", "taken already holds a run: choose another directory, or 'dlhmc resume taken'"),
        ("sample u1 --out taken --dry-run", "taken already holds a run"),
        ("sample u1 --out file", "file is a file"),
        ("sample u1 --out full", "full is not empty"),
        ("sample u1 --warmup 0", "The step size is tuned during the warm-up"),
        ("sample u1 --inner-steps 2", "--inner-steps is for a force in several parts"),
        ("sample u1 --kernel heatbath", "heatbath is not for angles in two dimensions"),
        ("sample u1 --lattice 4096 4096 --chains 100000", "This run needs about 40 TB of memory, and "),
        ("resume nowhere", "There is no run directory nowhere."),
        ("summary nowhere", "There is no run directory nowhere."),
        ("report nowhere", "There is no run directory nowhere."),
        ("doctor nowhere", "There is no run directory nowhere."),
        ("summary empty", "empty is not a run directory"),
        ("measure u1 nowhere", "There is no file nowhere"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(words, reason, capsys):
    Path("unknown.toml").write_text("[run]\nchians = 4")
    Path("type.toml").write_text("[target]\nbeta = 'seven'")
    Path("file").touch()
    Path("empty").mkdir()
    for name in ("taken/config.toml", "full/other"):
        Path(name).parent.mkdir()
        Path(name).touch()
    assert reason in refused(words, capsys)


def test_words_files_and_directories_are_checked_without_jax():
    code = (
        "import sys; from dlhmc import cli\n"
        "for words in ('--help', 'train u1 --help', 'sample u1 --model nowhere', 'summary nowhere', 'sample u3',\n"
        "              'sample u1 --start nowhere', 'compare u1 --model nowhere', 'report nowhere'):\n"
        "    cli.run(words.split())\n"
        "try: cli.run(['train', 'u1', 'local', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('jax', 'zarr', 'matplotlib')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def help_of(capsys, words):
    """What is printed, and all options."""
    with pytest.raises(SystemExit) as end:
        cli.run(words.split())
    assert end.value.code == ExitCode.OK
    text = capsys.readouterr().out
    return text.splitlines(), set(re.findall(r"^\W (--[a-z0-9-]+)", text, re.MULTILINE))


def test_the_overview_and_the_version(capsys):
    assert cli.run(["--version"]) == ExitCode.OK
    assert capsys.readouterr().out == f"dlhmc {__version__}\n"
    assert cli.run([]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert all(any(line.startswith(f"  {name} ") for line in lines) for name in COMMANDS)
    assert cli.run(["train", "u1", "--help"]) == ExitCode.OK
    assert "  covariant  the paper's layers for links" in capsys.readouterr().out


@pytest.mark.parametrize("words", LEAVES)
def test_help_tells_what_applies(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines, common = help_of(capsys, f"{words} --help")
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(f"usage: dlhmc {words} ")
    everything, known = help_of(capsys, f"{words} --help-all")
    assert max(map(len, everything)) <= 80
    assert common <= known
    leaf, rest = find_leaf(COMMANDS, words.split())
    assert rest == []
    fields = leaf.fields().values()
    assert all(field.meaning and "\n" not in field.meaning for field in fields)
    if hidden := len(known - common):
        assert f"--help-all lists {hidden} more options." in " ".join(lines)


def test_help_for_training_fits_on_a_screen(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines, options = help_of(capsys, "train u1 local --help")
    assert len(lines) <= 45
    assert {"--lattice", "--beta", "--window", "--gamma-start", "--steps", "--seed", "--config", "--out"} <= options
    assert {"--dry-run", "--quiet", "--json", "--devices", "--time-limit", "--model"} <= options


def test_models_fit_on_a_screen(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.run(["models"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("u1-b7" in line and "16×16" in line and "2 local" in line for line in lines)


def test_a_dry_run_shows_the_specification_and_writes_nothing(directory, capsys):
    Path("c.toml").write_text("[target]\nbeta = 3.5\n[run]\nchains = 9\nfloat64 = true\n")
    small = "--lattice 4 4 --start cold --trajectories 1000 --keep-configurations 2"
    words = f"sample u1 --config c.toml --chains 7 --out a[b] --dry-run {small}"
    assert cli.run(words.split()) == ExitCode.OK
    shown = capsys.readouterr().out
    for line in ("beta = 3.5", "chains = 7", "float64 = true", 'kernel = "hmc"', "would run in a[b]"):
        assert line in shown
    # Two links at each of 16 sites, 8 bytes each.
    size = 2 * 16 * 7 * 8
    told = dict(re.findall(r"^ *([a-z ]+?)   (.*)$", shown, re.MULTILINE))
    assert told["fields"] == told["momenta"] == f"{size / 1e6:.2g} MB"
    assert re.fullmatch(r"\S+ [MG]B of \S+ [GT]B, and what the program needs", told["memory"])
    assert re.fullmatch(r"\d+ s to compile, .* s for 1,500 trajectories", told["time"])
    assert os.listdir(directory) == ["c.toml"]


def test_a_dry_run_of_a_comparison_tells_memory_and_time(directory, capsys):
    words = (
        "compare u1 --lattice 4 4 --beta 2 --chains 4 --dry-run --integrators leapfrog --lengths 1 --acceptances 0.8"
    )
    assert cli.run(f"{words} --hits 0 --budget 7".split()) == ExitCode.OK
    shown = capsys.readouterr().out
    assert "samplers   1 points of the grid of HMC" in shown
    assert "at most 1.2 × 7 s" in shown
    assert os.listdir(directory) == []


def test_memory_that_cannot_be_had_is_told_from_other_errors():
    with pytest.raises(jax.errors.JaxRuntimeError) as found:
        jax.block_until_ready(jax.numpy.zeros(10**15, "int8"))
    assert is_exhausted(found.value)
    assert not is_exhausted(ValueError("RESOURCE_EXHAUSTED"))


def test_a_run_from_start_to_summary(capsys):
    assert cli.run(["sample", "u1", *TINY, "--out", "run"]) == ExitCode.OK
    output = capsys.readouterr()
    assert output.err == ""
    assert "hmc: 25/25  acceptance" in output.out
    assert "τ_int(charge)" in output.out
    assert "\x1b" not in output.out
    assert cli.run(["summary", "run"]) == ExitCode.OK
    assert "τ_int(charge)" in capsys.readouterr().out
    printed = []
    for words in ("summary run --json", "resume run --json"):
        assert cli.run(words.split()) == ExitCode.OK
        output = capsys.readouterr()
        assert output.err == ""
        printed.append(json.loads(output.out))
    assert printed[0] == printed[1]
    assert "plaquette" in printed[0]
    assert "--trajectories for sampling" in refused("resume run --steps 3", capsys)


def test_a_command_that_is_repeated_finds_another_directory(capsys):
    for _ in range(2):
        assert cli.run(["sample", "u1", *TINY, "--quiet"]) == ExitCode.OK
    assert capsys.readouterr().out == ""
    assert sorted(path.name for path in Path("runs").iterdir()) == ["hmc-4x4-b2-seed1", "hmc-4x4-b2-seed1-2"]


def test_in_a_terminal_progress_is_live():
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    words = ["sample", "u1", *TINY, "--out", "run"]
    with subprocess.Popen([*MAIN, *words], stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        output = b""
        while process.poll() is None or output[-1:] != b"\n":
            try:
                output += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
    os.close(ours)
    assert process.returncode == ExitCode.OK
    text = output.decode()
    assert "\x1b[2K" in text  # lines are drawn over
    assert "compiling" in text
    assert "written to run" in text


@pytest.mark.slow
def test_the_doctor_finds_this_machine_fit(capsys):
    assert cli.run(["doctor", "--json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["good"] is True
    assert [check["exact"] for check in found["checks"]] == [True, True, True]
    assert "cpu" in found["facts"]["devices"]


def test_the_doctor_says_what_is_wrong(capsys):
    checks = [
        {"name": "HMC", "p_value": 0.4, "seconds": 1.0, "exact": True},
        {"name": "another", "p_value": 1e-6, "seconds": 1.0, "exact": False},
    ]
    show({"facts": {"devices": "1: cpu"}, "checks": checks, "good": False}, Console())
    shown = capsys.readouterr().out
    assert "HMC: exact (p = 0.4, 1.0 s)" in shown
    assert "another: WRONG" in shown
    assert "cannot be trusted" in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_all_words_and_options(shell, capsys):
    with pytest.raises(SystemExit) as end:
        cli.run(["completion", shell])
    assert end.value.code in (0, None)
    text = capsys.readouterr().out
    for word in (*COMMANDS, "schwinger", "covariant", "--gamma-start", "--overrelaxation", "leapfrog"):
        assert word in text


@pytest.mark.slow
def test_a_run_that_nobody_reads_ends_and_goes_on_later():
    """`dlhmc sample | head -1`: no success, no traceback, and nothing is lost but the chunk at hand."""
    words = "sample u1 --lattice 4 4 --beta 2 --chains 4 --trajectories 6000 --chunk 100 --start cold --out run"
    with subprocess.Popen([*MAIN, *words.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read().decode()
    assert process.returncode == ExitCode.UNREAD
    assert "nobody reads the output" in complaint
    assert "Traceback" not in complaint
    assert not Path("run/summary.json").exists()
    assert cli.run(["resume", "run", "--quiet"]) == ExitCode.OK
    assert json.loads(Path("run/summary.json").read_text())["trajectories"] == 6000

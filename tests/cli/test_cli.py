"""The command line as a user meets it. Runs themselves are tested in tests/runs."""

import ast
import dataclasses
import inspect
import json
import os
import pty
import re
import subprocess
import sys
import textwrap
import typing
from pathlib import Path

import jax
import pytest
from rich.console import Console

from dlhmc import __version__, cli
from dlhmc.cli.commands import all_options
from dlhmc.cli.completion import script, spellings
from dlhmc.cli.doctor import show
from dlhmc.cli.listing import options_of
from dlhmc.errors import ExitCode
from dlhmc.run.needs import is_exhausted

OPTIONS = "--lattice 4 4 --beta 2 --chains 4 --trajectories 20 --warmup 5 --leapfrog-steps 4 --start cold"
TINY = OPTIONS.split()


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """Everything happens in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence of a command that must fail without writing anything."""
    before = sorted(Path().rglob("*"))
    try:
        code = cli.run(arguments)
    except SystemExit as end:
        code = end.code
    output = capsys.readouterr()
    assert code == ExitCode.BAD_INPUT
    assert output.out == ""
    assert sorted(Path().rglob("*")) == before
    return output.err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--beta 0", "--beta is 0.0"),
        ("--beta -2", "--beta is -2.0"),
        ("--beta nan", "--beta is nan"),
        ("--lattice 1 4", "--lattice is 1 4"),
        ("--chains 0", "--chains is 0"),
        ("--hits -1", "--hits is -1"),
        ("--target mixture --beta 2", "--beta is for the targets u1, u2, su2, su3, schwinger, cpn, not for this run"),
        ("--lattice 4 4 --target=funnel", "--lattice is for the targets u1, u2, su2, su3, schwinger, cpn, not"),
        (
            "--target mixture --hits 1",
            "--hits is for the targets u1, schwinger in sampling, not for this run: leave it out",
        ),
        ("--model nowhere", "There is no model or training run nowhere"),
        ("--keep-configurations 99999", "--keep-configurations is 99999"),
        ("--warmup 0", "The step size is tuned during the warm-up"),
        ("--chains 1e3", "--chains is '1e3', but must be a whole number from 1 to 10000000: write 1000."),
        ("--trajectories=2.0", "--trajectories is '2.0', but must be a whole number from 1 to 1000000000: write 2."),
        ("--beta 1,5", "--beta is '1,5', but must be a number above 0 and at most 10000: write 1.5."),
        ("--beta seven", "--beta is 'seven', but must be a number above 0 and at most 10000.\n"),
        ("--lattice 4 x --beta 2", "--lattice is 'x', but must be a list of whole numbers"),
        ("--warmup --beta 2", "--warmup has no value, but must be a whole number from 0"),
        ("--target schwinger --lattice 4", "--lattice is '4', but must be 2 whole numbers from 2 to 10000."),
        ("--lattice 4096 4096 --chains 100000", "This run needs about 40 TB of memory, and "),
        ("--inner-steps 2", "--inner-steps is for a force in several parts; this one has one: leave it out.\n"),
        ("--config missing.toml", "There is no configuration file missing.toml"),
        ("--config=unknown.toml", "unknown key 'chians': did you mean 'chains'?"),
        ("--config type.toml", "--beta is 'seven', but must be a number"),
        ("--config .", "cannot be read"),
        ("--out taken", "taken already holds a run"),
        ("--out taken --dry-run", "taken already holds a run"),
        ("--out file", "file is a file"),
        ("--out full", "full is not empty"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(arguments, reason, capsys):
    Path("unknown.toml").write_text("chians = 4")
    Path("type.toml").write_text("beta = 'seven'")
    Path("file").touch()
    for name in ("taken/config.toml", "full/other"):
        Path(name).parent.mkdir()
        Path(name).touch()
    sentence = refused(["sample", *arguments.split()], capsys)
    assert sentence.startswith("dlhmc: ")
    assert reason in sentence
    assert sentence.count("\n") == 1


@pytest.mark.parametrize("command", ["resume", "summary"])
def test_there_must_be_a_run(command, capsys):
    assert refused([command, "nowhere"], capsys) == "dlhmc: There is no run directory nowhere.\n"
    Path("empty").mkdir()
    assert "empty is not a run directory" in refused([command, "empty"], capsys)
    assert "DIRECTORY" in refused([command], capsys)


def test_a_misspelt_command_or_option_gets_a_suggestion(capsys):
    assert refused(["smaple"], capsys) == "dlhmc: There is no command 'smaple': did you mean 'sample'?\n"
    assert refused(["xyz"], capsys) == "dlhmc: There is no command 'xyz': see 'dlhmc --help'.\n"
    wrong = "dlhmc: There is no option '--lattise' of 'dlhmc sample': did you mean '--lattice'?\n"
    assert refused(["sample", "--lattise", "4", "4"], capsys) == wrong
    assert "did you mean '--json'?" in refused(["summary", "--jsn", "run"], capsys)
    assert "did you mean '--leapfrog-steps'?" in refused(["train", "--leapfrog_step=3"], capsys)
    assert "see 'dlhmc models --help'" in refused(["models", "--xyzzy"], capsys)
    assert "hmc" in refused(["sample", "--kernel", "hcm"], capsys)
    assert "mixture" in refused(["sample", "--target", "mixtuer"], capsys)
    assert "The target mixture has no preset 'laptop'" in refused(
        ["train", "--target", "mixture", "--preset", "laptop"], capsys
    )
    assert "--chains" in refused(["sample", "--chains", "many"], capsys)


def with_options(command):
    """The class that a command line without words is parsed into."""
    specialised = getattr(command.options, "specialised", None)
    return command.options if specialised is None else specialised([])[0]


def test_help_and_version(capsys):
    assert cli.run(["--version"]) == ExitCode.OK
    assert capsys.readouterr().out == f"dlhmc {__version__}\n"
    assert cli.run([]) == ExitCode.OK
    overview = capsys.readouterr().out
    lines = overview.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    for name, command in cli.commands().items():
        assert f"  {name} " in overview
        with pytest.raises(SystemExit) as end:
            cli.run([name, "--help-all"])
        assert end.value.code == ExitCode.OK
        text = capsys.readouterr().out
        assert f"usage: dlhmc {name}" in text
        # What completion offers is what there is.
        starts = re.findall(r"^ ? ?(-.*?)(?:  |$)", text, re.MULTILINE)  # what a meaning names is further to the right
        shown = {option for start in starts for option in re.findall(r"--[a-z][a-z0-9-]*", start)}
        assert shown == set(spellings(options_of(with_options(command))))


def help_of(capsys, *arguments):
    """What is printed, and the options of each section."""
    with pytest.raises(SystemExit):
        cli.run([*arguments])
    text = capsys.readouterr().out
    sections = {}
    for line in text.splitlines():
        if re.match(r"[a-z]", line):
            section = sections.setdefault(line, [])
        elif found := re.match(r"  (--[a-z0-9-]+)", line):
            section.append(found[1])
    return text.splitlines(), sections


@pytest.mark.parametrize("command", ["sample", "train", "compare"])
def test_help_has_the_common_options_in_sections_on_two_screens(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines, sections = help_of(capsys, command, "--help")
    assert len(lines) <= 75
    assert max(map(len, lines)) <= 80
    assert {"--target", "--lattice", "--beta", "--config"} <= set(sections["what"])
    assert {"--chains", "--seed"} <= set(sections["how much"])
    assert {"--out", "--dry-run", "--quiet", "--float64"} <= set(sections["machine and output"])
    everything, all_sections = help_of(capsys, command, "--help-all")
    assert max(map(len, everything)) <= 80
    shown, known = (sum(map(len, found.values())) for found in (sections, all_sections))
    assert f"--help-all lists {known - shown} more options." in lines


def test_help_has_the_options_of_the_theory_and_the_network_asked_for(capsys):
    _, usual = help_of(capsys, "sample", "--help")
    _, other = help_of(capsys, "sample", "--target", "su3", "--help")
    assert "--hits" in usual["sampler"]
    assert "--hits" not in other["sampler"]
    assert other["measurement"] == ["--flow-time", "--loops"]
    _, dense = help_of(capsys, "train", "--network=dense", "-h")
    assert "--hidden" in dense["sampler"]
    assert "--flux" not in dense["sampler"]


def test_help_does_not_wait_for_heavy_imports():
    code = (
        "import sys; from dlhmc import cli; cli.run(['--help'])\n"
        "try: cli.run(['sample', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('jax', 'numpy', 'zarr', 'matplotlib')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_dry_run_shows_the_resolved_settings_and_writes_nothing(directory, capsys):
    Path("c.toml").write_text("beta = 3.5\nchains = 9\nfloat64 = true\n")
    small = ["--lattice", "4", "4", "--start", "cold", "--trajectories", "1000", "--keep-configurations", "2"]
    words = ["--config", "c.toml", "--chains", "7", "--out", "a[b]", "--dry-run", *small]
    assert cli.run(["sample", *words]) == ExitCode.OK
    shown = capsys.readouterr().out
    for line in ("beta = 3.5", "chains = 7", "float64 = True", "kernel = hmc", "would run in a[b]"):
        assert line in shown
    # Two links at each of 16 sites, 8 bytes each.
    size = 2 * 16 * 7 * 8
    told = dict(re.findall(r"^ *([a-z ]+?)   (.*)$", shown, re.MULTILINE))
    assert told["fields"] == told["momenta"] == f"{size / 1e6:.2g} MB"
    assert re.fullmatch(r"\S+ [MG]B of \S+ [GT]B that are free", told["memory"])
    # Nine numbers of each trajectory and chain or fewer, and two configurations.
    most = float(re.match(r"at most (\S+) MB", told["disk"])[1])
    assert 2 * size < 1e6 * most < 2 * size + 9 * 8 * 7 * 1000
    assert re.fullmatch(r"\d+ s to compile, .* s for 1,500 trajectories", told["time"])
    assert os.listdir(directory) == ["c.toml"]


@pytest.mark.parametrize("command", [["train", "--network", "dense"], ["compare"]], ids=["train", "compare"])
def test_a_run_that_cannot_fit_is_refused_before_it_starts(command, capsys):
    sentence = refused([*command, "--lattice", "4096", "4096", "--chains", "100000", "--out", "run"], capsys)
    assert re.search(r"This run needs about 40 TB of memory, and .* are free: take fewer --chains", sentence)


def test_a_dry_run_of_a_comparison_tells_memory_and_time(directory, capsys):
    small = ["--lattice", "4", "4", "--beta", "2", "--chains", "4", "--dry-run"]
    grid = ["--integrators", "leapfrog", "--lengths", "1", "--acceptances", "0.8", "--hits", "0", "--budget", "7"]
    assert cli.run(["compare", *small, *grid]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert "samplers   2, the fields" in shown
    assert "at most 7 s" in shown
    assert re.search(r"compiled program   \S+ MB", shown)
    assert os.listdir(directory) == []


def test_memory_that_cannot_be_had_is_told_from_other_errors():
    with pytest.raises(jax.errors.JaxRuntimeError) as found:
        jax.block_until_ready(jax.numpy.zeros(10**15, "int8"))
    assert is_exhausted(found.value)
    assert not is_exhausted(ValueError("RESOURCE_EXHAUSTED"))


def test_a_run_from_start_to_summary(capsys):
    assert cli.run(["sample", *TINY, "--out", "run"]) == ExitCode.OK
    output = capsys.readouterr()
    assert output.err == ""
    assert "hmc: 25/25  acceptance" in output.out
    assert "τ_int(charge)" in output.out
    assert "\x1b" not in output.out

    assert cli.run(["summary", "run"]) == ExitCode.OK
    assert "τ_int(charge)" in capsys.readouterr().out
    assert cli.run(["summary", "run", "--json"]) == ExitCode.OK
    stored = json.loads(Path("run/summary.json").read_text())
    assert json.loads(capsys.readouterr().out) == {name: stored[name] for name in stored if name != "sha256"}
    assert cli.run(["resume", "run"]) == ExitCode.OK
    assert "written to run" in capsys.readouterr().out

    assert "already holds a run: choose another directory, or 'dlhmc resume run'" in refused(
        ["sample", *TINY, "--out", "run"], capsys
    )


@pytest.fixture
def printed(capsys):
    def read(*arguments):
        assert cli.run(list(arguments)) == ExitCode.OK
        output = capsys.readouterr()
        assert output.err == ""
        return json.loads(output.out)

    return read


def test_results_as_json_and_nothing_else(printed):
    results = printed("sample", *TINY, "--out", "run", "--json")
    assert results == printed("summary", "run", "--json") == printed("resume", "run", "--json")
    assert "plaquette" in results


@pytest.mark.slow
def test_more_results_as_json(printed, capsys):
    printed("sample", *TINY, "--out", "run", "--json")
    assert printed("doctor", "run", "--json")["checks"] == 1
    small = [
        "--steps",
        "2",
        "--leapfrog-steps",
        "1",
        "--hidden",
        "4",
        "--window",
        "2",
        "--chains",
        "4",
        "--start",
        "cold",
    ]
    trained = printed("train", "--lattice", "4", "4", "--beta", "2", *small, "--out", "trained", "--json")
    assert trained["steps"] == 2
    assert cli.run(["summary", "trained"]) == ExitCode.OK
    assert "acceptance" in capsys.readouterr().out


def test_quiet_prints_nothing_at_all():
    """Not even what libraries log: in a process of its own."""
    code = "from dlhmc.cli import main; main()"
    arguments = [sys.executable, "-c", code, "sample", *TINY, "--out", "run", "--quiet"]
    result = subprocess.run(arguments, capture_output=True, check=True)
    assert (result.stdout, result.stderr) == (b"", b"")
    assert Path("run/summary.json").exists()


def test_in_a_terminal_progress_is_live():
    ours, theirs = pty.openpty()
    code = "from dlhmc.cli import main; main()"
    arguments = [sys.executable, "-c", code, "sample", *TINY, "--out", "run"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(arguments, stdout=theirs, stderr=theirs, env=environment) as process:
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
    assert "25/25" in text
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
    assert "devices" in shown
    assert "HMC: exact (p = 0.4, 1.0 s)" in shown
    assert "another: WRONG" in shown
    assert "cannot be trusted" in shown


def test_every_option_says_in_one_line_what_it_means():
    for command in cli.commands().values():
        for field in described(with_options(command)):
            assert field.strip()
            assert "\n" not in field
            assert len(field) < 120


def described(kind):
    """What is written below each field of a dataclass and of those it is made of."""
    hints, marked = typing.get_type_hints(kind), typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from described(hints[field.name])
            continue
        marks = getattr(marked[field.name], "__metadata__", ())
        if said := [mark.help for mark in marks if getattr(mark, "help", None)]:  # a field made for a theory
            yield from (text[:100] for text in said)
            continue
        home = next(base for base in kind.__mro__ if field.name in inspect.get_annotations(base))
        body = ast.parse(textwrap.dedent(inspect.getsource(home))).body[0].body
        place = next(
            i for i, node in enumerate(body) if isinstance(node, ast.AnnAssign) and node.target.id == field.name
        )
        assert isinstance(body[place + 1], ast.Expr), f"{home.__name__}.{field.name}"
        yield body[place + 1].value.value


def completed(line):
    """What bash offers at the end of a command line."""
    words = line.split(" ")
    options = {name: all_options(command.options) for name, command in cli.commands().items()}
    code = f"""{script("bash", dict.fromkeys(options, ""), options)}
COMP_WORDS=({" ".join(f"'{word}'" for word in words)}); COMP_CWORD={len(words) - 1}
_dlhmc; echo "${{COMPREPLY[@]}}" """
    return subprocess.run(["/bin/bash", "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_commands_options_and_values():
    assert completed("dlhmc re") == ["reproduce", "resume", "report"]
    assert completed("dlhmc sample --leap") == ["--leapfrog-steps"]
    assert completed("dlhmc train --beta 4 --network d") == ["dense"]
    assert completed("dlhmc summary ru") == []  # files, by bash itself


def test_the_script_for_zsh_has_all_commands_and_options(capsys):
    assert cli.run(["completion", "zsh"]) == ExitCode.OK
    text = capsys.readouterr().out
    assert text.startswith("#compdef dlhmc\n")
    for name, command in cli.commands().items():
        assert f" {name})" in text
        for option in spellings(all_options(command.options)):
            assert f"{option} " in text


def test_the_script_for_fish_has_a_line_for_each_option(capsys):
    assert cli.run(["completion", "fish"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert "complete -c dlhmc -n __fish_use_subcommand -f -a train -d 'train a sampler for a target'" in lines
    here = "complete -c dlhmc -n '__fish_seen_subcommand_from {}'"
    for name, command in cli.commands().items():
        for option in spellings(all_options(command.options)):
            assert any(re.match(rf"{re.escape(here.format(name))} -[fxr] -l {option[2:]} ", line) for line in lines)
    # A file, one of a few words, no value; a quote within quotes.
    assert (
        f"{here.format('report')} -r -l out -d 'file to write; figures go into the folder figures beside it'" in lines
    )
    integrator = "-l integrator -a 'leapfrog omelyan' -d 'leapfrog, or omelyan (second-order minimum norm)'"
    assert f"{here.format('sample')} -x {integrator}" in lines
    assert f"{here.format('sample')} -f -l dry-run" in "\n".join(lines)
    assert "the user\\'s cache directory'" in "\n".join(lines)


def test_a_run_that_nobody_reads_ends_and_goes_on_later():
    """`dlhmc sample | head -1`: no success, no traceback, and nothing is lost but the chunk at hand."""
    command = [sys.executable, "-c", "from dlhmc.cli import main; main()"]
    small = ["--lattice", "4", "4", "--beta", "2", "--chains", "4", "--trajectories", "6000", "--chunk", "100"]
    with subprocess.Popen(
        [*command, "sample", *small, "--start", "cold", "--out", "run"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read().decode()
    assert process.returncode == ExitCode.UNREAD
    assert "nobody reads the output" in complaint
    assert "Traceback" not in complaint
    assert not Path("run/summary.json").exists()
    assert cli.run(["resume", "run", "--quiet"]) == ExitCode.OK
    assert json.loads(Path("run/summary.json").read_text())["trajectories"] == 6000

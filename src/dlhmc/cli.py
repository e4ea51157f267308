"""The command line. JAX is imported only by the commands that need it."""

import dataclasses
import difflib
import math
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, get_args

import tyro

from dlhmc import __version__
from dlhmc.comparison.config import CompareConfig
from dlhmc.completion import Shell, options_of, script
from dlhmc.errors import ExitCode, UserError
from dlhmc.names import NetworkName, TargetName
from dlhmc.reproduction.config import REPRODUCE_PRESETS, ReproduceConfig
from dlhmc.runs.config import TRAIN_PRESETS, SampleConfig, TrainConfig, load

if TYPE_CHECKING:
    from rich.console import Console

    from dlhmc.runs.loop import Conditions

C = TypeVar("C", SampleConfig, TrainConfig, CompareConfig, ReproduceConfig)
#: a switch that can only be turned on
Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compiling:
    """Commands that compile programs."""

    no_cache: Switch = False
    """compile anew, and keep nothing in the user's cache directory"""

    def set_cache(self) -> None:
        """Use what earlier commands have compiled, or not."""
        from dlhmc.compilation import use_cache, use_no_cache

        use_no_cache() if self.no_cache else use_cache()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quietable(Compiling):
    """Commands that show progress."""

    quiet: Switch = False
    """print nothing but errors"""
    json: Switch = False
    """print the results as JSON at the end, and nothing else"""

    @property
    def hushed(self) -> bool:
        """Whether progress and tables are not wanted."""
        return self.quiet or self.json

    @property
    def console(self) -> "Console":
        """Where people read: what is wrong with a run must not stand between the results as JSON."""
        return _console(stderr=self.json)

    def conclude(self, code: ExitCode, directory: Path) -> ExitCode:
        """Print the results of a finished run, if asked to."""
        if self.json and code == ExitCode.OK:
            from dlhmc.processes import is_first

            if is_first():
                _print_json(_results(directory, _console(quiet=True)))
        return code


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewRun(Quietable):
    """Commands that make a run directory."""

    settings: Any
    config: Path | None = None
    """TOML file with settings; options given here override it"""
    out: Path | None = None
    """new directory for the run; a name under runs/ if not given"""
    dry_run: Switch = False
    """say what would be done, and do nothing"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        out = self.out or self.settings.default_directory
        if not self.dry_run:
            return self.conclude(self.run(out), out)
        from dlhmc.runs.directory import RunDirectory

        RunDirectory(out).refuse_if_taken()
        _console().print(_settings_text(self.settings), markup=False, highlight=False, soft_wrap=True)
        _console().print(f"would run in {out}", markup=False, highlight=False, soft_wrap=True)
        self.explain()
        return ExitCode.OK

    def run(self, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        raise NotImplementedError

    def explain(self) -> None:
        """What else there is to say about a run that is not done."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongRun(Quietable):
    """Commands that may run for long, and resume."""

    devices: int | None = None
    """devices that share the chains; one if not given, or all that each of several processes has"""
    split_lattice: int = 1
    """devices that share each lattice, cut along its first direction: for lattices too large for one"""
    coordinator: str | None = None
    """host:port of process 0 of several; SLURM, Open MPI and Kubernetes are asked if not given"""
    process_id: int | None = None
    """which of the processes this is, from 0"""
    num_processes: int | None = None
    """how many processes there are"""
    time_limit: str | None = None
    """stop by itself after this long, with everything saved: 55m, 1h30m, 90s"""
    check_every: str = "10m"
    """check the rounding errors of a sampling run this often, and stop it if they are too large"""

    def begin(self) -> "Conditions":
        """Join the other processes, if there are any, and say how to run."""
        from dlhmc.processes import Membership, join
        from dlhmc.runs.loop import Conditions
        from dlhmc.runs.progress import parse_duration

        limit = None if self.time_limit is None else parse_duration(self.time_limit)
        join(Membership(self.coordinator, self.process_id, self.num_processes))
        check_every = parse_duration(self.check_every)
        return Conditions(self.devices, self.split_lattice, limit, self.hushed, check_every)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample(LongRun, NewRun):
    """Sample a target and compare with exact results.

    Example: dlhmc sample --kernel hmc --lattice 16 16 --beta 7 --out runs/hmc7
    """

    settings: Annotated[SampleConfig, tyro.conf.arg(name="")]

    def run(self, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        from dlhmc.runs.sampling import sample

        return sample(self.settings, out, self.console, self.begin())

    def explain(self) -> None:
        """The size of the history."""
        _console().print(_history_text(self.settings), markup=False, highlight=False, soft_wrap=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(LongRun, NewRun):
    """Train a sampler (Algorithm 1 of the paper).

    Example: dlhmc train --lattice 8 8 --beta 4 --network dense --hidden 64 64 --steps 2000 --out runs/t
    """

    settings: Annotated[TrainConfig, tyro.conf.arg(name="")]
    preset: Literal["paper", "laptop"] | None = None
    """settings to start from: paper (for GPUs) or laptop (minutes); options given here override it"""
    dry_run: Switch = False
    """print the number of parameters, memory and time, from a measured step"""

    def run(self, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        from dlhmc.runs.training import train

        return train(self.settings, out, self.console, self.begin())

    def explain(self) -> None:
        """Parameters, memory, time."""
        from dlhmc.runs.training import estimate

        estimate(self.settings, _console())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(NewRun):
    """Compare samplers: HMC on a grid, with instanton hits, exact draws, learned ones.

    All run in turn in one process until τ_int of each is known. Example:
    dlhmc compare --lattice 16 16 --beta 7 --model runs/t --out runs/compare7
    """

    settings: Annotated[CompareConfig, tyro.conf.arg(name="")]

    def run(self, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        from dlhmc.comparison.command import compare

        return compare(self.settings, out, self.console, quiet=self.hushed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reproduce(NewRun):
    """The paper's results from start to end: train along β, compare at each, figures, tables, report.

    Example: dlhmc reproduce --preset cpu --out runs/paper
    """

    settings: Annotated[ReproduceConfig, tyro.conf.arg(name="")]
    preset: Literal["cpu", "paper"] | None = None
    """settings to start from: cpu (under two hours on two cores) or paper (its sizes, for GPUs)"""

    def run(self, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        from dlhmc.reproduction.command import reproduce

        return reproduce(self.settings, out, self.console, quiet=self.hushed)


@dataclasses.dataclass(frozen=True)
class Report(Compiling):
    """Build a page with figures and tables for any set of runs: one file that opens from disk.

    Example: dlhmc report runs/compare7 runs/t --out report.html
    """

    directories: tyro.conf.Positional[tuple[Path, ...]]
    """directories of runs: comparisons, training, sampling, reproductions"""
    out: Path = Path("report.html")
    """file to write; figures go into the folder figures beside it"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        if not self.directories:
            raise UserError("There is nothing to report: give at least one directory of a run.")
        from dlhmc.report.command import report

        report(self.directories, self.out, _console())
        return ExitCode.OK


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resume(LongRun):
    """Go on with an interrupted run; the result is the same as without the interruption."""

    directory: tyro.conf.Positional[Path]
    """directory of the run"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        from dlhmc.runs.directory import run_kind

        kind = run_kind(self.directory).removesuffix("-objects")
        if kind == "train":
            from dlhmc.runs.training import resume
        elif kind == "reproduce":
            from dlhmc.reproduction.command import resume
        else:
            from dlhmc.runs.sampling import resume
        return self.conclude(resume(self.directory, self.console, self.begin()), self.directory)


@dataclasses.dataclass(frozen=True)
class Summary:
    """Print the results of a run, finished or not."""

    directory: tyro.conf.Positional[Path]
    """directory of the run"""
    json: Switch = False
    """print JSON instead of a table"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        results = _results(self.directory, _console(quiet=self.json))
        if self.json:
            _print_json(results)
        return ExitCode.OK


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export:
    """Write the histories of a run for other programs: netCDF, HDF5 or CSV.

    Example: dlhmc export runs/hmc7 --out hmc7.nc
    """

    directory: tyro.conf.Positional[Path]
    """directory of a sampling run, finished or not"""
    out: Path
    """file to write: .nc and .h5 are netCDF-4 with all there is, .csv has a row for each trajectory and chain"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        from dlhmc.export import require_format
        from dlhmc.samples import load_samples

        require_format(self.out)
        load_samples(self.directory).save(self.out)
        _console().print(f"written to {self.out}", markup=False, highlight=False, soft_wrap=True)
        return ExitCode.OK


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measure(Compiling):
    """Measure observables of U(1) configurations that come from elsewhere, with errors and exact values.

    The file holds links as angles, [configuration, 2, Lx, Lt] or [chain, configuration, 2, Lx, Lt].
    Example: dlhmc measure links.npy --beta 7
    """

    file: tyro.conf.Positional[Path]
    """array of links: .npy, or HDF5 (.h5, .hdf5, .nc)"""
    beta: float
    """inverse coupling they were made at, for the exact values"""
    dataset: str | None = None
    """name of the array in an HDF5 file, if there is more than one that could be meant"""
    out: Path | None = None
    """file to write the histories to: .nc, .h5 or .csv"""
    json: Switch = False
    """print JSON instead of a table"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        from dlhmc.export import require_format
        from dlhmc.measuring import measure_file
        from dlhmc.runs.config import require

        require(0 < self.beta <= 10_000, "beta", self.beta, "a number above 0 and up to 10000")
        if self.out is not None:
            require_format(self.out)
        measured = measure_file(self.file, self.beta, self.dataset)
        if self.json:
            _print_json(measured.summary())
        else:
            measured.show(_console())
        if self.out is not None:
            measured.save(self.out)
        return ExitCode.OK


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demo(Compiling):
    """Watch frozen topology thaw: HMC, and a sampler trained while you look on, at β = 7."""

    out: Path = Path("demo")
    """directory for the runs and the picture"""
    trajectories: int = 2000
    """trajectories of each run"""
    steps: int = 2000
    """training steps"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        from dlhmc.demo import demo

        return demo(self.out, self.trajectories, self.steps, _console())


@dataclasses.dataclass(frozen=True)
class Models:
    """List the trained models that come with the package, with what was measured for each.

    Example: dlhmc models; dlhmc sample --model u1-b7
    """

    json: Switch = False
    """print JSON instead of a table"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        from dlhmc.shipped import describe, show

        if self.json:
            _print_json(describe())
        else:
            show(_console())
        return ExitCode.OK


@dataclasses.dataclass(frozen=True, kw_only=True)
class Doctor(Compiling):
    """Show devices, versions and memory, and check in a few seconds that sampling is correct on this machine.

    With a directory: check the rounding errors of that sampling run. Example: dlhmc doctor runs/hmc7
    """

    directory: tyro.conf.Positional[Path | None] = None
    """directory of a sampling run"""

    json: Switch = False
    """print JSON instead of a table"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        if self.directory is not None:
            from dlhmc.runs.sampling import check_run

            code, rounding = check_run(self.directory, _console(quiet=self.json))
            if self.json:
                _print_json(rounding)
            return code
        from dlhmc.doctor import examine, show
        from dlhmc.processes import is_first, join

        join()  # the other processes of a batch job, if it is one
        findings = examine()
        if self.json and is_first():
            _print_json(findings.to_json())
        elif is_first():
            show(findings, _console())
        return ExitCode.OK if findings.good else ExitCode.WRONG


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench(Compiling):
    """Measure the speed of a leapfrog step against BlackJAX, NumPy and the machine's limits."""

    out: Path | None = None
    """Markdown file to write the table to"""
    rounds: int = 7
    """how often everything is measured in turn; the fastest counts"""
    scaling: Switch = False
    """measure throughput with 1, 2 and 4 devices and processes instead"""
    json: Switch = False
    """print JSON instead of a table"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        if self.scaling:
            from dlhmc.scaling import scaling as bench
        else:
            from dlhmc.bench import bench

        measured = bench(self.rounds, self.out, _console(quiet=self.json))
        if self.json:
            _print_json(measured)
        return ExitCode.OK


@dataclasses.dataclass(frozen=True)
class Completion:
    """Print what a shell needs to complete commands and options.

    Example: dlhmc completion bash > ~/.local/share/bash-completion/completions/dlhmc
    """

    shell: tyro.conf.Positional[Shell]
    """bash or zsh"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        options = {name: options_of(command.options) for name, command in COMMANDS.items()}
        sys.stdout.write(script(self.shell, options))
        return ExitCode.OK


class Command(NamedTuple):
    """A command: what it does in a few words, and the dataclass that holds its options."""

    group: str
    purpose: str
    options: type[Any]


COMMANDS: dict[str, Command] = {
    "demo": Command("start", "watch frozen topology thaw, in about a minute", Demo),
    "sample": Command("run", "sample a target and compare with exact results", Sample),
    "train": Command("run", "train a sampler for a target", Train),
    "compare": Command("run", "compare samplers: τ_int and time an independent configuration takes", Compare),
    "reproduce": Command("run", "the paper's results: train along β, compare, report", Reproduce),
    "resume": Command("run", "go on with an interrupted run", Resume),
    "report": Command("look", "build a page with figures and tables for any set of runs", Report),
    "summary": Command("look", "print the results of a run", Summary),
    "export": Command("look", "write the histories of a run as netCDF, HDF5 or CSV", Export),
    "measure": Command("look", "measure observables of configurations from elsewhere", Measure),
    "models": Command("look", "list the trained models that come with the package", Models),
    "doctor": Command("look", "show devices and versions, and check that sampling is correct here", Doctor),
    "bench": Command("look", "measure speed against BlackJAX, NumPy and the machine", Bench),
    "completion": Command("look", "print a script that completes commands in bash or zsh", Completion),
}


def main() -> None:
    """Entry point of the console script."""
    try:
        code = run(sys.argv[1:])
    except Exception:
        if "jax" not in sys.modules:
            raise
        traceback.print_exc()
        code = ExitCode.WRONG
    if "jax" in sys.modules:
        from dlhmc.processes import leave

        leave(code)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    try:
        return _dispatch(arguments)
    except UserError as error:
        sys.stderr.write(f"dlhmc{_which_process()}: {error}\n")
        return ExitCode.BAD_INPUT
    except MemoryError:
        sys.stderr.write("dlhmc: there is not enough memory: take fewer --chains or a smaller --lattice\n")
        return ExitCode.BAD_INPUT
    except Exception as error:
        if not _is_about_another_process(error):
            raise
        lost = "another process of the run has died; all end now, and 'dlhmc resume' goes on from the last checkpoint"
        sys.stderr.write(f"dlhmc{_which_process()}: {lost}\n")
        return ExitCode.LOST
    except KeyboardInterrupt:
        sys.stderr.write("dlhmc: stopped at once; what was saved before is intact\n")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (dlhmc … | head): not an error. Nothing more can be flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK


def _which_process() -> str:
    """Which of several processes speaks."""
    if "jax" not in sys.modules:
        return ""
    import jax

    from dlhmc.processes import several

    return f" (process {jax.process_index()})" if several() else ""


def _is_about_another_process(error: Exception) -> bool:
    if "jax" not in sys.modules:
        return False
    from dlhmc.processes import lost_another

    return lost_another(error)


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return ExitCode.OK
    if arguments[0] in ("-V", "--version"):
        sys.stdout.write(f"dlhmc {__version__}\n")
        return ExitCode.OK
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        advice = f"did you mean '{close[0]}'?" if close else "see 'dlhmc --help'."
        raise UserError(f"There is no command '{name}': {advice}")
    command = _parse(name, COMMANDS[name].options, rest)
    if isinstance(command, Compiling):
        command.set_cache()
    return command()


def _parse(name: str, options: type[Any], arguments: list[str]) -> Any:
    known = options_of(options)
    for argument in arguments:
        option = argument.partition("=")[0].replace("_", "-")
        if option.startswith("--") and option not in known and option != "--help":
            close = difflib.get_close_matches(option, known, n=1)
            advice = f"did you mean '{close[0]}'?" if close else f"see 'dlhmc {name} --help'."
            raise UserError(f"There is no option '{argument}' of 'dlhmc {name}': {advice}")
    default: Any = tyro.MISSING_NONPROP
    if options is Sample:
        default = Sample(settings=_defaults(SampleConfig, arguments))
    elif options is Train:
        default = Train(settings=_defaults(TrainConfig, arguments))
    elif options is Compare:
        default = Compare(settings=_defaults(CompareConfig, arguments))
    elif options is Reproduce:
        default = Reproduce(settings=_defaults(ReproduceConfig, arguments))
    config = (tyro.conf.DisallowNone, tyro.conf.PositionalMetavarFromFieldName)
    return tyro.cli(options, prog=f"dlhmc {name}", args=arguments, default=default, config=config)


def _defaults(kind: type[C], arguments: list[str]) -> C:
    """The settings of --config, --preset or --model: the defaults that other options override.

    Defaults depend on the target, so it is looked at first.
    """
    target = _value_of("--target", arguments)
    settings: dict[str, Any] = {"target": target} if target in get_args(TargetName) else {}
    network = _value_of("--network", arguments)
    if kind is TrainConfig and network in get_args(NetworkName):
        settings["network"] = network
    if (file := _value_of("--config", arguments)) is not None:
        return load(kind, Path(file), **settings)
    if kind is TrainConfig and (preset := TRAIN_PRESETS.get(_value_of("--preset", arguments) or "")):
        if settings.get("target", "u1") != "u1":
            raise UserError(f"The presets are for the target u1, not for {target}: leave out --preset.")
        settings = preset | settings
    if kind is ReproduceConfig and (preset := REPRODUCE_PRESETS.get(_value_of("--preset", arguments) or "")):
        settings = preset | settings
    model = _value_of("--model", arguments) or _value_of("--from", arguments)
    if kind in (SampleConfig, TrainConfig) and model is not None:
        from dlhmc.runs.targets import settings_of_model

        trained_for = settings_of_model(model, architecture=kind is TrainConfig)
        if settings.get("target", trained_for["target"]) == trained_for["target"]:
            settings = trained_for | settings
    return kind(**settings)


def _value_of(option: str, arguments: list[str]) -> str | None:
    """What follows an option, before the command line is parsed as a whole."""
    for index, argument in enumerate(arguments):
        if argument == option and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith(option + "="):
            return argument.removeprefix(option + "=")
    return None


def _help() -> str:
    lines = [
        "usage: dlhmc COMMAND [OPTIONS]",
        "Deep Learning Hamiltonian Monte Carlo for lattice gauge theory.",
        "",
    ]
    for group in dict.fromkeys(command.group for command in COMMANDS.values()):
        members = [(name, command) for name, command in COMMANDS.items() if command.group == group]
        lines += [f"{group}:", *(f"  {name:<11}{command.purpose}" for name, command in members), ""]
    return "\n".join([*lines, "'dlhmc COMMAND --help' lists the options of a command.", ""])


def _settings_text(config: SampleConfig | TrainConfig | CompareConfig | ReproduceConfig) -> str:
    return "\n".join(f"{field.name:>20} = {getattr(config, field.name)}" for field in dataclasses.fields(config))


def _history_text(config: SampleConfig) -> str:
    from dlhmc.runs.targets import build

    history = 4 * 6 * config.trajectories * config.chains / 1e6
    kept = config.keep_configurations * math.prod(build(config).shape) * config.chains * 4 / 1e6
    total = (history + kept) * (2 if config.float64 else 1)
    return f"at most {total:.0f} MB of history (before compression)"


def _results(directory: Path, console: "Console") -> dict[str, Any]:
    """Show the results of a run of any kind, and return them."""
    from dlhmc.runs.directory import run_kind

    kind = run_kind(directory)
    if kind.startswith("compare"):
        from dlhmc.comparison.command import show_results
    elif kind.startswith("train"):
        from dlhmc.runs.training import show_results
    elif kind == "reproduce":
        from dlhmc.reproduction.command import show_results
    elif kind == "sample-objects":
        from dlhmc.samples import show_results
    else:
        from dlhmc.runs.sampling import show_results
    return show_results(directory, console)


def _print_json(content: object) -> None:
    import json

    sys.stdout.write(json.dumps(content, indent=2) + "\n")


def _console(*, quiet: bool = False, stderr: bool = False) -> "Console":
    from rich.console import Console

    return Console(quiet=quiet, stderr=stderr)

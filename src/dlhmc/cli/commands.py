"""All commands: their words, their options, and what they do."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from dlhmc.cli.output import Candid, described_models, print_json, show_models, show_run
from dlhmc.cli.parsing import Command, Given, Leaf, Word, completion_script
from dlhmc.errors import ExitCode, UserError
from dlhmc.models.architectures import ARCHITECTURES
from dlhmc.run.directory import RunDirectory, run_kind
from dlhmc.settings import Advanced, Count, Field, Listed, Settings, fields_of, read_table, to_toml
from dlhmc.spec.comparing import CompareSpec
from dlhmc.spec.machine import Machine
from dlhmc.spec.sampling import SampleSpec
from dlhmc.spec.spec import Spec, applies, free
from dlhmc.spec.training import TrainSpec
from dlhmc.theories import registry
from dlhmc.theories.contract import Occasional, TargetSettings, Theory

Name = Annotated[str, Listed(positional=True)]
Names = Annotated[tuple[str, ...], Listed(positional=True)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compiling(Settings):
    """Commands that compile programs."""

    no_cache: Advanced[bool] = False
    """compile anew, and keep nothing in the user's cache directory"""

    def set_cache(self) -> None:
        """Use what earlier commands have compiled, or not."""
        from dlhmc.run.compilation import use_cache, use_no_cache

        use_no_cache() if self.no_cache else use_cache()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shown(Compiling):
    """Commands that show progress."""

    quiet: bool = False
    """print nothing but errors"""
    json: bool = False
    """print the results as JSON, and nothing else"""

    @property
    def hushed(self) -> bool:
        """Whether progress and tables are not wanted."""
        return self.quiet or self.json

    @property
    def console(self) -> Candid:
        """Where people read: what is wrong with a run must not stand between the results as JSON."""
        return Candid(stderr=self.json)

    def conclude(self, code: ExitCode, directory: Path) -> ExitCode:
        """Print the results of a finished run, if asked to."""
        if self.json and code in (ExitCode.OK, ExitCode.ALARM):
            from dlhmc.run.processes import is_first

            if is_first():
                print_json(show_run(directory, Candid(quiet=True)))
        return code


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewRun(Shown):
    """Commands that make a run directory."""

    config: str | None = None
    """TOML file with settings; options override it"""
    out: str | None = None
    """new directory, else a free name under runs/"""
    dry_run: bool = False
    """print settings, memory and time; do nothing"""

    def file(self) -> tuple[dict[str, Any], str]:
        """What stands in the configuration, and what to call it."""
        if self.config is None:
            return {}, "A run"
        return read_table(Path(self.config)), f"The configuration {self.config}"

    def directory(self, default: Path) -> Path:
        """Where the run goes: nobody is there yet."""
        out = default if self.out is None else Path(self.out)
        RunDirectory(out).refuse_if_taken()
        return out

    def explain(self, tables: Mapping[str, Any], out: Path) -> None:
        """Print what would run."""
        Candid().out(to_toml(tables), highlight=False)
        Candid().out(f"would run in {out}", highlight=False)


def _spec_leaf(kind: type[Spec], purpose: str, theory: str, network: str | None = None) -> Leaf:
    """The options of a specification that are for a theory and a kind of layers."""
    tables = kind.tables(registry.theory(theory), network)
    words = [kind.kind, theory, *([network] if network else [])]
    names = {"target": theory} | ({"network": network} if network else {})
    fields = {table: _applying(options, registry.theory(theory)) for table, options in tables.items()}
    return Leaf(" ".join(words), purpose, fields, functools.partial(_start, kind, names), NewRun)


def _applying(options: type[Settings], theory: Theory) -> list[Field]:
    return [field for field in fields_of(options) if applies(field.listed.ability, theory)]


def _start(kind: type[Spec], names: Given, given: Given, own: NewRun) -> ExitCode:
    """A new run; what is wrong with words, files and directories is said before JAX is imported."""
    spec: Any = kind.of(names | given, *own.file())
    out = own.directory(spec.default_directory)
    own.set_cache()
    if own.dry_run:
        own.explain(spec.to_tables(), out)
        spec.estimate(Candid())
        return ExitCode.OK
    options = getattr(spec, "machine", Machine()).begin(quiet=own.hushed)
    return own.conclude(spec.run(out, own.console, options)[1], out)


def _reproduce_leaf(name: str) -> Leaf:
    from dlhmc.studies.study import StudySpec

    kind = _studies()[name]

    def act(given: Given, own: NewRun) -> ExitCode:
        file, where = own.file()
        spec = StudySpec.of({"name": name, **given}, file, where)
        out = own.directory(free(spec.default_directory))
        if own.dry_run:
            own.explain(spec.to_tables(), out)
            return ExitCode.OK
        from dlhmc.studies.command import reproduce

        own.set_cache()
        return own.conclude(reproduce(spec, out, own.console, quiet=own.hushed), out)

    purpose = "A study from start to end: train, compare, report."
    return Leaf(f"reproduce {name}", purpose, {"study": fields_of(kind)}, act, NewRun)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resumed(Shown):
    """A run that goes on."""

    directory: Name
    """directory of the run"""
    trajectories: Count | None = None
    """of a sampling run: how many there are to be in all"""
    steps: Count | None = None
    """of a training run: how many there are to be in all"""


def _resume(given: Given, own: Resumed) -> ExitCode:
    path = Path(own.directory)
    kind, more = run_kind(path), {"sample": own.trajectories, "train": own.steps}
    if any(number for name, number in more.items() if name != kind):
        raise UserError(f"{path} holds a run of kind '{kind}': give --trajectories for sampling, --steps for training.")
    own.set_cache()
    options = Machine(**given).begin(quiet=own.hushed)
    if kind == "reproduce":
        from dlhmc.studies.command import resume

        return own.conclude(resume(path, own.console, options), path)
    known: dict[str, Any] = {"sample": SampleSpec, "train": TrainSpec}
    if kind not in known:
        raise UserError(f"{path} holds a run of kind '{kind}', which cannot go on: start another one.")
    spec = known[kind].reopened(path)
    if (number := more[kind]) is not None:
        spec = spec.longer(number)
    return own.conclude(spec.run(path, own.console, options, resuming=True)[1], path)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reported(Compiling):
    """Runs on a page."""

    directories: Names
    """directories of runs: comparisons, training, sampling, reproductions"""
    out: str = "report.html"
    """file to write; figures go into the folder figures beside it"""
    curves: str | None = None
    """TOML file with curves to draw for reference, such as those of a paper"""


def _report(_: Given, own: Reported) -> ExitCode:
    paths = [Path(name) for name in own.directories]
    for path in paths:
        run_kind(path)
    own.set_cache()
    screen = Candid()
    with screen.status("loading …"):
        from dlhmc.report.command import report

    report(paths, Path(own.out), screen, None if own.curves is None else Path(own.curves))
    return ExitCode.OK


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summarised(Settings):
    """A run."""

    directory: Name
    """directory of the run"""
    json: bool = False
    """print JSON instead of a table"""


def _summary(_: Given, own: Summarised) -> ExitCode:
    run_kind(Path(own.directory))
    results = show_run(Path(own.directory), Candid(quiet=own.json))
    if own.json:
        print_json(results)
    return ExitCode.OK


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exported(Settings):
    """A run for other programs."""

    directory: Name
    """directory of a sampling run, finished or not"""
    out: str
    """file to write: .nc and .h5 are netCDF-4 with all there is, .csv has a row for each trajectory and chain"""
    format: str | None = None
    """write kept configurations instead, in files of this format (nersc, ildg, openqcd) in the directory --out"""


def _export(_: Given, own: Exported) -> ExitCode:
    path, out = Path(own.directory), Path(own.out)
    run_kind(path)
    from dlhmc.run.export import require_format
    from dlhmc.run.sampling import load_samples

    if own.format is not None:
        number = load_samples(path).save_configurations(out, own.format, path.resolve().name)
        Candid().out(f"{number} configurations written to {out}", highlight=False)
        return ExitCode.OK
    require_format(out)
    load_samples(path).save(out)
    Candid().out(f"written to {out}", highlight=False)
    return ExitCode.OK


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured(Compiling):
    """Configurations from elsewhere."""

    files: Names
    """array of configurations: .npy, or HDF5 (.h5, .hdf5, .nc); or files with one configuration each"""
    dataset: str | None = None
    """name of the array in an HDF5 file, if there is more than one that could be meant"""
    out: str | None = None
    """file to write the histories to: .nc, .h5 or .csv"""
    json: bool = False
    """print JSON instead of a table"""


def _measure_leaf(name: str) -> Leaf:
    theory = registry.theory(name)
    asked = [field for field in fields_of(theory.settings) if field.name not in theory.settings.told_by_shape]
    measured = _applying(Occasional, theory)

    def settings_of(shape: tuple[int, ...], given: Given) -> TargetSettings:
        settings = theory.settings.of_shape(shape, given)
        if settings is None:
            axes = ", ".join(map(str, theory.settings(**given).build().geometry.shape))
            raise UserError(
                f"An array of the shape {list(shape)} cannot hold configurations: those of "
                f"{registry.told_by(theory.settings(**given))}, for one, have the shape [configuration, {axes}] or "
                f"[chain, configuration, {axes}]."
            )
        return settings

    def act(given: Given, own: Measured) -> ExitCode:
        files = [Path(file) for file in own.files]
        for file in files:
            if not file.is_file():
                raise UserError(f"There is no file {file}.")
        more = Occasional(**{field.name: given.pop(field.name) for field in measured if field.name in given})
        own.set_cache()
        from dlhmc.run.export import require_format
        from dlhmc.run.measuring import measure_file, measure_files

        if own.out is not None:
            require_format(Path(own.out))
        if registry.format_of(files[0]) is not None:
            found = measure_files(files, name, given, more)
        elif len(files) > 1:
            raise UserError(f"{files[0]} holds an array of configurations: measure it alone.")
        else:
            found = measure_file(files[0], functools.partial(settings_of, given=given), own.dataset, more)
        print_json(found.summary()) if own.json else found.show(Candid())
        if own.out is not None:
            found.save(Path(own.out))
        return ExitCode.OK

    purpose = "Measure observables of configurations from elsewhere, beside exact values."
    return Leaf(f"measure {name}", purpose, {"target": asked, "measure": measured}, act, Measured)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listing(Settings):
    """Models."""

    json: bool = False
    """print JSON instead of a table"""


def _models(_: Given, own: Listing) -> ExitCode:
    print_json(described_models()) if own.json else show_models(Candid())
    return ExitCode.OK


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examined(Compiling):
    """The machine, or a run."""

    directory: Annotated[str | None, Listed(positional=True)] = None
    """directory of a sampling run, whose rounding errors are checked"""
    json: bool = False
    """print JSON instead of a table"""


def _doctor(_: Given, own: Examined) -> ExitCode:
    if own.directory is not None:
        run_kind(Path(own.directory))
        own.set_cache()
        code, rounding = SampleSpec.check(Path(own.directory), Candid(quiet=own.json))
        if own.json:
            print_json(rounding)
        return code
    own.set_cache()
    from dlhmc.cli.doctor import examine, show
    from dlhmc.run.processes import is_first, join

    join()  # the other processes of a batch job, if it is one
    findings = examine()
    if is_first():
        print_json(findings) if own.json else show(findings, Candid())
    return ExitCode.OK if findings["good"] else ExitCode.WRONG


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demonstrated(Compiling):
    """The demonstration."""

    out: str = "demo"
    """directory for the runs and the picture"""
    trajectories: Count = 2000
    """trajectories of each run"""
    steps: Count = 2000
    """training steps"""


def _demo(_: Given, own: Demonstrated) -> ExitCode:
    own.set_cache()
    from dlhmc.cli.demo import demo

    return demo(Path(own.out), own.trajectories, own.steps, Candid())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Completed(Settings):
    """A shell."""

    shell: Annotated[Literal["bash", "zsh", "fish"], Listed(positional=True)]
    """bash, zsh or fish"""


def _complete(_: Given, own: Completed) -> ExitCode:
    completion_script(COMMANDS, own.shell)
    return ExitCode.OK


def _studies() -> Mapping[str, type[Settings]]:
    from dlhmc.studies.study import studies

    return studies()


_THEORY = Word("theory", registry.names, lambda name: registry.theory(name).title)
_NETWORK = Word("network", lambda: list(ARCHITECTURES), lambda name: ARCHITECTURES[name].meaning)
_STUDY = Word("study", lambda: list(_studies()), lambda name: (_studies()[name].__doc__ or "").rstrip("."))


def _command(group: str, name: str, purpose: str, act: Any, own: type[Settings], **tables: Any) -> Command:
    sentence = f"{purpose[0].upper()}{purpose[1:]}."
    return Command(group, purpose, (), lambda: Leaf(name, sentence, tables, act, own))


def _run(kind: type[Spec], purpose: str, *more: Any) -> Command:
    sentence = f"{purpose[0].upper()}{purpose[1:]}."
    return Command("run", purpose, (_THEORY, *more), functools.partial(_spec_leaf, kind, sentence))


COMMANDS: dict[str, Command] = {
    "demo": _command("start", "demo", "watch frozen topology move again, in about a minute", _demo, Demonstrated),
    "sample": _run(SampleSpec, "sample a target and compare with exact results"),
    "train": _run(TrainSpec, "train a sampler for a target (Algorithm 1 of the paper)", _NETWORK),
    "compare": _run(CompareSpec, "compare samplers: τ_int and time an independent configuration takes"),
    "reproduce": Command("run", "a study from start to end: train, compare, report", (_STUDY,), _reproduce_leaf),
    "resume": _command(
        "run", "resume", "go on with a run, or make it longer", _resume, Resumed, machine=fields_of(Machine)
    ),
    "summary": _command("look", "summary", "print the results of a run", _summary, Summarised),
    "report": _command("look", "report", "build a page with figures and tables for any set of runs", _report, Reported),
    "export": _command("look", "export", "write the histories of a run as netCDF, HDF5 or CSV", _export, Exported),
    "measure": Command("look", "measure observables of configurations from elsewhere", (_THEORY,), _measure_leaf),
    "models": _command("look", "models", "list the trained models that come with the package", _models, Listing),
    "doctor": _command(
        "look", "doctor", "show devices and versions, and check that sampling is right", _doctor, Examined
    ),
    "completion": _command("look", "completion", "print what a shell needs to complete words", _complete, Completed),
}

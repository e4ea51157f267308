"""Commands that look: at runs, at configurations, at models, at the machine."""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from dlhmc.cli.options import Compiling, Switch
from dlhmc.cli.output import console, print_json, show_run
from dlhmc.cli.planned import value_of
from dlhmc.errors import ExitCode, UserError
from dlhmc.settings import hints_of
from dlhmc.theories import registry

if TYPE_CHECKING:
    from dlhmc.targets import Target


@dataclasses.dataclass(frozen=True)
class Report(Compiling):
    """Build a page with figures and tables for any set of runs: one file that opens from disk.

    Example: dlhmc report runs/compare7 runs/t --out report.html
    """

    directories: tyro.conf.Positional[tuple[Path, ...]]
    """directories of runs: comparisons, training, sampling, reproductions"""
    out: Path = Path("report.html")
    """file to write; figures go into the folder figures beside it"""
    curves: Path | None = None
    """TOML file with curves to draw for reference, such as those of a paper"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        if not self.directories:
            raise UserError("There is nothing to report: give at least one directory of a run.")
        screen = console()
        with screen.status("loading …"):
            from dlhmc.report.command import report

        report(self.directories, self.out, screen, self.curves)
        return ExitCode.OK


@dataclasses.dataclass(frozen=True)
class Summary:
    """Print the results of a run, finished or not."""

    directory: tyro.conf.Positional[Path]
    """directory of the run"""
    json: Switch = False
    """print JSON instead of a table"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        results = show_run(self.directory, console(quiet=self.json))
        if self.json:
            print_json(results)
        return ExitCode.OK


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export:
    """Write the histories of a run for other programs: netCDF, HDF5 or CSV. Or the configurations that it has kept.

    Example: dlhmc export runs/hmc7 --out hmc7.nc
    """

    directory: tyro.conf.Positional[Path]
    """directory of a sampling run, finished or not"""
    out: Path
    """file to write: .nc and .h5 are netCDF-4 with all there is, .csv has a row for each trajectory and chain"""
    format: str | None = None
    """write kept configurations instead, in files of this format (one of those of the theory) in the directory --out"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        from dlhmc.run.export import require_format
        from dlhmc.run.samples import load_samples

        if self.format is not None:
            samples = load_samples(self.directory)
            number = samples.save_configurations(self.out, self.format, self.directory.resolve().name)
            console().out(f"{number} configurations written to {self.out}", highlight=False)
            return ExitCode.OK
        require_format(self.out)
        load_samples(self.directory).save(self.out)
        console().out(f"written to {self.out}", highlight=False)
        return ExitCode.OK


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measure(Compiling):
    """Measure observables of configurations that come from elsewhere, with errors and exact values.

    A file holds an array [configuration, …] or [chain, configuration, …]. Its shape tells the size of the target;
    what it does not tell, such as couplings, is given as options of the theory. Or each of several files holds one
    configuration in a format that people exchange, which also tells the theory: they are one chain in their order.
    """

    files: tyro.conf.Positional[tuple[Path, ...]]
    """array of configurations: .npy, or HDF5 (.h5, .hdf5, .nc); or files with one configuration each"""
    target: str | None = None
    """the theory that they are of"""
    dataset: str | None = None
    """name of the array in an HDF5 file, if there is more than one that could be meant"""
    out: Path | None = None
    """file to write the histories to: .nc, .h5 or .csv"""
    json: Switch = False
    """print JSON instead of a table"""

    @classmethod
    def specialised(cls, arguments: list[str]) -> tuple[type[Any], Any]:
        """With options for what the shape of an array does not tell; files of one configuration do without them."""
        files = [path for path in map(Path, arguments) if path.is_file()]
        form = registry.format_of(files[0]) if files else None
        offering = [
            theory.name for theory in registry.all_theories() if form is not None and form in theory.formats().values()
        ]
        theory = registry.theory(value_of("--target", arguments) or next(iter(offering), registry.default()))
        settings = theory.settings
        asked = {name: hint for name, hint in hints_of(settings).items() if name not in settings.told_by_shape}
        fields: list[Any] = []
        names = {field.name: field.default for field in dataclasses.fields(settings) if isinstance(field.default, str)}
        for name, hint in asked.items():
            described = tyro.conf.arg(help="of the theory, with which they were made")
            if name in names:
                fields.append((name, Annotated[hint, described], dataclasses.field(default=names[name])))
            elif offering:
                fields.append((name, Annotated[hint | None, described], dataclasses.field(default=None)))
            else:
                fields.append((name, Annotated[hint, described]))
        more = Annotated[theory.occasional, tyro.conf.arg(name="")]  # type: ignore[name-defined]
        fields.append(("occasional", more, dataclasses.field(default_factory=theory.occasional)))
        made = dataclasses.make_dataclass(cls.__name__, fields, bases=(cls,), frozen=True, kw_only=True)
        made.__doc__ = cls.__doc__
        return made, tyro.MISSING_NONPROP

    def _of_shape(self, shape: tuple[int, ...], given: dict[str, Any]) -> "Target":
        theory = registry.theory(self.target or registry.default())
        settings = theory.from_shape(shape, given)
        if settings is None:
            example = theory.settings(**given)
            axes = ", ".join(map(str, example.build().geometry.shape))
            raise UserError(
                f"An array of the shape {list(shape)} cannot hold configurations: those of "
                f"{registry.told_by(theory.name, example)}, for one, have the shape [configuration, {axes}] or "
                f"[chain, configuration, {axes}]."
            )
        return settings.build()

    def __call__(self) -> ExitCode:
        """Run the command."""
        from dlhmc.run.export import require_format
        from dlhmc.run.measuring import measure_file, measure_files

        if not self.files:
            raise UserError("There is nothing to measure: give a file.")
        if self.out is not None:
            require_format(self.out)
        general = {field.name for field in dataclasses.fields(Measure)}
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in general}
        given = {name: value for name, value in given.items() if value is not None}
        more = given.pop("occasional")
        if registry.format_of(self.files[0]) is not None:
            measured = measure_files(self.files, self.target, given, more)
        elif len(self.files) > 1:
            raise UserError(f"{self.files[0]} holds an array of configurations: measure it alone.")
        else:
            measured = measure_file(self.files[0], lambda shape: self._of_shape(shape, given), self.dataset, more)
        if self.json:
            print_json(measured.summary())
        else:
            measured.show(console())
        if self.out is not None:
            measured.save(self.out)
        return ExitCode.OK


@dataclasses.dataclass(frozen=True)
class Models:
    """List the trained models that come with the package, with what was measured for each.

    Example: dlhmc models; dlhmc sample --model NAME
    """

    json: Switch = False
    """print JSON instead of a table"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        from dlhmc.cli.models import describe, show

        if self.json:
            print_json(describe())
        else:
            show(console())
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
            from dlhmc.plans.sampling import SamplePlan

            code, rounding = SamplePlan.check(self.directory, console(quiet=self.json))
            if self.json:
                print_json(rounding)
            return code
        from dlhmc.cli.doctor import examine, show
        from dlhmc.run.processes import is_first, join

        join()  # the other processes of a batch job, if it is one
        findings = examine()
        if self.json and is_first():
            print_json(findings)
        elif is_first():
            show(findings, console())
        return ExitCode.OK if findings["good"] else ExitCode.WRONG


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench(Compiling):
    """Measure the speed of a leapfrog step against BlackJAX, NumPy and the machine's limits."""

    out: Path | None = None
    """Markdown file to write the table to"""
    rounds: int = 7
    """how often everything is measured in turn; the fastest counts"""
    only: str | None = None
    """one part alone: steps, samplers, networks, groups or fermions"""
    scaling: Switch = False
    """measure throughput with 1, 2 and 4 devices and processes instead"""
    json: Switch = False
    """print JSON instead of a table"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        folder = Path(__file__).parents[3]
        if not (folder / "benchmarks" / "bench.py").is_file():
            raise UserError(
                "The benchmarks are not part of the installed package: run 'make bench' in a checkout of it."
            )
        sys.path.insert(0, str(folder))
        screen = console(quiet=self.json)
        if self.scaling:
            from benchmarks.scaling import scaling

            measured = scaling(self.rounds, self.out, screen)
        else:
            from benchmarks.bench import bench

            measured = bench(self.rounds, self.out, screen, self.only)
        if self.json:
            print_json(measured)
        return ExitCode.OK

"""Options that several commands have, and what they do."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from dlhmc.cli.output import console, print_json, show_run
from dlhmc.errors import ExitCode
from dlhmc.settings import Advanced, OfMachine, What

if TYPE_CHECKING:
    from rich.console import Console

    from dlhmc.run.driver import ExecutionOptions


#: a switch that can only be turned on
Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compiling:
    """Commands that compile programs."""

    no_cache: OfMachine[Advanced[Switch]] = False
    """compile anew, and keep nothing in the user's cache directory"""

    def set_cache(self) -> None:
        """Use what earlier commands have compiled, or not."""
        from dlhmc.run.compilation import use_cache, use_no_cache

        use_no_cache() if self.no_cache else use_cache()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quietable(Compiling):
    """Commands that show progress."""

    quiet: OfMachine[Switch] = False
    """print nothing but errors"""
    json: OfMachine[Switch] = False
    """print the results as JSON at the end, and nothing else"""

    @property
    def hushed(self) -> bool:
        """Whether progress and tables are not wanted."""
        return self.quiet or self.json

    @property
    def console(self) -> "Console":
        """Where people read: what is wrong with a run must not stand between the results as JSON."""
        return console(stderr=self.json)

    def begin(self) -> "ExecutionOptions":
        """How to run."""
        from dlhmc.run.driver import ExecutionOptions

        return ExecutionOptions(quiet=self.hushed)

    def conclude(self, code: ExitCode, directory: Path) -> ExitCode:
        """Print the results of a finished run, if asked to."""
        if self.json and code in (ExitCode.OK, ExitCode.ALARM):
            from dlhmc.run.processes import is_first

            if is_first():
                print_json(show_run(directory, console(quiet=True)))
        return code


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewRun(Quietable):
    """Commands that make a run directory."""

    config: What[Path | None] = None
    """TOML file with settings; options given here override it"""
    out: OfMachine[Path | None] = None
    """new directory for the run; a name under runs/ if not given"""
    dry_run: OfMachine[Switch] = False
    """print all settings, and do nothing"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        plan = self.plan()
        out = self.out or plan.default_directory
        if not self.dry_run:
            return self.conclude(self.run(plan, out), out)
        from dlhmc.run.directory import RunDirectory

        RunDirectory(out).refuse_if_taken()
        settings = "\n".join(f"{name:>20} = {value}" for name, value in plan.table().items())
        console().out(settings, highlight=False)
        console().out(f"would run in {out}", highlight=False)
        self.explain(plan)
        return ExitCode.OK

    def plan(self) -> Any:
        """What the options stand for: it has a `default_directory`, and its settings in a `table()`."""
        raise NotImplementedError

    def run(self, plan: Any, out: Path) -> ExitCode:
        """Do it, in a new directory."""
        raise NotImplementedError

    def explain(self, plan: Any) -> None:
        """What else there is to say about a run that is not done."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongRun(Quietable):
    """Commands that may run for long, and resume."""

    devices: OfMachine[int | None] = None
    """devices that share the chains; one if not given, or all that each of several processes has"""
    split_lattice: OfMachine[Advanced[int]] = 1
    """devices that share each lattice, cut along its last direction but one: for lattices too large for one"""
    coordinator: OfMachine[Advanced[str | None]] = None
    """host:port of process 0 of several; SLURM, Open MPI and Kubernetes are asked if not given"""
    process_id: OfMachine[Advanced[int | None]] = None
    """which of the processes this is, from 0"""
    num_processes: OfMachine[Advanced[int | None]] = None
    """how many processes there are"""
    time_limit: OfMachine[str | None] = None
    """stop after this long, with everything saved: 55m, 1h30m, 90s"""
    check_every: OfMachine[Advanced[str]] = "10m"
    """check the rounding errors of a sampling run this often, and stop it if they are too large"""

    def begin(self) -> "ExecutionOptions":
        """Join the other processes, if there are any, and say how to run."""
        from dlhmc.run.driver import ExecutionOptions
        from dlhmc.run.processes import Membership, join
        from dlhmc.run.progress import parse_duration

        limit = None if self.time_limit is None else parse_duration(self.time_limit)
        join(Membership(self.coordinator, self.process_id, self.num_processes))
        check_every = parse_duration(self.check_every)
        return ExecutionOptions(self.devices, self.split_lattice, limit, self.hushed, check_every)

"""All commands by name."""

import dataclasses
import sys
from typing import Any, NamedTuple

import tyro

from dlhmc.cli.completion import Shell, options_of, script
from dlhmc.cli.looks import Bench, Doctor, Export, Measure, Models, Report, Summary
from dlhmc.cli.runs import Compare, Demo, Reproduce, Resume, Sample, Train
from dlhmc.errors import ExitCode


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

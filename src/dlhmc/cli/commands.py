"""All commands by name."""

import dataclasses
import functools
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import tyro

from dlhmc.cli.completion import Shell, script
from dlhmc.cli.inspect import Bench, Doctor, Export, Measure, Models, Report, Summary
from dlhmc.cli.listing import Option, options_of
from dlhmc.cli.planned import PlannedRun
from dlhmc.cli.runs import Compare, Reproduce, Resume, Sample, Train
from dlhmc.errors import ExitCode
from dlhmc.theories import registry


@dataclasses.dataclass(frozen=True)
class Completion:
    """Print what a shell needs to complete commands and options.

    Example: dlhmc completion bash > ~/.local/share/bash-completion/completions/dlhmc
    """

    shell: tyro.conf.Positional[Shell]
    """bash, zsh or fish"""

    def __call__(self) -> ExitCode:
        """Run the command."""
        options = {name: all_options(command.options) for name, command in commands().items()}
        purposes = {name: command.purpose for name, command in commands().items()}
        sys.stdout.write(script(self.shell, purposes, options))
        return ExitCode.OK


def all_options(kind: type[Any]) -> list[Option]:
    """Those of a command, whatever the theory, the network and the study."""
    if not issubclass(kind, PlannedRun | Reproduce):
        return options_of(kind)
    found: dict[str, Option] = {}
    for words in kind.variants():
        for option in options_of(kind.specialised(words)[0]):
            found.setdefault(option.names[0], option)
    return list(found.values())


class Command(NamedTuple):
    """A command: what it does in a few words, and the dataclass that holds its options."""

    group: str
    purpose: str
    options: type[Any]


_GENERAL: dict[str, Command] = {
    "sample": Command("run", "sample a target and compare with exact results", Sample),
    "train": Command("run", "train a sampler for a target", Train),
    "compare": Command("run", "compare samplers: τ_int and time an independent configuration takes", Compare),
    "reproduce": Command("run", "a study from start to end: train, compare, report", Reproduce),
    "resume": Command("run", "go on with an interrupted run", Resume),
    "report": Command("look", "build a page with figures and tables for any set of runs", Report),
    "summary": Command("look", "print the results of a run", Summary),
    "export": Command("look", "write the histories of a run as netCDF, HDF5 or CSV", Export),
    "measure": Command("look", "measure observables of configurations from elsewhere", Measure),
    "models": Command("look", "list the trained models that come with the package", Models),
    "doctor": Command("look", "show devices and versions, and check that sampling is correct here", Doctor),
    "bench": Command("look", "measure speed against BlackJAX, NumPy and the machine", Bench),
    "completion": Command("look", "print a script that completes commands in bash, zsh or fish", Completion),
}


@functools.cache
def commands() -> Mapping[str, Command]:
    """Those for all theories, and those that theories bring along; `start` comes first."""
    own: dict[str, Command] = {}
    for theory in registry.all_theories():
        own |= theory.commands()
    found = own | _GENERAL
    order = {"start": 0, "run": 1, "look": 2}
    return dict(sorted(found.items(), key=lambda item: order.get(item[1].group, 3)))

"""Errors that a user can cause, and how a command ends."""

import enum
import importlib
from typing import Any


class Spelled(str):
    """What Python and the command line spell differently, in the f-string of a sentence."""

    __slots__ = ("command",)
    command: str

    def __new__(cls, python: str, command: str) -> "Spelled":
        """As Python spells it."""
        made = super().__new__(cls, python)
        made.command = command
        return made

    def __format__(self, _: str) -> str:
        return f"\0{self!s}\1{self.command}\0"


def Setting(name: str) -> Spelled:  # noqa: N802
    """The name of a setting: `step_size` in Python, `--step-size` on the command line."""
    return Spelled(name, f"--{name.replace('_', '-')}")


class UserError(Exception):
    """One sentence that says what is wrong and what to do; shown without a traceback.

    >>> error = UserError(f"{Setting('step_size')} is 0, but must be positive.")
    >>> str(error), error.on_command_line()
    ('step_size is 0, but must be positive.', '--step-size is 0, but must be positive.')
    """

    def __init__(self, *parts: str) -> None:
        # Every other one is spelled in two ways.
        self._parts = [part.partition("\1") for part in "".join(map(format, parts)).split("\0")]
        super().__init__("".join(part[0] for part in self._parts))

    def on_command_line(self) -> str:
        """The sentence with options in place of arguments."""
        return "".join(part[2] or part[0] for part in self._parts)


def required(package: str, extra: str, what: str) -> Any:
    """A package that comes with an extra of this one; UserError that `what` needs it where it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError:
        advice = f"pip install 'dlhmc[{extra}]'"
        raise UserError(f"{what} needs the package {package}, which is not installed: {advice}.") from None


class ExitCode(enum.IntEnum):
    """What the command line returns."""

    OK = 0
    #: a check of exactness has failed
    WRONG = 1
    BAD_INPUT = 2
    #: a sampling run has finished, but its ΔH say that it was not exact, or not in equilibrium
    ALARM = 3
    #: another process of the run has died: "temporary failure" of a remote service, EX_UNAVAILABLE of sysexits.h
    LOST = 69
    #: the time limit has come: "try again later", as in sysexits.h
    TIME_OVER = 75
    #: 128 + the signal's number, as shells do
    INTERRUPTED = 130
    UNREAD = 141
    TERMINATED = 143

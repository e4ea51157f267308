"""Errors that a user can cause, and how a command ends."""

import contextlib
import enum
import re
from collections.abc import Iterator


class UserError(Exception):
    """One sentence that says what is wrong and what to do; shown without a traceback."""


@contextlib.contextmanager
def in_words_of_python() -> Iterator[None]:
    """Name arguments of functions where a sentence names options of commands.

    >>> with in_words_of_python():
    ...     raise UserError("--step-size is 0 in a--b.toml, but must be positive.")
    Traceback (most recent call last):
    dlhmc.errors.UserError: step_size is 0 in a--b.toml, but must be positive.
    """
    try:
        yield
    except UserError as error:
        said = re.sub(r"(?<!\S)--([a-z][a-z0-9-]*)", lambda option: option[1].replace("-", "_"), str(error))
        raise UserError(said) from error.__cause__


class ExitCode(enum.IntEnum):
    """What the command line returns."""

    OK = 0
    #: a check of exactness has failed
    WRONG = 1
    BAD_INPUT = 2
    #: another process of the run has died: "temporary failure" of a remote service, EX_UNAVAILABLE of sysexits.h
    LOST = 69
    #: the time limit has come: "try again later", as in sysexits.h
    TIME_OVER = 75
    #: 128 + the signal's number, as shells do
    INTERRUPTED = 130
    UNREAD = 141
    TERMINATED = 143

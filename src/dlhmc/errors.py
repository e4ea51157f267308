"""Errors that a user can cause, and how a command ends."""

import enum


class UserError(Exception):
    """One sentence that says what is wrong and what to do; shown without a traceback."""


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
    TERMINATED = 143

"""Ctrl-C, SIGTERM and a time limit end a run between two chunks, with everything saved."""

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType

from dlhmc.errors import ExitCode

_AT_ONCE = b"dlhmc: stopped at once; what was saved before is intact\n"
_SHOW_CURSOR = b"\x1b[?25h\n"  # Rich hides it


class Interruption:
    """Remembers the first signal, and when time is over; a second Ctrl-C stops at once."""

    def __init__(self, time_limit: float | None = None) -> None:
        self.signal: int | None = None
        self._deadline = math.inf if time_limit is None else time.monotonic() + time_limit

    def __bool__(self) -> bool:
        return self.exit_code != ExitCode.OK

    @property
    def exit_code(self) -> ExitCode:
        """What the process should end with: OK as long as it may go on."""
        if self.signal is not None:
            return ExitCode.TERMINATED if self.signal == signal.SIGTERM else ExitCode.INTERRUPTED
        return ExitCode.TIME_OVER if time.monotonic() > self._deadline else ExitCode.OK

    def handle(self, number: int, _: FrameType | None) -> None:
        """Note the signal; whoever works in a session stops at once by a second one, and goes on there."""
        if self.signal is not None and number == signal.SIGINT and _in_session():
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def watch_signals(time_limit: float | None = None) -> Iterator[Interruption]:
    """Note signals instead of dying from them, inside the block; after `time_limit` seconds it is as if one came."""
    interruption = Interruption(time_limit)
    if threading.current_thread() is not threading.main_thread():
        yield interruption  # Python lets the main thread alone handle signals
        return
    previous = {number: signal.signal(number, interruption.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with nullcontext() if _in_session() else _exit_at_second():
            yield interruption
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _in_session() -> bool:
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules


@contextmanager
def _exit_at_second() -> Iterator[None]:
    """End the process at the second Ctrl-C, whatever it is doing.

    Handlers of Python wait until a compiled program returns, and an exception would end the interpreter below threads
    of XLA that are still at work.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def count() -> None:
        received = 0
        while received < 2 and (numbers := os.read(reading, 64)):
            received += numbers.count(signal.SIGINT)
        os.close(reading)
        if received >= 2:
            os.write(2, (_SHOW_CURSOR if sys.stderr.isatty() else b"") + _AT_ONCE)
            os._exit(ExitCode.INTERRUPTED)

    threading.Thread(target=count, daemon=True).start()
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)

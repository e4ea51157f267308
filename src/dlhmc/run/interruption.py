"""Ctrl-C, SIGTERM and a time limit end a run between two chunks, with everything saved."""

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dlhmc.errors import ExitCode


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

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def watch_signals(time_limit: float | None = None) -> Iterator[Interruption]:
    """Note signals instead of dying from them, inside the block; after `time_limit` seconds it is as if one came."""
    interruption = Interruption(time_limit)
    if threading.current_thread() is not threading.main_thread():
        yield interruption  # Python lets the main thread alone handle signals
        return
    previous = {number: signal.signal(number, interruption._handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

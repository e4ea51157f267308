"""Ctrl-C and SIGTERM end a run between two chunks, with everything saved."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dlhmc.errors import ExitCode


class Interruption:
    """Remembers the first signal; a second Ctrl-C stops at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> ExitCode:
        """What the process should end with."""
        return ExitCode.TERMINATED if self.signal == signal.SIGTERM else ExitCode.INTERRUPTED

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def watch_signals() -> Iterator[Interruption]:
    """Note signals instead of dying from them, inside the block."""
    interruption = Interruption()
    previous = {number: signal.signal(number, interruption._handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

"""What a person sees while a run goes on: one live line in a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from dlhmc.run.sink import Sink

_SECONDS_BETWEEN_LINES = 5.0
#: called with steps done, all steps, and figures for people
Callback = Callable[[int, int, str], None]


class Display(Sink):
    """Shows how far a run is. A callback gets it all in place of the screen."""

    def __init__(
        self, console: Console, title: str, total: int, *, quiet: bool = False, callback: Callback | None = None
    ) -> None:
        self._console, self._title, self._total = console, title, total
        self._quiet, self._callback = quiet, callback
        #: an output of a notebook's cell, where Rich would want ipywidgets
        self._notebook: Any = None
        self._bar = Progress(
            TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        )
        self._live: Live | None = None
        self._last_line = -float("inf")

    @contextmanager
    def running(self, first: int) -> Iterator["Display"]:
        """Show progress from step `first` on until the block ends."""
        # A task that begins where the run does: what was done before says nothing about the time left.
        self._task = self._bar.add_task(self._title, total=self._total, completed=first)
        on_screen = not self._quiet and self._callback is None
        if on_screen and self._console.is_jupyter:
            with suppress(ImportError):
                self._notebook = _notebook_output()
            self.update(first, "compiling …")
            yield self
        elif on_screen and self._console.is_terminal:
            with Live(console=self._console, refresh_per_second=8) as self._live:
                self.update(first, "compiling …")
                yield self
        else:
            yield self

    def report(self, step: int, figures: Mapping[str, float], words: str) -> None:
        """Show the state of a run after a chunk."""
        self.update(step, words)

    def update(self, done: int, facts: str) -> None:
        """Show the state of the run."""
        if self._quiet:
            return
        if self._callback is not None:
            self._callback(done, self._total, facts)
            return
        line, now = f"{self._title}: {done}/{self._total}  {facts}", time.monotonic()
        if self._notebook is not None:
            self._notebook.update({"text/plain": line}, raw=True)
        elif self._live is not None:
            self._bar.update(self._task, completed=done)
            self._live.update(Group(self._bar, Text(facts, style="dim")))
        elif now - self._last_line >= _SECONDS_BETWEEN_LINES or done == self._total:
            self._last_line = now
            self._console.out(line, highlight=False)


def _notebook_output() -> Any:
    """A place in the output of a notebook's cell that can be updated."""
    from IPython.display import display

    return display({"text/plain": ""}, raw=True, display_id=True)


def format_duration(seconds: float) -> str:
    """A duration as people say it: 42 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

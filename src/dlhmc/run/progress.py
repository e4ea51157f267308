"""What a person sees while a run goes on: one live line in a terminal, plain lines elsewhere."""

import html
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
        self,
        console: Console,
        title: str,
        total: int,
        *,
        quiet: bool = False,
        callback: Callback | None = None,
    ) -> None:
        self._callback = callback
        self._quiet = quiet
        self._notebook: Any = None
        self._console = console
        self._title = title
        self._total = total
        self._bar = Progress(
            TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        )
        self._live: Live | None = None
        self._last_line = -float("inf")
        self._first: tuple[int, float] | None = None

    @contextmanager
    def running(self, first: int) -> Iterator["Display"]:
        """Show progress from step `first` on until the block ends."""
        on_screen = self._console.is_jupyter or self._console.is_terminal
        if self._quiet or self._callback is not None or not on_screen:
            yield self
            return
        if self._console.is_jupyter:
            with suppress(ImportError):
                self._notebook = _notebook_output()
            self.update(first, "compiling …")
            yield self
            return
        # A task that begins where the run does: what was done before says nothing about the time left.
        self._task = self._bar.add_task(self._title, total=self._total, completed=first)
        with Live(console=self._console, refresh_per_second=8) as self._live:
            self.update(first, "compiling …")
            yield self
        self._live = None

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
        if self._notebook is not None:
            self._notebook.update(_notebook_view(self._title, done, self._total, facts), raw=True)
            return
        if self._live is not None:
            self._bar.update(self._task, completed=done)
            self._live.update(Group(self._bar, Text(wrap_facts(facts, self._console.width), style="dim")))
            return
        now = time.monotonic()
        if now - self._last_line >= _SECONDS_BETWEEN_LINES or done == self._total:
            self._last_line = now
            line = f"{self._title}: {done}/{self._total}  {facts}{self._time_left(done, now)}"
            self._console.out(line, highlight=False)

    def _time_left(self, done: int, now: float) -> str:
        """Known from the second line on: the first one comes after compiling."""
        if self._first is None:
            self._first = (done, now)
        first, started = self._first
        if done in (first, self._total):
            return ""
        return f"  {format_duration((now - started) / (done - first) * (self._total - done))} left"


def _notebook_output() -> Any:
    """A place in the output of a notebook's cell that can be updated. Rich would want ipywidgets for its own."""
    from IPython.display import display

    return display({"text/plain": ""}, raw=True, display_id=True)


def _notebook_view(title: str, done: int, total: int, facts: str) -> dict[str, str]:
    """A bar and the figures, for browsers and for terminals."""
    line = f"{title}: {done}/{total}  {facts}"
    bar = f'<progress value="{done}" max="{total}"></progress>'
    return {"text/plain": line, "text/html": f"<div>{bar} {html.escape(line)}</div>"}


def wrap_facts(facts: str, width: int) -> str:
    """Break lines between facts, which two spaces separate, and never within one."""
    lines: list[str] = []
    for fact in facts.split("  "):
        if lines and len(lines[-1]) + 2 + len(fact) <= width:
            lines[-1] += "  " + fact
        else:
            lines.append(fact)
    return "\n".join(lines)


def format_duration(seconds: float) -> str:
    """A duration as people say it: 42 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

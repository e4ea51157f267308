"""What becomes of a run as it goes on: sinks, each absent unless it is asked for."""

from collections.abc import Mapping
from typing import Any

#: a pytree of arrays, and notes about it as plain JSON
Saved = tuple[Any, dict[str, Any]]


class Sink:
    """Base class: what a sink does not need, it leaves as it is."""

    #: whether it keeps what a run needs to go on
    saves: bool = False

    def report(self, step: int, figures: Mapping[str, float], words: str) -> None:
        """Take the figures after a chunk, which `words` say to people."""

    def save(self, step: int, state: Saved) -> None:
        """Keep what is needed to go on from here."""

    def close(self) -> None:
        """The run ends."""

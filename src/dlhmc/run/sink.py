"""What becomes of the figures of a run as it goes on: sinks, each absent unless it is asked for."""

from collections.abc import Mapping
from typing import Any

#: a pytree of arrays, and notes about it as plain JSON
Saved = tuple[Any, dict[str, Any]]


class Sink:
    """Base class."""

    def report(self, step: int, figures: Mapping[str, float], words: str) -> None:
        """Take the figures after a chunk, which `words` say to people."""

    def close(self) -> None:
        """The run ends."""

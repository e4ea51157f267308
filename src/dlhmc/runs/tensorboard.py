"""TensorBoard event files: the figures of metrics.jsonl once more, for those who watch them there."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dlhmc.errors import Setting, UserError


def require_tensorboard() -> None:
    """Refuse before anything is written: the package that writes event files is an extra."""
    try:
        import tensorboardX  # noqa: F401
    except ImportError:
        advice = "pip install 'dlhmc[tensorboard]'"
        raise UserError(
            Setting("tensorboard"), f" needs the package tensorboardX, which is not installed: {advice}."
        ) from None


class EventFile:
    """An event file that is being written. Every figure is on disk when `add` returns."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def add(self, step: int, figures: Mapping[str, float]) -> None:
        """All figures of a step."""
        from tensorboardX.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        self._write(step, summary=Summary(value=values))

    def forget_from(self, step: int) -> None:
        """Let TensorBoard forget what earlier files of the run hold of this step and later ones."""
        from tensorboardX.proto.event_pb2 import SessionLog

        self._write(step, session_log=SessionLog(status=SessionLog.START))

    def _write(self, step: int, **content: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event

        self._writer.write_event(Event(step=step, wall_time=time.time(), **content))
        self._writer.flush()


@contextmanager
def event_file(path: Path, step: int) -> Iterator[EventFile]:
    """A new event file for a run that goes on after `step`."""
    # Not SummaryWriter, which hands events to a thread: what it has not written yet would be lost with the process.
    from tensorboardX.event_file_writer import EventsWriter

    path.mkdir(exist_ok=True)
    # A name holds the time in seconds only: without the step, a run resumed at once would overwrite its first file.
    writer = EventsWriter(str(path / "events"), f".{step:010d}")
    try:
        events = EventFile(writer)
        events.forget_from(step + 1)
        yield events
    finally:
        writer.close()

"""Where figures are watched, beside metrics.jsonl: TensorBoard, Weights & Biases. Their packages are extras."""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from dlhmc.errors import Setting, required
from dlhmc.run.directory import RunDirectory

#: shows the figures of a step
Logger = Callable[[int, Mapping[str, float]], None]


def require_loggers(*, tensorboard: bool, wandb: bool) -> None:
    """Refuse before anything is written."""
    if tensorboard:
        required("tensorboardX", "tensorboard", Setting("tensorboard"))
    if wandb:
        required("wandb", "wandb", Setting("wandb"))


@contextmanager
def open_loggers(directory: RunDirectory, step: int, *, tensorboard: bool, wandb: bool) -> Iterator[list[Logger]]:
    """The loggers that are wanted, for a run that goes on after `step`."""
    with ExitStack() as stack:
        loggers: list[Logger] = []
        if tensorboard:
            loggers.append(stack.enter_context(_event_file(directory.tensorboard, step)))
        if wandb:
            loggers.append(stack.enter_context(_wandb_run(directory.path)))
        yield loggers


@contextmanager
def _event_file(path: Path, step: int) -> Iterator[Logger]:
    """A new event file of TensorBoard. Every figure is on disk when the logger returns."""
    # Not SummaryWriter, which hands events to a thread: what it has not written yet would be lost with the process.
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto.event_pb2 import Event, SessionLog
    from tensorboardX.proto.summary_pb2 import Summary

    path.mkdir(exist_ok=True)
    # A name holds the time in seconds only: without the step, a run resumed at once would overwrite its first file.
    with closing(EventsWriter(str(path / "events"), f".{step:010d}")) as writer:

        def write(step: int, **content: Any) -> None:
            writer.write_event(Event(step=step, wall_time=time.time(), **content))
            writer.flush()

        def log(step: int, figures: Mapping[str, float]) -> None:
            values = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
            write(step, summary=Summary(value=values))

        # Let TensorBoard forget what earlier files of the run hold of later steps.
        write(step + 1, session_log=SessionLog(status=SessionLog.START))
        yield log


@contextmanager
def _wandb_run(path: Path) -> Iterator[Logger]:
    """A run of Weights & Biases; one that goes on has the same name.

    Offline by default: files go into the folder wandb of the run, and nothing leaves the machine until `wandb sync`
    sends them. With WANDB_MODE=online in the environment they are sent at once.
    """
    run = required("wandb", "wandb", Setting("wandb")).init(
        project="dlhmc",
        name=path.name,
        # The same for the same directory, so that a resumed run goes on in the same place.
        id=hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:16],
        resume="allow",
        dir=str(path),
        mode=os.environ.get("WANDB_MODE", "offline"),
    )
    try:
        yield lambda step, figures: run.log(dict(figures), step=step)
    finally:
        run.finish()

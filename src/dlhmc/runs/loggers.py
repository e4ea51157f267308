"""Where figures are watched, beside metrics.jsonl: TensorBoard, Weights & Biases."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Protocol

from dlhmc.runs.directory import RunDirectory
from dlhmc.runs.tensorboard import event_file, require_tensorboard
from dlhmc.runs.wandb import require_wandb, wandb_run


class Logger(Protocol):
    """Something that shows figures by step."""

    def add(self, step: int, figures: Mapping[str, float]) -> None:
        """All figures of a step."""


def require_loggers(*, tensorboard: bool, wandb: bool) -> None:
    """Refuse before anything is written: the packages are extras."""
    if tensorboard:
        require_tensorboard()
    if wandb:
        require_wandb()


@contextmanager
def open_loggers(directory: RunDirectory, step: int, *, tensorboard: bool, wandb: bool) -> Iterator[list[Logger]]:
    """The loggers that are wanted, for a run that goes on after `step`."""
    with ExitStack() as stack:
        loggers: list[Logger] = []
        if tensorboard:
            loggers.append(stack.enter_context(event_file(directory.tensorboard, step)))
        if wandb:
            loggers.append(stack.enter_context(wandb_run(directory.path)))
        yield loggers

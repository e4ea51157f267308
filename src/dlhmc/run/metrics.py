"""Figures of a run as it goes on: metrics.jsonl, TensorBoard, Weights & Biases. The packages of these are extras."""

import json
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from dlhmc.errors import Setting, UserError, required
from dlhmc.files import parse_json, read_text, write_whole
from dlhmc.run.sink import Sink


class MetricsFile(Sink):
    """A line for each chunk; it has left the process when `report` returns."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("ab")

    def report(self, step: int, figures: Mapping[str, float], words: str) -> None:
        """Add a line."""
        self._file.write((json.dumps({"step": step, **figures}) + "\n").encode())
        self._file.flush()

    def close(self) -> None:
        """No more lines."""
        self._file.close()


def cut(path: Path, step: int) -> None:
    """Drop what a run wrote after the step that it goes on from."""
    if path.exists():
        write_whole(path, "".join(f"{json.dumps(line)}\n" for line in read(path, step)).encode())


def read(path: Path, step: int) -> list[dict[str, Any]]:
    """The lines up to a step; what a crash has torn is no line."""
    try:
        texts = read_text(path).splitlines()
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is missing or damaged: {error}.") from None
    lines = []
    for text in texts:
        with suppress(ValueError):
            line = parse_json(text)
            numbers = all(type(value) in (int, float) for value in line.values())
            if numbers and type(line.get("step")) is int and line["step"] <= step:
                lines.append(line)
    return lines


def require_loggers(*, tensorboard: bool, wandb: bool) -> None:
    """Refuse before anything is written."""
    if tensorboard:
        required("tensorboardX", "tensorboard", Setting("tensorboard"))
    if wandb:
        required("wandb", "wandb", Setting("wandb"))


class TensorBoard(Sink):
    """A new event file for a run that goes on after `step`. Every figure is on disk when `report` returns."""

    def __init__(self, path: Path, step: int) -> None:
        writer = required("tensorboardX", "tensorboard", Setting("tensorboard")).SummaryWriter
        # A name holds the time in seconds only: without the step, a run resumed at once would overwrite its first file.
        # TensorBoard forgets what earlier files of the run hold of later steps.
        self._writer = writer(str(path), purge_step=step + 1, filename_suffix=f".{step:010d}")

    def report(self, step: int, figures: Mapping[str, float], words: str) -> None:
        """Write the figures of a step."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """No more events."""
        self._writer.close()


class WeightsAndBiases(Sink):
    """A run of Weights & Biases; one that goes on has the same name.

    Offline by default: files go into the folder wandb of the run, and nothing leaves the machine until `wandb sync`
    sends them. With WANDB_MODE=online in the environment they are sent at once.
    """

    def __init__(self, path: Path) -> None:
        self._run = required("wandb", "wandb", Setting("wandb")).init(
            project="dlhmc",
            name=path.name,
            # The same for the same directory, so that a resumed run goes on in the same place.
            id=uuid.uuid5(uuid.NAMESPACE_URL, str(path.absolute())).hex,
            resume="allow",
            dir=str(path),
            mode=os.environ.get("WANDB_MODE", "offline"),
        )

    def report(self, step: int, figures: Mapping[str, float], words: str) -> None:
        """Log the figures of a step."""
        self._run.log(dict(figures), step=step)

    def close(self) -> None:
        """The run ends."""
        self._run.finish()

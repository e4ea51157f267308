"""Weights & Biases: the figures of metrics.jsonl once more, for those who watch them there.

Offline by default: files go into the folder wandb of the run, and nothing leaves the machine until `wandb sync` sends
them. With WANDB_MODE=online in the environment they are sent at once.
"""

import hashlib
import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dlhmc.errors import Setting, UserError


def require_wandb() -> Any:
    """The package, which is an extra: refuse before anything is written."""
    try:
        return importlib.import_module("wandb")
    except ImportError:
        advice = "pip install 'dlhmc[wandb]'"
        raise UserError(Setting("wandb"), f" needs the package wandb, which is not installed: {advice}.") from None


class WandbRun:
    """A run of Weights & Biases that is being written."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def add(self, step: int, figures: Mapping[str, float]) -> None:
        """All figures of a step."""
        self._run.log(dict(figures), step=step)


@contextmanager
def wandb_run(path: Path) -> Iterator[WandbRun]:
    """The run of a directory; one that goes on has the same name."""
    run = require_wandb().init(
        project="dlhmc",
        name=path.name,
        # The same for the same directory, so that a resumed run goes on in the same place.
        id=hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:16],
        resume="allow",
        dir=str(path),
        mode=os.environ.get("WANDB_MODE", "offline"),
    )
    try:
        yield WandbRun(run)
    finally:
        run.finish()

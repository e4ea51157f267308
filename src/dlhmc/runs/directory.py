"""The run directory: which file is where, written so that a crash never leaves half a file."""

import datetime
import fcntl
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from dlhmc.errors import UserError
from dlhmc.runs import config as configuration

T = TypeVar("T")
FORMAT_VERSION = 1
_VERSIONED = ("dlhmc", "jax", "jaxlib", "equinox", "orbax-checkpoint", "zarr", "numpy", "scipy")


class RunDirectory:
    """Configuration, manifest, metrics, history, checkpoints, summary; after training the model."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.manifest = path / "manifest.json"
        self.metrics = path / "metrics.jsonl"
        self.tensorboard = path / "tensorboard"
        self.history = path / "history.zarr"
        self.checkpoints = path / "checkpoints"
        self.summary = path / "summary.json"
        self.model = path / "model.npz"

    def refuse_if_taken(self) -> None:
        """A new run never touches an old one."""
        if self.config.exists() or self.history.exists():
            raise UserError(f"{self.path} already holds a run: choose another --out, or 'dlhmc resume {self.path}'.")
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file: choose another --out.")
        if self.path.is_dir() and any(self.path.iterdir()):
            raise UserError(f"{self.path} is not empty: choose another --out.")

    def require_run(self) -> None:
        """There must be a run to go on with."""
        if not self.path.is_dir():
            raise UserError(f"There is no run directory {self.path}.")
        missing = [file.name for file in (self.config, self.manifest) if not file.is_file()]
        if missing:
            raise UserError(f"{self.path} is not a run directory, or a damaged one: {' and '.join(missing)} missing.")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory for one process; the system lets go of it when the process ends, however it ends."""
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"Another process is running in {self.path}: wait for it or stop it.") from None
            yield


@contextmanager
def new_run(kind: str, config: Any, path: Path) -> Iterator[RunDirectory]:
    """A new run directory, held for this process, with configuration and manifest in it."""
    import jax

    from dlhmc import processes

    directory = RunDirectory(path)
    with _disk_errors(directory), ExitStack() as held:
        if processes.is_first():
            directory.refuse_if_taken()
            path.mkdir(parents=True, exist_ok=True)
            held.enter_context(directory.locked())
            configuration.save(config, directory.config)
            devices = [f"{device.platform}: {device.device_kind}" for device in jax.devices()]
            write_json(directory.manifest, manifest(kind, config.seed, devices))
        processes.barrier("directory")
        yield directory


@contextmanager
def old_run(kind: str, config_type: type[T], path: Path) -> Iterator[tuple[RunDirectory, T]]:
    """The directory of an earlier run, held for this process, with its configuration."""
    from dlhmc import processes

    directory, config = open_run(kind, config_type, path)
    with _disk_errors(directory), directory.locked() if processes.is_first() else nullcontext():
        yield directory, config


def open_run(kind: str, config_type: type[T], path: Path) -> tuple[RunDirectory, T]:
    """Directory and configuration of an earlier run of the given kind."""
    directory = RunDirectory(path)
    if (found := run_kind(path)) != kind:
        raise UserError(f"{path} holds a run of kind '{found}', not '{kind}'.")
    return directory, configuration.load(config_type, directory.config)


def run_kind(path: Path) -> str:
    """What kind of run a directory holds."""
    directory = RunDirectory(path)
    directory.require_run()
    written = read_json(directory.manifest)
    if written.get("format") != FORMAT_VERSION:
        raise UserError(
            f"{path} has format {written.get('format')}, but this version of dlhmc knows {FORMAT_VERSION} only."
        )
    return str(written.get("kind"))


@contextmanager
def _disk_errors(directory: RunDirectory) -> Iterator[None]:
    """What to say when the disk fails."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{directory.path} cannot be written ({error.strerror or error}): make room or check permissions, "
            f"then 'dlhmc resume {directory.path}'."
        ) from error


def manifest(kind: str, seed: int, devices: list[str]) -> dict[str, Any]:
    """What ran, on what, with which versions."""
    return {
        "format": FORMAT_VERSION,
        "kind": kind,
        "seed": seed,
        "devices": devices,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "versions": versions(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def versions() -> dict[str, str]:
    """Of the package and of what its numbers depend on."""
    return {name: importlib.metadata.version(name) for name in _VERSIONED}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file in one piece: it is there as a whole or not at all. Infinities are not JSON."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of a run."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is missing or damaged: {error}.") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} is damaged: it does not hold a table.")
    return content

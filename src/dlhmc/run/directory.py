"""The run directory: which file is where, written so that a crash never leaves half a file."""

import datetime
import fcntl
import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from dlhmc.errors import Setting, Spelled, UserError
from dlhmc.files import UNFINISHED, parse_json, read_text, write_whole
from dlhmc.settings import converted, read_table, to_toml

_VERSIONED = ("dlhmc", "jax", "jaxlib", "equinox", "zarr", "numpy", "scipy")
#: settings with which a run may go on further than it was begun
_MAY_GROW = ("trajectories", "keep_configurations", "steps")


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
        self.model = path / "model.safetensors"
        #: of several processes, the first holds the directory for all
        self._was_held = False

    def refuse_if_taken(self) -> None:
        """A new run never touches an old one."""
        if self.config.exists() or self.history.exists():
            again = Spelled("resume=True", f"'dlhmc resume {shlex.quote(str(self.path))}'")
            raise UserError(f"{self.path} already holds a run: choose another directory, or {again}.")
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file: choose another directory.")
        # A run that died before it had written its configuration has not begun.
        unborn = {".lock", self.manifest.name, *(f".{file.name}{UNFINISHED}" for file in (self.manifest, self.config))}
        if self.path.is_dir() and any(entry.name not in unborn for entry in self.path.iterdir()):
            raise UserError(f"{self.path} is not empty: choose another directory.")

    def never_began(self) -> bool:
        """Whether the run died before its first checkpoint; metrics are opened right after it."""
        return not self.metrics.exists() and not any(self.checkpoints.glob("[0-9]*.npz"))

    def what_is_lost(self, step: int, total: int) -> list[str]:
        """A run that has its results had reached its end: a checkpoint before it is not the newest one."""
        return [f"the checkpoint of step {total} is missing"] if self.summary.exists() and step < total else []

    def clear(self) -> None:
        """Remove what a run that died before its first checkpoint had begun to make."""
        for path in (self.history, self.checkpoints):
            if path.exists():
                shutil.rmtree(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory for one process; the system lets go of it when the process ends, however it ends."""
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"Another process is running in {self.path}: wait for it or stop it.") from None
            self._was_held = True
            yield

    def require_still_there(self) -> None:
        """Refuse to go on in a directory that was removed: parts of it would come back as if they were a run."""
        if self._was_held and not os.path.exists(self.path / ".lock"):
            raise UserError(f"{self.path} was removed while the run was going on: what it had saved is gone.")


class Place(NamedTuple):
    """Where a run writes: a new directory, or that of a run to go on with."""

    path: Path
    #: what config.toml says
    settings: Mapping[str, Any]
    resuming: bool = False


@contextmanager
def new_run(kind: str, settings: Mapping[str, Any], path: Path, checksum: int | None = None) -> Iterator[RunDirectory]:
    """A new run directory, held for this process, with settings and manifest in it."""
    import jax

    from dlhmc.run import processes

    directory = RunDirectory(path)
    with _disk_errors(directory), ExitStack() as held:
        if processes.is_first():
            directory.refuse_if_taken()
            path.mkdir(parents=True, exist_ok=True)
            held.enter_context(directory.locked())
            directory.refuse_if_taken()  # by a process that was quicker
            devices = [f"{device.platform}: {device.device_kind}" for device in jax.devices()]
            write_json(directory.manifest, manifest(kind, _flat(settings)["seed"], devices, checksum))
            write_whole(directory.config, to_toml(settings).encode())  # last: with it the run has begun
        processes.barrier("directory")
        yield directory


def _flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of all tables by name; on what a run is done is none of its settings."""
    found = dict(tables)
    found.pop("machine", None)
    for name in [name for name, table in found.items() if isinstance(table, Mapping)]:
        table = found.pop(name)
        found |= {name if key == "name" else key: value for key, value in table.items()}
    return found


@contextmanager
def old_run(kind: str, path: Path) -> Iterator[tuple[RunDirectory, dict[str, Any]]]:
    """The directory of an earlier run, held for this process, with its settings."""
    from dlhmc.run import processes

    directory, settings = open_run(kind, path)
    with _disk_errors(directory), directory.locked() if processes.is_first() else nullcontext():
        yield directory, settings


@contextmanager
def run_directory(kind: str, place: Place, checksum: int) -> Iterator[RunDirectory]:
    """The directory of a run: a new one, or one to go on with, which may go on further than it was begun.

    `checksum` is that of what runs (`leaves.checksum`).
    """
    path, settings, resuming = place
    if not resuming:
        with new_run(kind, settings, path, checksum) as directory:
            yield directory
        return
    with old_run(kind, path) as (directory, before):
        now, before = _flat(tomllib.loads(to_toml(settings))), _flat(before)
        changed = sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
        for name in changed:
            if name not in _MAY_GROW:
                raise UserError(f"{path} was begun with another {name}: go on with the same objects and numbers.")
            if now.get(name, 0) < before.get(name, 0):
                raise UserError(f"{path} was begun with {name} {before[name]}: it can go on with more, not with fewer.")
        kept = [table.get("keep_configurations", 0) for table in (before, now)]
        if kept[0] * now.get("trajectories", 0) != kept[1] * before.get("trajectories", 0):
            raise UserError(
                f"Configurations stay evenly spaced: {Setting('keep_configurations')}, {kept[0]} in {path}, must grow "
                f"in proportion to {Setting('trajectories')}."
            )
        if read_manifest(directory).get("checksum") != checksum:
            raise UserError(
                f"{path} was begun with other numbers (in a target, a kernel or a model): go on with the same, or "
                "start a new run."
            )
        from dlhmc.run import processes

        if changed and processes.is_first():
            directory.summary.unlink(missing_ok=True)
            write_whole(directory.config, to_toml(settings).encode())
        yield directory


def open_run(kind: str, path: Path) -> tuple[RunDirectory, dict[str, Any]]:
    """Directory and settings of an earlier run of the given kind."""
    if (found := run_kind(path)) != kind:
        raise UserError(f"{path} holds a run of kind '{found}', not '{kind}'.")
    directory = RunDirectory(path)
    return directory, read_table(directory.config)


def is_of_objects(settings: Mapping[str, Any]) -> bool:
    """Whether a run is one of objects made in Python, which no file can describe."""
    return "objects" in settings


def require_rebuildable(kind: str, settings: Mapping[str, Any], path: Path) -> None:
    """Refuse to go on from the command line with objects that were made in Python."""
    if is_of_objects(settings):
        raise UserError(
            f"{path} holds a run of objects made in Python: go on with dlhmc.{kind}(…, out=…, resume=True) there."
        )


def run_kind(path: Path) -> str:
    """What kind of run a directory holds."""
    directory = RunDirectory(path)
    if not path.is_dir():
        raise UserError(f"There is no run directory {path}.")
    missing = [file.name for file in (directory.config, directory.manifest) if not file.is_file()]
    if missing:
        raise UserError(f"{path} is not a run directory, or a damaged one: {' and '.join(missing)} missing.")
    return str(read_manifest(directory)["kind"])


class _Manifest(TypedDict):
    """What a manifest must have; others may be in it, too."""

    kind: str
    python: str
    machine: str
    created: str
    versions: dict[str, str]
    devices: list[str]


def read_manifest(directory: RunDirectory) -> dict[str, Any]:
    """What ran, on what, with which versions."""
    written = read_json(directory.manifest)
    converted(written, _Manifest, str(directory.manifest))
    return written


def manifest(kind: str, seed: int, devices: list[str], checksum: int | None = None) -> dict[str, Any]:
    """What runs, on what, with which versions."""
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    machine = {"devices": devices, "python": platform.python_version(), "machine": platform.machine()}
    return {"kind": kind, "seed": seed, "checksum": checksum, "versions": versions(), "created": created} | machine


def require_newest(path: Path, problems: list[str]) -> None:
    """Refuse to make a page of an earlier checkpoint, which would show less than the run has done."""
    if problems:
        raise UserError(f"{path} is damaged ({'; '.join(problems)}): 'dlhmc resume {path}' does what was lost again.")


@contextmanager
def _disk_errors(directory: RunDirectory) -> Iterator[None]:
    """What to say when the disk fails."""
    try:
        yield
    except BrokenPipeError:  # nobody reads what is printed: not the disk's fault
        raise
    except OSError as error:
        directory.require_still_there()
        if not os.path.exists(directory.manifest):  # false where it cannot even be asked
            raise UserError(f"{directory.path} cannot be written: {error.strerror or error}.") from error
        raise UserError(
            f"{directory.path} cannot be written ({error.strerror or error}): make room or check permissions, "
            f"then 'dlhmc resume {directory.path}'."
        ) from error


def versions() -> dict[str, str]:
    """Of the package and of what its numbers depend on."""
    return {name: importlib.metadata.version(name) for name in _VERSIONED}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file in one piece. Infinities are not JSON."""
    write_whole(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of a run."""
    try:
        return parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is missing or damaged: {error}.") from None

"""The run directory: which file is where, written so that a crash never leaves half a file."""

import datetime
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, NamedTuple, TypedDict

from dlhmc.errors import UserError
from dlhmc.files import UNFINISHED, fingerprint, parse_json, read_text, sealed, unsealed, write_whole
from dlhmc.settings import converted, read_table, to_toml

#: 3: checkpoints are one file each; 4: settings of the theory and the architecture alone, records of a kernel by name
FORMAT_VERSION = 4
_VERSIONED = ("dlhmc", "jax", "jaxlib", "equinox", "zarr", "numpy", "scipy")


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
        self._lock: IO[str] | None = None

    def refuse_if_taken(self) -> None:
        """A new run never touches an old one."""
        if self.config.exists() or self.history.exists():
            raise UserError(
                f"{self.path} already holds a run: choose another directory, or 'dlhmc resume {self.path}'."
            )
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file: choose another directory.")
        # A run that died before it had written its configuration has not begun.
        unborn = {".lock", self.manifest.name, *(f".{file.name}{UNFINISHED}" for file in (self.manifest, self.config))}
        if self.path.is_dir() and any(entry.name not in unborn for entry in self.path.iterdir()):
            raise UserError(f"{self.path} is not empty: choose another directory.")

    def require_run(self) -> None:
        """There must be a run to go on with."""
        if not self.path.is_dir():
            raise UserError(f"There is no run directory {self.path}.")
        missing = [file.name for file in (self.config, self.manifest) if not file.is_file()]
        if missing:
            raise UserError(f"{self.path} is not a run directory, or a damaged one: {' and '.join(missing)} missing.")

    def identity(self) -> str:
        """What tells the run from others: two with the same settings have the same numbers."""
        return fingerprint(self.config)

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
            self._lock = file
            yield

    def require_still_there(self) -> None:
        """Refuse to go on in a directory that was removed: parts of it would come back as if they were a run."""
        if self._lock is not None and os.fstat(self._lock.fileno()).st_nlink == 0:
            raise UserError(f"{self.path} was removed while the run was going on: what it had saved is gone.")


class Place(NamedTuple):
    """Where a run writes: a new directory, or that of a run to go on with."""

    path: Path
    #: what config.toml says
    settings: Mapping[str, Any]
    #: files that it reads, by name
    inputs: Mapping[str, Path] | None = None
    resuming: bool = False


@contextmanager
def new_run(
    kind: str, settings: Mapping[str, Any], path: Path, inputs: Mapping[str, Path] | None = None
) -> Iterator[RunDirectory]:
    """A new run directory, held for this process, with settings and manifest in it; `inputs` are files it reads."""
    import jax

    from dlhmc.run import processes

    directory = RunDirectory(path)
    with _disk_errors(directory), ExitStack() as held:
        if processes.is_first():
            directory.refuse_if_taken()
            path.mkdir(parents=True, exist_ok=True)
            held.enter_context(directory.locked())
            directory.refuse_if_taken()  # by a process that was quicker
            text = to_toml(settings).encode()
            devices = [f"{device.platform}: {device.device_kind}" for device in jax.devices()]
            digests = {name: fingerprint(file) for name, file in (inputs or {}).items()}
            digests[directory.config.name] = hashlib.sha256(text).hexdigest()
            write_json(directory.manifest, manifest(kind, settings["seed"], devices) | {"inputs": digests})
            write_whole(directory.config, text)  # last: with it the run has begun
        processes.barrier("directory")
        yield directory


@contextmanager
def old_run(kind: str, path: Path) -> Iterator[tuple[RunDirectory, dict[str, Any]]]:
    """The directory of an earlier run, held for this process, with its settings."""
    from dlhmc.run import processes

    directory, settings = open_run(kind, path)
    with _disk_errors(directory), directory.locked() if processes.is_first() else nullcontext():
        yield directory, settings


@contextmanager
def run_directory(kind: str, place: Place) -> Iterator[RunDirectory]:
    """The directory of a run: a new one, or one to go on with that has the same settings and inputs."""
    path, settings, inputs, resuming = place
    if not resuming:
        with new_run(kind, settings, path, inputs) as directory:
            yield directory
        return
    with old_run(kind, path) as (directory, before):
        now = tomllib.loads(to_toml(settings))
        if changed := [name for name in now.keys() | before.keys() if now.get(name) != before.get(name)]:
            raise UserError(f"{path} was begun with another {min(changed)}: go on with the same objects and numbers.")
        require_same_inputs(directory, inputs or {})
        yield directory


def open_run(kind: str, path: Path) -> tuple[RunDirectory, dict[str, Any]]:
    """Directory and settings of an earlier run of the given kind."""
    directory = RunDirectory(path)
    if (found := run_kind(path)) != kind:
        raise UserError(f"{path} holds a run of kind '{found}', not '{kind}'.")
    return directory, read_table(directory.config)


def is_of_objects(settings: Mapping[str, Any]) -> bool:
    """Whether a run is one of objects made in Python, which no file can describe."""
    return "fingerprint" in settings


def require_rebuildable(kind: str, settings: Mapping[str, Any], path: Path) -> None:
    """Refuse to go on from the command line with objects that were made in Python."""
    if is_of_objects(settings):
        raise UserError(
            f"{path} holds a run of objects made in Python: go on with dlhmc.{kind}(…, out=…, resume=True) there."
        )


def run_kind(path: Path) -> str:
    """What kind of run a directory holds; a manifest or a configuration that was changed is refused."""
    directory = RunDirectory(path)
    directory.require_run()
    written = read_manifest(directory)
    if fingerprint(directory.config) != written["inputs"][directory.config.name]:
        raise UserError(
            f"{directory.config} is not what the run began with (its SHA-256 is not that of manifest.json): put the "
            "old one back, or start a new run with it."
        )
    return str(written["kind"])


def read_manifest(directory: RunDirectory) -> dict[str, Any]:
    """What ran, in the format of this version."""
    path = directory.manifest
    try:
        table = parse_json(read_text(path))
        if type(version := table.get("format")) is int and version != FORMAT_VERSION:
            raise UserError(
                f"{directory.path} has format {version}, but this version of dlhmc reads {FORMAT_VERSION}: go on with "
                f"the version that wrote it, or start anew with '--config {directory.config}'."
            )
        written = unsealed(table)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is missing or damaged: {error}.") from None
    converted(written, _Manifest, str(path))
    if directory.config.name not in written["inputs"]:
        raise UserError(f"{path} is damaged: it does not say what ran.")
    return written


class _Manifest(TypedDict):
    """What a manifest must have; others may be in it, too."""

    kind: str
    python: str
    machine: str
    created: str
    inputs: dict[str, str]
    versions: dict[str, str]
    devices: list[str]


def require_same_inputs(directory: RunDirectory, inputs: Mapping[str, Path]) -> None:
    """Refuse files that are not those that the run began with: they would give other numbers."""
    written = read_manifest(directory)["inputs"]
    for name, file in inputs.items():
        if fingerprint(file) != written.get(name):
            raise UserError(
                f"The {name} {file} is not the one that {directory.path} began with (its SHA-256 is not that of "
                "manifest.json): put the old one back, or start a new run."
            )


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
        if not os.path.exists(directory.manifest):  # false where it cannot even be asked
            raise UserError(f"{directory.path} cannot be written: {error.strerror or error}.") from error
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


def write_json(path: Path, content: Mapping[str, Any], run: str = "") -> None:
    """Write a JSON file in one piece, with a SHA-256 of its content (and of the run) in it. Infinities are not JSON."""
    write_whole(path, (json.dumps(sealed(content, run), indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path, run: str = "") -> dict[str, Any]:
    """Read a JSON file of a run; one that was changed since, or is of another run, is refused."""
    try:
        return unsealed(parse_json(read_text(path)), run)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is missing or damaged: {error}.") from None

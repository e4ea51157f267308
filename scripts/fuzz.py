"""Hand mutated files to everything that loads one: each is read, or refused with one sentence.

    python scripts/fuzz.py --inputs 10000

Mutations are of two kinds. Accidents change bytes of a file; where a checksum guards it, what is read afterwards must
be what was saved. Strangers change its meaning and make every checksum fit; then whatever is read must at least be
sane. No input may raise anything but UserError, run code, open a file elsewhere, write one, or take much memory.
"""

import argparse
import collections
import dataclasses
import functools
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import equinox as eqx
import google_crc32c
import jax
import numpy as np
from rich.console import Console

from dlhmc.comparison import table
from dlhmc.comparison.config import CompareConfig
from dlhmc.comparison.results import NOTHING, Entry, Quantity, Results, to_json
from dlhmc.comparison.streams import Streams
from dlhmc.errors import UserError
from dlhmc.models import model as models
from dlhmc.models.model import ModelConfig
from dlhmc.numerics.leaves import by_name, digest
from dlhmc.report.comparisons import Comparison
from dlhmc.report.sampling import sampling_table
from dlhmc.runs import config as configuration
from dlhmc.runs import metrics, sampling, targets, training
from dlhmc.runs.checkpoint import Checkpoints
from dlhmc.runs.config import SampleConfig, TrainConfig
from dlhmc.runs.directory import RunDirectory, manifest, open_run, write_json
from dlhmc.runs.history import History, Rows
from dlhmc.runs.precision import Precision
from dlhmc.storage.files import fingerprint, sealed
from dlhmc.theories.u1.action import U1
from dlhmc.theories.u1.reproduction.config import ReproduceConfig

MOST_SECONDS, MOST_MEGABYTES = 60, 400
#: values that no file should hold in the place of another
HOSTILE: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 10**9, 2**31, 2**63, -(2**63), 10**30, 10**400, 1e-300, 1e308, -0.0, 0.5,
    "", "dense", "u1", "nan", "[/]", "[bold", "../../../etc/passwd", "/etc/passwd", "\x00", "x" * 10_000, "\ud800",
    [], [0], [1e308], [10**12], [2, 10**9], ["a"], [[[]]], {}, {"a": 1}, {"value": None},
]  # fmt: skip


class Subject:
    """A kind of file: how it is made, mutated by a stranger, and loaded."""

    def __init__(
        self,
        name: str,
        file: Path,
        read: Callable[[], Any],
        stranger: Callable[[bytes, random.Random], bytes],
        *,
        guarded: bool,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self.name, self.file, self.read, self.stranger = name, file, read, stranger
        #: whether a checksum tells of accidents
        self.guarded = guarded
        #: makes checksums elsewhere fit what a stranger did
        self.after = after
        self.original = file.read_bytes()
        self.expected = read()


def main() -> int:
    """Fuzz as asked, print counts, and return 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=10_000, help="how many mutated files")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        counts = fuzz(Path(directory), arguments.inputs, arguments.seed)
    sys.stdout.write("".join(f"{count:>8} {name}\n" for name, count in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


def fuzz(directory: Path, inputs: int, seed: int = 1) -> collections.Counter[str]:
    """Mutate, load, judge; failures are printed with their seed."""
    made = subjects(directory)
    counts: collections.Counter[str] = collections.Counter(inputs=inputs, wrong=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with watched(directory) as events:
        for number in range(inputs):
            subject = made[number % len(made)]
            chance = random.Random(f"{seed}/{number}")  # noqa: S311
            accident = chance.random() < 0.5
            data = bytes_changed(subject.original, chance) if accident else subject.stranger(subject.original, chance)
            subject.file.write_bytes(data)
            if not accident:
                subject.after()
            trouble = judge(subject, counts, events, accident=accident and data != subject.original)
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            if grown > MOST_MEGABYTES:
                trouble = f"memory has grown by {grown:.0f} MB"
                before += int(1024 * grown)
            if trouble:
                counts["wrong"] += 1
                sys.stdout.write(f"{subject.name}, --seed {seed}, input {number}: {trouble}\n")
                sys.stdout.flush()
            subject.file.write_bytes(subject.original)
            subject.after()
    return counts


def judge(subject: Subject, counts: collections.Counter[str], events: list[str], *, accident: bool) -> str:
    """Load, and say what is wrong with how that went."""
    events.clear()
    trouble = ""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(MOST_SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = subject.read()
    except UserError as error:
        counts[f"{subject.name}: refused"] += 1
        if "\n" in str(error) or len(str(error)) > 12_000:
            trouble = f"not one sentence: {str(error)[:300]!r}"
    except (Exception, SystemExit, RecursionError):
        trouble = traceback.format_exc(limit=-4)
    else:
        counts[f"{subject.name}: read"] += 1
        if accident and subject.guarded and found != subject.expected:
            trouble = f"an accident went unnoticed: {str(found)[:200]}"
    finally:
        signal.alarm(0)
    if events:
        trouble += f" events: {events[:5]}"
    return trouble


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError(f"it took more than {MOST_SECONDS} s")


_watching: list[tuple[str, list[str]]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Note what no loader may do."""
    if not _watching:
        return
    directory, events = _watching[-1]
    if event == "open":
        path, mode, flags = arguments
        writing = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        home = isinstance(path, str | bytes) and os.path.realpath(os.fsdecode(path)).startswith(directory)
        if isinstance(path, str | bytes) and (not home or writing) and not os.fsdecode(path).endswith((".py", ".pyc")):
            events.append(f"open {path!r} {mode}")
    elif event in (
        "exec",
        "os.system",
        "subprocess.Popen",
        "pickle.find_class",
        "socket.connect",
        "os.remove",
        "os.rename",
    ):
        events.append(f"{event} {str(arguments)[:100]}")


sys.addaudithook(_audit)


@contextmanager
def watched(directory: Path) -> Iterator[list[str]]:
    """Events of the interpreter that must not come; loading writes nothing."""
    events: list[str] = []
    _Guard.events = events
    _Guard.directory = os.path.realpath(directory)
    yield events


class _Guard:
    """Switches the watch on while a loader runs, and off while this script prepares files."""

    events: ClassVar[list[str]] = []
    directory: ClassVar[str] = ""

    def __enter__(self) -> None:
        _watching.append((self.directory, self.events))

    def __exit__(self, *_: object) -> None:
        _watching.clear()


# Mutations.


def bytes_changed(data: bytes, chance: random.Random) -> bytes:
    """What disks, editors and networks do."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 5, 20])):
        kind = chance.randrange(7)
        at = chance.randrange(len(changed) + 1)
        to = min(len(changed), at + chance.choice([1, 2, 16, 500]))
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del changed[at:to]
        elif kind == 2:
            changed[at:at] = chance.randbytes(chance.choice([1, 8, 300]))
        elif kind == 3:
            changed[at:to] = bytes(to - at)
        elif kind == 4:
            changed[at:at] = changed[at:to] * chance.choice([1, 3])
        elif kind == 5 and chance.random() < 0.3:
            del changed[at:]
        elif kind == 6:
            changed[at:to] = chance.choice([b"9" * 5000, b"[" * 3000, b"nan", b"-1", b'"', b"\xff\xfe", b"1e999", b"{"])
    return bytes(changed)


def value_changed(value: Any, chance: random.Random) -> Any:
    """A table or list with something in it replaced, removed or added."""
    if isinstance(value, dict | list) and value and chance.random() < 0.9:
        copy = dict(value) if isinstance(value, dict) else list(value)
        key = chance.choice(list(copy)) if isinstance(copy, dict) else chance.randrange(len(copy))
        kind = chance.random()
        if kind < 0.1:
            del copy[key]
        elif kind < 0.15 and isinstance(copy, dict):
            copy[chance.choice(["a", "format", "\x00", "model", "__class__"])] = chance.choice(HOSTILE)
        else:
            copy[key] = value_changed(copy[key], chance)
        return copy
    return chance.choice(HOSTILE)


def json_of_stranger(data: bytes, chance: random.Random, run: Callable[[], str] = lambda: "") -> bytes:
    """Another table, sealed."""
    content = json.loads(data)
    content.pop("sha256", None)
    for _ in range(chance.choice([1, 1, 2, 4])):
        content = value_changed(content, chance)
        if not isinstance(content, dict):
            return json.dumps(content).encode()
    return json.dumps(sealed(content, run())).encode()


def toml_of_stranger(data: bytes, chance: random.Random) -> bytes:
    """Values of a configuration exchanged for others."""
    lines = data.decode().splitlines()
    values = ["0", "-1", "1", "9" * 400, "9" * 5000, "1e308", "inf", "nan", "true", '"x"', "[]", "[1, 2]", "[0.5, 0.5]",
              "1e-320", "[" * 2000, '"../../x"', "[[1]]", "{a = 1}", "1979-05-27", "0x7fffffffffffffff",
              '"dense"', '"exact"', "7.5", "64"]  # fmt: skip
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(lines))
        key = lines[at].partition("=")[0].strip() or "a"
        lines[at] = f"{key} = {chance.choice(values)}"
    return "\n".join(lines).encode(errors="surrogatepass")


def model_of_stranger(data: bytes, chance: random.Random) -> bytes:
    """A model file with other arrays or another description, its checksums made to fit."""
    arrays, description = archive_and_text(data, "description")
    raw: dict[str, bytes] = {}
    if chance.random() < 0.7:
        raw = arrays_changed(arrays, chance)
    else:
        part = chance.choice(["model", "target", None])
        if part is None:
            description = value_changed(description, chance)
        else:
            description[part] = value_changed(description[part], chance)
    if isinstance(description, dict) and "sha256" in description and chance.random() < 0.95:
        description["sha256"] = {name: digest(array) for name, array in arrays.items()}
    return archive_of_stranger(arrays, raw, "description", description, chance)


def checkpoint_of_stranger(data: bytes, chance: random.Random) -> bytes:
    """A checkpoint with other arrays or another record, its checksums made to fit."""
    arrays, record = archive_and_text(data, "record")
    raw: dict[str, bytes] = {}
    del record["sha256"]
    if chance.random() < 0.5:
        raw = arrays_changed(arrays, chance)
        record["digests"] = {name: digest(array) for name, array in arrays.items()}
        if chance.random() < 0.5:
            record["kinds"] = {name: f"{array.dtype}{list(array.shape)}" for name, array in arrays.items()}
    else:
        part = chance.choice(["notes", "notes", "notes", "kinds", "digests", None])
        if part is None:
            record = value_changed(record, chance)
        else:
            record[part] = value_changed(record[part], chance)
    return archive_of_stranger(arrays, raw, "record", sealed(record) if isinstance(record, dict) else record, chance)


def archive_and_text(data: bytes, text: str) -> tuple[dict[str, Any], Any]:
    """The arrays of an archive, and the table beside them."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return arrays, json.loads(arrays.pop(text).tobytes())


def arrays_changed(arrays: dict[str, Any], chance: random.Random) -> dict[str, bytes]:
    """Another array in the place of one of them; returned are those that NumPy would not write."""
    name = chance.choice(list(arrays))
    raw: dict[str, bytes] = {}
    array = arrays[name]
    kind = chance.randrange(7)
    if kind == 0:
        arrays[name] = array.astype(chance.choice([np.float64, np.int32, np.complex64, np.float16, np.bool_]))
    elif kind == 1:
        arrays[name] = array.reshape(-1)[: chance.randrange(array.size + 1)]
    elif kind == 2 and array.dtype.kind == "f" and array.size:
        first = np.arange(array.size).reshape(array.shape) == 0
        arrays[name] = np.where(first, chance.choice([np.nan, np.inf, 1e300]), array.astype(np.float64))
    elif kind == 3:
        del arrays[name]
    elif kind == 4:
        shape = chance.choice([(10**12,), (2**40, 2**40), (-1,), (0, 10**15), array.shape])
        descr = chance.choice(["<f4", "|O", "<f8", "<M8[s]", "[('a', '<f4')]", "<U1000000"])
        header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
        raw[name] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + array.tobytes()
    elif kind == 5:
        raw[chance.choice(["../../evil", "/tmp/evil", name])] = bytes(chance.choice([0, 10, 10**7]))  # noqa: S108
    elif kind == 6:
        arrays[name] = np.zeros(10**6, array.dtype)
    return raw


def archive_of_stranger(
    arrays: dict[str, Any], raw: dict[str, bytes], name: str, table: Any, chance: random.Random
) -> bytes:
    """Whatever is asked for, in an archive."""
    text = json.dumps(table).encode(errors="surrogatepass")
    buffer = io.BytesIO()
    method = chance.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA])
    with zipfile.ZipFile(buffer, "w", method) as archive_out:
        for key, value in (arrays | {name: np.frombuffer(text, np.uint8)}).items():
            if key not in raw:
                file = io.BytesIO()
                np.lib.format.write_array(file, value, allow_pickle=False)
                archive_out.writestr(f"{key}.npy", file.getvalue())
        for key, content in raw.items():
            archive_out.writestr(f"{key}.npy", content)
    return buffer.getvalue()


def chunk_of_stranger(data: bytes, chance: random.Random) -> bytes:
    """A chunk whose CRC fits, around other compressed bytes."""
    body = bytes_changed(data[:-4], chance)
    return body + google_crc32c.value(body).to_bytes(4, "little")


def metadata_of_stranger(data: bytes, chance: random.Random) -> bytes:
    """Metadata of the history that say something else."""
    content = json.loads(data)
    for _ in range(chance.choice([1, 1, 3])):
        content = value_changed(content, chance)
    return json.dumps(content).encode()


# Subjects.


def subjects(directory: Path) -> list[Subject]:
    """All kinds of files that commands load."""
    return [
        *configurations(directory / "configurations"),
        *model_files(directory / "models"),
        *histories(directory / "history"),
        *runs(directory / "run"),
        *trained(directory / "trained"),
        *comparisons(directory / "comparison"),
    ]


def guarded_read(read: Callable[[], Any]) -> Callable[[], Any]:
    """Watched by the interpreter's own audit."""

    def reading() -> Any:
        with _Guard():
            return read()

    return reading


def subject(name: str, file: Path, read: Callable[[], Any], stranger: Any, **more: Any) -> Subject:
    """With the watch on, after a first time that imports what it needs."""
    read()
    return Subject(name, file, guarded_read(read), stranger, **more)


def configurations(path: Path) -> Iterator[Subject]:
    """TOML by hand, without a checksum."""
    path.mkdir()
    kinds = (
        SampleConfig(),
        TrainConfig(radii=(0.0, 1.0)),
        CompareConfig(model=("a",)),
        ReproduceConfig(betas=(2.0,), budgets=(1.0,)),
    )
    for config in kinds:
        file = path / f"{type(config).__name__}.toml"
        configuration.save(config, file)
        read = functools.partial(configuration.load, type(config), file)
        yield subject("configuration", file, read, toml_of_stranger, guarded=False)


def model_files(path: Path) -> Iterator[Subject]:
    """Of all networks, and what it takes to use them."""
    path.mkdir()
    target = U1((4, 4), 2.0)
    numbers = np.random.default_rng(1)

    @functools.cache
    def like(config: ModelConfig) -> Any:
        return eqx.filter_eval_shape(models.build, config, target, jax.random.key(0))

    for network in ("dense", "defect", "patch"):
        config = ModelConfig(network, 2, (4,), radii=() if network == "dense" else (0.0, 1.0, 2.0), window=3)

        def drawn(leaf: Any) -> Any:
            values = numbers.normal(size=leaf.shape)
            return (values > 0) if leaf.dtype == bool else values.astype(leaf.dtype)

        trajectory = jax.tree.map(
            lambda leaf: drawn(leaf) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf, like(config)
        )
        file = path / f"{network}.npz"
        description = {"model": dataclasses.asdict(config), "target": {"name": "u1", "lattice": [4, 4], "beta": 2.0}}
        models.save(file, trajectory, description | {"symmetric": False, "training": {"steps": 1}})

        def read(file: Path = file) -> dict[str, str]:
            settings = targets.settings_of_model(str(file), architecture=True)
            built_from, _ = models.read_config(file)
            SampleConfig(
                model=str(file), **{key: settings[key] for key in ("target", "lattice", "beta") if key in settings}
            )
            TrainConfig(model=str(file), **settings)
            targets.require_target_of_model(file, "u1", (4, 4))
            loaded = models.load(file, like(built_from))
            arrays = by_name(eqx.filter(loaded, eqx.is_array))
            if not all(np.all(np.isfinite(array)) for array in arrays.values()):
                raise AssertionError("numbers that are not finite were let in")
            return {name: digest(np.asarray(array)) for name, array in arrays.items()} | {"settings": str(settings)}

        yield subject("model", file, read, model_of_stranger, guarded=True)


def histories(path: Path) -> Iterator[Subject]:
    """Chunks and metadata; a stranger can make the fingerprints of the checkpoint fit."""
    row = {
        "charge": np.zeros(4, np.float32),
        "energy_change": np.zeros(4, np.float32),
        "accepted": np.zeros(4, np.int8),
    }
    numbers = np.random.default_rng(1)
    field = np.zeros((2, 2, 2, 4), np.float32)
    history = History.create(path, 50, row, [25, 50], field, {"beta": 2.0})
    history.write(0, {name: (numbers.random((40, 4)) < 0.5).astype(values.dtype) for name, values in row.items()})
    history.write_configuration(0, field + 1)
    saved = history.digests()
    current = dict(saved)

    def read() -> list[float]:
        store = History.open(path, "r")
        store.verify((50, 4), 40, 1, current)
        return [Rows(store.array(name), 40).total() for name in row]

    def fit() -> None:
        current["zarr.json"] = history._fingerprint_of_metadata()

    for name in ("charge/c/0/0", "energy_change/c/0/0", "accepted/c/0/0", "kept/c/0"):
        yield subject("history, chunks", path / name, read, chunk_of_stranger, guarded=True)
    for name in ("zarr.json", "charge/zarr.json"):
        yield subject("history, metadata", path / name, read, metadata_of_stranger, guarded=True, after=fit)


def runs(path: Path) -> Iterator[Subject]:
    """Manifest, summary, metrics and checkpoints of a run."""
    path.mkdir()
    config = SampleConfig(lattice=(4, 4), beta=2.0, chains=4, trajectories=50)
    configuration.save(config, path / "config.toml")
    run = fingerprint(path / "config.toml")
    write_json(path / "manifest.json", manifest("sample", 1, ["cpu: cpu"]) | {"inputs": {"config.toml": run}})
    moment = {"mean": 0.5, "error": 0.1, "exact": 0.4, "z": 1.0}
    tau = {"value": 1.0, "error": 0.1, "window": 3, "frozen": False, "lower_bound": 0.5}
    summary = {"plaquette": moment, "charge_squared": moment, "sine_charge_squared": moment, "tau_int_charge": tau}
    summary |= {"tau_int_sine_charge": tau, "acceptance": 0.5, "microseconds_per_trajectory": 1.0, "chains": 4}
    write_json(path / "summary.json", summary | {"trajectories": 50, "leapfrog_steps": 20}, run)
    lines = metrics.MetricsFile(path / "metrics.jsonl")
    for step in (10, 20):
        lines.append({"step": step, "acceptance": 0.5})
    lines.close()
    notes = lines.seal()

    def sealed_by_stranger(data: bytes, chance: random.Random) -> bytes:
        return json_of_stranger(data, chance, lambda: run)

    def read_run() -> Any:
        return open_run("sample", SampleConfig, path)[1]

    yield subject("manifest", path / "manifest.json", read_run, json_of_stranger, guarded=True)
    yield subject("manifest", path / "config.toml", read_run, toml_of_stranger, guarded=True)
    yield subject("summary", path / "summary.json", lambda: sampling_table(path), sealed_by_stranger, guarded=True)
    read_metrics = functools.partial(metrics.read, path / "metrics.jsonl", notes)
    yield subject("metrics", path / "metrics.jsonl", read_metrics, bytes_changed, guarded=True)
    yield from checkpoints(path, config, notes)


def trained(path: Path) -> Iterator[Subject]:
    """The summary of a training run."""
    path.mkdir()
    configuration.save(TrainConfig(lattice=(4, 4), beta=2.0), path / "config.toml")
    run = fingerprint(path / "config.toml")
    figures = {"loss": -0.5, "acceptance": 0.5, "steps": 10, "seconds": 1.0, "model_sha256": "0"}
    write_json(
        path / "summary.json", figures | {"nonfinite_rejected": 0, "nonfinite_fraction": 0.0, "warnings": ["w"]}, run
    )
    screen = Console(file=io.StringIO(), width=200)

    def sealed_by_stranger(data: bytes, chance: random.Random) -> bytes:
        return json_of_stranger(data, chance, lambda: run)

    def read() -> Any:
        return training.show_results(path, screen)

    yield subject("summary", path / "summary.json", read, sealed_by_stranger, guarded=True)


def checkpoints(path: Path, config: SampleConfig, notes: dict[str, Any]) -> Iterator[Subject]:
    """Of a run that `dlhmc summary` reads the notes of, and `dlhmc resume` the arrays."""
    row = {"charge": np.zeros(config.chains, np.float32), "accepted": np.zeros(config.chains, np.int8)}
    history = History.create(path / "history.zarr", config.trajectories, row, [], np.zeros((2, 2, 2, 4)), {})
    history.write(0, {name: np.ones((10, *values.shape), values.dtype) for name, values in row.items()})
    precision = Precision(1, 1e-5, 1e-6, 1e-7)._asdict()
    notes = notes | {"seconds": 1.5, "precision": precision, "step_size": 0.1, "history": history.digests()}
    tree = {"x": np.arange(32, dtype=np.float32).reshape(2, 4, 4), "key": np.zeros(2, np.uint32), "on": np.array(True)}
    step = config.warmup + 10
    Checkpoints(path / "checkpoints", run=RunDirectory(path).identity()).save(step, tree, notes)

    def read() -> Any:
        directory, loaded = open_run("sample", SampleConfig, path)
        found = sampling.measured(directory, loaded)
        metrics.read(path / "metrics.jsonl", notes)
        opened = Checkpoints(path / "checkpoints", run=directory.identity(), create=False, read_only=True)
        check = functools.partial(sampling.require_history, loaded, found.history)
        restored = opened.restore(tree, check)
        metrics.read(path / "metrics.jsonl", restored[2])
        return found.rows, found.seconds, found.precision, str(restored)

    for _ in range(2):
        yield subject("checkpoint", path / f"checkpoints/{step}.npz", read, checkpoint_of_stranger, guarded=True)


def comparisons(path: Path) -> Iterator[Subject]:
    """Results and histories of a comparison."""
    (path / "histories").mkdir(parents=True)
    config = CompareConfig(lattice=(4, 4), beta=2.0, chains=4)
    configuration.save(config, path / "config.toml")
    run = fingerprint(path / "config.toml")
    streams = Streams(("charge", "sine_charge"), "charge", 4)
    streams.extend({name: np.arange(40.0).reshape(10, 4) for name in ("charge", "sine_charge")})
    file = path / "histories" / "a.npz"
    streams.save(file)
    moment = {"mean": 0.5, "error": 0.1, "exact": 0.4, "z": 1.0}
    tau = {"value": 1.0, "error": 0.1, "window": 3, "frozen": False, "lower_bound": 0.5}
    moments = dict.fromkeys(("plaquette", "charge_squared", "sine_charge_squared"), moment)
    cost = Quantity.measured(3.0, 0.1)
    entry = Entry(
        "leapfrog 1/10", "hmc", "measured", "leapfrog", 1.0, 0.1, None, 10, 11, 0, 10, 1.0, 0.8, 0, moments,
        {"charge": tau, "sine_charge": tau}, {"plaquette": tau}, cost, cost, cost, NOTHING, NOTHING,
        "histories/a.npz", fingerprint(file),
    )  # fmt: skip
    exact = dict.fromkeys(moments, 0.4)
    target = {"lattice": [4, 4], "beta": 2.0}
    results = Results(target, 4, 0.1, 1.0, True, False, exact, entry.name, entry.name, (entry,))
    write_json(path / "results.json", to_json(results), run)
    screen = Console(file=io.StringIO(), width=200)

    def read() -> Any:
        comparison = Comparison.open(path)
        table.show(comparison.results, screen)
        table.markdown(comparison.results)
        table.comma_separated(comparison.results)
        charges = [comparison.history(entry, "charge") for entry in comparison.results.entries]
        return to_json(comparison.results), [charge.tolist() for charge in charges]

    def sealed_by_stranger(data: bytes, chance: random.Random) -> bytes:
        return json_of_stranger(data, chance, lambda: run)

    yield subject("results", path / "results.json", read, sealed_by_stranger, guarded=True)

    # A stranger would change the fingerprint in the results, too.
    def read_streams() -> Any:
        other = Comparison(path, dataclasses.replace(results, entries=(entry,)))
        return other.history(current[0], "charge").tolist()

    current = [entry]

    def fit() -> None:
        current[0] = dataclasses.replace(entry, history_sha256=fingerprint(file))

    yield subject("streams", file, read_streams, streams_of_stranger, guarded=True, after=fit)


def streams_of_stranger(data: bytes, chance: random.Random) -> bytes:
    """An archive of a comparison with other arrays."""
    if chance.random() < 0.5:
        return bytes_changed(data, chance)
    buffer = io.BytesIO()
    shape = chance.choice([(10, 4), (10, 5), (0,), (40,), ()])
    np.savez_compressed(buffer, charge=np.zeros(shape, chance.choice(["f4", "i2", "U3", "c8", "M8[s]"])))
    return buffer.getvalue()


if __name__ == "__main__":
    sys.exit(main())

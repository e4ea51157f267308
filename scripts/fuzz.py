"""Hand mutated files to everything that loads one: each is read, or refused with one sentence.

    python scripts/fuzz.py --inputs 10000

Mutations are of two kinds. Accidents change bytes of a file; where a checksum guards it, what is read afterwards must
be what was saved. Strangers change its meaning and make every checksum fit, in this file and in others; then whatever
is read must at least be sane. No input may raise anything but UserError, run code, open a file elsewhere, write one, or
take much memory.
"""

import argparse
import collections
import dataclasses
import functools
import hashlib
import io
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import damage
import equinox as eqx
import google_crc32c
import jax
import numpy as np
from numcodecs.zstd import Zstd
from rich.console import Console

from dlhmc import io as gauge
from dlhmc.comparison import table
from dlhmc.comparison.results import Entry, Quantity, Results, to_json
from dlhmc.comparison.streams import Streams
from dlhmc.errors import UserError
from dlhmc.files import fingerprint, sealed, write_arrays
from dlhmc.io import ildg, lime, nersc
from dlhmc.models.model import Model, describe, save
from dlhmc.numerics.leaves import by_name, digest
from dlhmc.plans.comparing import ComparePlan
from dlhmc.plans.sampling import SamplePlan
from dlhmc.plans.training import TrainPlan
from dlhmc.report.command import build_page
from dlhmc.report.compared import ComparedRun
from dlhmc.report.curves import read_curves
from dlhmc.run.checkpoint import Checkpoints
from dlhmc.run.directory import RunDirectory, manifest, write_json
from dlhmc.run.history import History, _plain
from dlhmc.run.metrics import MetricsFile
from dlhmc.run.sampling import require_history
from dlhmc.settings import read_table, to_toml
from dlhmc.studies.study import StudyPlan
from dlhmc.theories import registry
from dlhmc.theories.u1.theory import U1Settings

MOST_SECONDS, MOST_MEGABYTES = 60, 400
#: values that no file should hold in the place of another
HOSTILE: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 10**9, 2**31, 2**63, -(2**63), 10**30, 10**400, 1e-300, 1e308, -0.0, 0.5,
    "", "dense", "u1", "nan", "[/]", "[bold", "../../../etc/passwd", "/etc/passwd", "\x00", "x" * 10_000, "\ud800",
    [], [0], [1e308], [10**12], [2, 10**9], ["a"], [[[]]], {}, {"a": 1}, {"value": None},
]  # fmt: skip


Read = Callable[[], Any]
Mutation = Callable[[bytes, random.Random], bytes]


@dataclasses.dataclass
class Subject:
    """A kind of file: where it is, all that loads it, by name, and how a stranger would change it."""

    name: str
    file: Path
    reads: Mapping[str, Read]
    stranger: Mutation
    #: of the run that it is part of: there, other files vouch for it
    run: Path | None = None
    #: whether a checksum tells of accidents
    guarded: bool = True

    def __post_init__(self) -> None:
        files = [self.file] if self.run is None else [file for file in self.run.rglob("*") if file.is_file()]
        self._originals = {file: file.read_bytes() for file in files}
        # The first time imports what reading needs, too.
        self.expected = {name: read() for name, read in self.reads.items()}

    def mutate(self, chance: random.Random, *, accident: bool) -> bool:
        """Change the file; false if it is the same afterwards."""
        data = (bytes_changed if accident else self.stranger)(self._originals[self.file], chance)
        self.file.write_bytes(data)
        if self.run is not None and not accident:
            vouch(self.run, self.file)
        return data != self._originals[self.file]

    def restore(self) -> None:
        """All files as they were."""
        for file, data in self._originals.items():
            if file.read_bytes() != data:
                file.write_bytes(data)


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
    for number in range(inputs):
        subject = made[number % len(made)]
        chance = random.Random(f"{seed}/{number}")  # noqa: S311
        accident = chance.random() < 0.5
        changed = subject.mutate(chance, accident=accident)
        troubles = judge(subject, directory, counts, accident=accident and changed)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        if grown > MOST_MEGABYTES:
            troubles.append(f"memory has grown by {grown:.0f} MB")
            before += int(1024 * grown)
        if troubles:
            counts["wrong"] += 1
            sys.stdout.write(f"{subject.name}, --seed {seed}, input {number}: {'; '.join(troubles)}\n")
            sys.stdout.flush()
        subject.restore()
    return counts


def judge(subject: Subject, directory: Path, counts: collections.Counter[str], *, accident: bool) -> list[str]:
    """Load by all means, and say what is wrong with how that went."""
    troubles = []
    signal.signal(signal.SIGALRM, _too_long)
    for name, read in subject.reads.items():
        trouble = ""
        signal.alarm(MOST_SECONDS)
        try:
            with warnings.catch_warnings(), watched(directory) as events:
                warnings.simplefilter("ignore")
                found = read()
        except UserError as error:
            counts[f"{subject.name}: refused"] += 1
            if "\n" in str(error) or len(str(error)) > 12_000:
                trouble = f"not one sentence: {str(error)[:300]!r}"
        except (Exception, SystemExit, RecursionError):
            trouble = traceback.format_exc(limit=-4)
        else:
            counts[f"{subject.name}: read"] += 1
            if accident and subject.guarded and found != subject.expected[name]:
                trouble = f"an accident went unnoticed: {str(found)[:200]}"
        finally:
            signal.alarm(0)
        if events:
            trouble += f" events: {events[:5]}"
        if trouble:
            troubles.append(f"{name}: {trouble}")
    return troubles


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError(f"it took more than {MOST_SECONDS} s")


_watching: list[tuple[str, list[str]]] = []


@contextmanager
def watched(directory: Path) -> Iterator[list[str]]:
    """Events of the interpreter that must not come while a loader runs, which writes nothing."""
    events: list[str] = []
    _watching.append((os.path.realpath(directory), events))
    try:
        yield events
    finally:
        _watching.clear()


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Note what no loader may do."""
    if not _watching:
        return
    directory, events = _watching[0]
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


def json_of_stranger(run: str = "") -> Mutation:
    """Another table, sealed for the run."""

    def mutate(data: bytes, chance: random.Random) -> bytes:
        content = json.loads(data)
        content.pop("sha256", None)
        for _ in range(chance.choice([1, 1, 2, 4])):
            content = value_changed(content, chance)
        return json.dumps(sealed(content, run) if isinstance(content, dict) else content).encode()

    return mutate


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


def archive_of_stranger(text: str | None = None, parts: Sequence[str | None] = ()) -> Mutation:
    """An archive with other arrays, or another table in one of these parts or anywhere; its checksums made to fit."""

    def mutate(data: bytes, chance: random.Random) -> bytes:
        arrays, about = archive(data, text)
        raw: dict[str, bytes] = {}
        if text is None or chance.random() < 0.5:
            raw = arrays_changed(arrays, chance)
            about |= fitting(about, arrays, chance)
        else:
            part = chance.choice(parts)
            about = value_changed(about, chance) if part is None else about | {part: value_changed(about[part], chance)}
        if text == "record" and isinstance(about, dict):
            about = sealed({key: value for key, value in about.items() if key != "sha256"})
        content = np.frombuffer(json.dumps(about).encode(errors="surrogatepass"), np.uint8)
        return archived(arrays if text is None else arrays | {text: content}, raw, chance)

    return mutate


def archive(data: bytes, text: str | None) -> tuple[dict[str, Any], Any]:
    """The arrays of an archive, and the table beside them."""
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    return arrays, {} if text is None else json.loads(arrays.pop(text).tobytes())


def fitting(about: Mapping[str, Any], arrays: Mapping[str, Any], chance: random.Random) -> dict[str, Any]:
    """What a model or a checkpoint says of its arrays."""
    digests = {name: digest(array) for name, array in arrays.items()}
    kinds = {name: f"{array.dtype}{list(array.shape)}" for name, array in arrays.items()}
    if "kinds" not in about:
        return {"sha256": digests}
    return {"digests": digests} | ({"kinds": kinds} if chance.random() < 0.5 else {})


def archived(arrays: Mapping[str, Any], raw: Mapping[str, bytes], chance: random.Random) -> bytes:
    """Whatever is asked for, in an archive."""
    buffer = io.BytesIO()
    method = chance.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA])
    with zipfile.ZipFile(buffer, "w", method) as out:
        for name, array in arrays.items():
            file = io.BytesIO()
            np.lib.format.write_array(file, array, allow_pickle=False)
            out.writestr(f"{name}.npy", raw.get(name, file.getvalue()))
        for name in raw.keys() - arrays.keys():
            out.writestr(f"{name}.npy", raw[name])
    return buffer.getvalue()


def arrays_changed(arrays: dict[str, Any], chance: random.Random) -> dict[str, bytes]:
    """Another array in the place of one of them; returned are those that NumPy would not write."""
    name = chance.choice(list(arrays))
    array = arrays[name]
    kind = chance.randrange(7)
    if kind == 0:
        arrays[name] = array.astype(chance.choice([np.float64, np.int32, np.complex64, np.float16, np.bool_, "U3"]))
    elif kind == 1:
        arrays[name] = array.reshape(-1)[: chance.randrange(array.size + 1)]
    elif kind == 2:
        first = np.arange(array.size).reshape(array.shape) == 0
        arrays[name] = np.where(first, chance.choice([np.nan, np.inf, 1e300, 1e9]), array.astype(np.float64))
    elif kind == 3:
        del arrays[name]
    elif kind == 4:
        shape = chance.choice([(10**12,), (2**40, 2**40), (-1,), (0, 10**15), array.shape])
        descr = chance.choice(["<f4", "|O", "<f8", "<M8[s]", "[('a', '<f4')]", "<U1000000"])
        header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
        return {name: b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + array.tobytes()}
    elif kind == 5:
        other = chance.choice(["../../evil", "/tmp/evil", name])  # noqa: S108
        return {other: bytes(chance.choice([0, 10, 10**7]))}
    else:
        arrays[name] = np.zeros(10**6, array.dtype)
    return {}


def chunk_of_stranger(data: bytes, chance: random.Random) -> bytes:
    """A chunk whose CRC fits, around other numbers or other compressed bytes."""
    body = bytearray(data[:-4])
    if chance.random() < 0.5:
        body = bytearray(bytes_changed(body, chance))
    else:
        numbers = np.frombuffer(Zstd().decode(bytes(body)), np.uint8).copy()
        at = 4 * chance.randrange(len(numbers) // 4)
        value = chance.choice([np.nan, np.inf, -np.inf, 3e38, -1e30, 1e-40, 0])
        numbers[at : at + 4] = np.frombuffer(np.float32(value).tobytes(), np.uint8)
        body = bytearray(Zstd().encode(numbers))
    return bytes(body) + google_crc32c.value(bytes(body)).to_bytes(4, "little")


def metadata_of_stranger(data: bytes, chance: random.Random) -> bytes:
    """Metadata of the history that say something else."""
    content = json.loads(data)
    # Some attributes are tables, as texts.
    tables = [name for name in ("quantities", "diagnostics") if name in content["attributes"]]
    for name in tables if chance.random() < 0.5 else ():
        inner = value_changed(json.loads(content["attributes"][name]), chance)
        content["attributes"][name] = json.dumps(inner)
    for _ in range(chance.choice([0, 1, 3])):
        content = value_changed(content, chance)
    return json.dumps(content).encode()


def words_changed(text: bytes, chance: random.Random) -> bytes:
    """Of a header or XML: one of its words replaced."""
    words = re.split(rb"([\s<>=]+)", text)
    words[2 * chance.randrange((len(words) + 1) // 2)] = chance.choice(
        [b"", b"0", b"-1", b"2", b"4", b"9" * 9, b"9" * 5000, b"nan", b"1e999", b"su9gauge", b"IEEE32", b"4D_SU3_GAUGE",
         b"&a;", b"<!DOCTYPE a>", b"\0", b"\xff", "٤".encode(), b"x" * 100_000]
    )  # fmt: skip
    return b"".join(words)


def numbers_changed(payload: bytes, chance: random.Random, dtype: str = ">f8") -> bytes:
    """Links with another number among them, or other links."""
    numbers = np.frombuffer(payload, dtype).copy()
    kind = chance.randrange(3)
    if kind == 0:
        numbers[chance.randrange(len(numbers))] = chance.choice([np.nan, np.inf, -1e308, 1e200, 1e-320, 1.0, 1e-6])
    elif kind == 1:
        numbers = np.roll(numbers, chance.choice([1, 2, 18, 72]))
    else:
        numbers *= chance.choice([-1, 0, 1 + 1e-6, 2])
    return numbers.tobytes()


def nersc_of_stranger(data: bytes, chance: random.Random) -> bytes:
    """An archive whose checksum fits other links, or with another header."""
    header, end, payload = data.partition(b"\nEND_HEADER\n")
    if chance.random() < 0.5:
        payload = numbers_changed(payload, chance)
        checksum = f"CHECKSUM = {nersc._checksum(payload, '>')}".encode()
        header = re.sub(rb"(PLAQUETTE|LINK_TRACE) = .*", b"", re.sub(rb"CHECKSUM = .*", checksum, header))
    else:
        header = words_changed(header, chance)
    return header + end + payload


def ildg_of_stranger(data: bytes, chance: random.Random) -> bytes:
    """The same in records of LIME, some of which may be missing or there twice."""
    records = {record.type: bytes(record.data) for record in lime.decode(data)}
    if chance.random() < 0.5:
        payload = records["ildg-binary-data"] = numbers_changed(records["ildg-binary-data"], chance)
        checksums = ildg._checksums(payload, len(payload) // (4 * 9 * 16))
        records["scidac-checksum"] = "<a><suma>{:x}</suma><sumb>{:x}</sumb></a>".format(*checksums).encode()
        del records["scidac-record-xml"]
    else:
        kind = chance.choice([name for name in records if name != "ildg-binary-data"])
        records[kind] = words_changed(records[kind], chance)
    made = [lime.Record(*record) for record in records.items()]
    made = made * 2 if chance.random() < 0.05 else made
    return lime.encode([chance.sample(made, len(made) - (chance.random() < 0.1))])


def openqcd_of_stranger(data: bytes, chance: random.Random) -> bytes:
    """Other sides, another plaquette or other links."""
    at = chance.choice([0, 4, 8, 12, 16, 24])
    if at == 24:
        return data[:24] + numbers_changed(data[24:], chance, "<f8")
    size = 8 if at == 16 else 4
    value = chance.choice([0, 1, 2, 3, 4, 8, 4096, 2**30, 2 ** (8 * size - 1), 2 ** (8 * size) - 1])
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def vouch(run: Path, changed: Path) -> None:
    """Make all checksums of a run fit a file that a stranger has changed, in the other files."""
    identity = fingerprint(run / "config.toml")

    def reseal(name: str, change: Callable[[dict[str, Any]], Any], seal: str = "") -> None:
        if (file := run / name) != changed and file.exists():
            content = json.loads(file.read_bytes())
            content.pop("sha256")
            change(content)
            file.write_bytes(json.dumps(sealed(content, seal)).encode())

    def entries(content: dict[str, Any]) -> None:
        for entry in content["entries"]:
            entry["history_sha256"] = fingerprint(run / entry["history"])

    reseal("manifest.json", lambda content: content["inputs"].update({"config.toml": identity}))
    reseal("summary.json", lambda _: None, identity)
    reseal("results.json", entries, identity)
    for file in (run / "checkpoints").glob("*.npz"):
        if file != changed:
            arrays, record = archive(file.read_bytes(), "record")
            del record["sha256"]
            record["run"] = identity
            if changed.name == "metrics.jsonl":
                data = changed.read_bytes()
                record["notes"]["metrics"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            record["notes"]["history"] = digests_of(run / "history.zarr", record["notes"].get("history"), changed)
            write_arrays(file, arrays, {"record": sealed(record)}, compressed=False)


def digests_of(path: Path, saved: dict[str, str] | None, changed: Path) -> dict[str, str] | None:
    """What the checkpoint of a finished run vouches for in its history."""
    if saved is None or not changed.is_relative_to(path):
        return saved
    if changed.name == "zarr.json":
        return saved | {"zarr.json": History(None, path)._fingerprint_of_metadata()}  # type: ignore[arg-type]
    name = changed.relative_to(path).parts[0]
    try:
        rows = np.asarray(History.open(path, "r").array(name)[:])
    except Exception:  # a chunk that nobody can read
        return saved
    return saved | {name: hashlib.sha256(_plain(rows)).hexdigest()}


# Subjects.


def of_model(data: bytes, chance: random.Random) -> bytes:
    """A model with another header, or another specification in it."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    if chance.random() < 0.3:
        header = value_changed(header, chance)
    else:
        about, part = json.loads(header["__metadata__"]["dlhmc"]), chance.choice(["network", "target", None])
        about = value_changed(about, chance) if part is None else about | {part: value_changed(about[part], chance)}
        header["__metadata__"]["dlhmc"] = json.dumps(about)
    text = json.dumps(header).encode(errors="surrogatepass")
    return len(text).to_bytes(8, "little") + text + data[end:]


of_checkpoint = archive_of_stranger("record", ["notes", "notes", "notes", "kinds", "digests", None])


def subjects(directory: Path) -> list[Subject]:
    """All kinds of files that commands load."""
    made: list[Subject] = []
    for make in (configurations, model_files, gauge_files, sampled, trained, compared):
        made += make(directory / make.__name__)
    return made


def configurations(path: Path) -> Iterator[Subject]:
    """TOML by hand, without a checksum."""
    path.mkdir()
    kinds: dict[Any, dict[str, Any]] = {
        SamplePlan: {},
        TrainPlan: {"hidden": (4, 4)},
        ComparePlan: {"model": ("a",)},
        StudyPlan: {"betas": (2.0,), "budgets": (1.0,)},
    }
    for kind, given in kinds.items():
        file = path / f"{kind.__name__}.toml"
        file.write_text(to_toml(kind.from_table(given).table()), encoding="utf-8")
        read = lambda kind=kind, file=file: kind.from_table(read_table(file), str(file))  # noqa: E731
        yield Subject("configuration", file, {"a plan": read}, toml_of_stranger, guarded=False)
    file = path / "curves.toml"
    curve = {"name": "a", "against": "beta", "x": [2.0, 3.0], "y": [1.0, 2.0], "target": {"lattice": [4, 4]}}
    file.write_text(to_toml({"curve": [curve, curve | {"dashed": True}]}), encoding="utf-8")
    yield Subject("configuration", file, {"curves": lambda: read_curves(file)}, toml_of_stranger, guarded=False)


TARGET = U1Settings((4, 4), 2.0)
NETWORKS: dict[str, dict[str, Any]] = {
    "dense": {"hidden": (4,)},
    "local": {"hidden": (4,)},
}


def model_file(file: Path, network: str) -> None:
    """Of small layers with random parameters."""
    target, numbers = TARGET.build(), np.random.default_rng(1)
    architecture = registry.architecture(network)(leapfrog_steps=2, **NETWORKS[network]).completed(target)

    def drawn(leaf: Any) -> Any:
        values = numbers.normal(size=leaf.shape)
        return (values > 0) if leaf.dtype == bool else values.astype(leaf.dtype)

    like = eqx.filter_eval_shape(lambda: architecture.build(target, jax.random.key(0)))
    trajectory = jax.tree.map(lambda leaf: drawn(leaf) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf, like)
    described = describe(architecture, {"name": "u1"} | dataclasses.asdict(TARGET))
    save(file, trajectory, described | {"training": {"steps": 1}})


def parameters(model: Model) -> dict[str, str]:
    """What a model has learned, which must be finite."""
    arrays = by_name(eqx.filter(model.trajectory(TARGET.build()), eqx.is_array))
    if not all(np.all(np.isfinite(array)) for array in arrays.values()):
        raise AssertionError("numbers that are not finite were let in")
    return {name: digest(np.asarray(array)) for name, array in arrays.items()}


def model_files(path: Path) -> Iterator[Subject]:
    """Of all networks, and what it takes to use them."""
    path.mkdir()
    for network in NETWORKS:
        file = path / f"{network}.safetensors"
        model_file(file, network)
        name, wanted = str(file), Model.open(str(file)).architecture

        def sample(name: str = name) -> Any:
            return SamplePlan.from_table(SamplePlan.settings_of(Model.open(name)) | {"model": name})

        def train(name: str = name) -> Any:
            return TrainPlan.from_table(TrainPlan.settings_of(Model.open(name)) | {"model": name})

        def use(name: str = name, wanted: Any = wanted) -> Any:
            model = Model.open(name)
            model.require_target("u1", TARGET)
            model.require_architecture(wanted)
            return parameters(model)

        reads = {"sample --model": sample, "train --from": train, "use of a model": use}
        yield Subject("model", file, reads, of_model)


def gauge_files(path: Path) -> Iterator[Subject]:
    """Links as other programs write them; openQCD's have no checksum."""
    path.mkdir()
    numbers = np.random.default_rng(1)
    noise = numbers.normal(size=(2, 4, 2, 4, 2, 4, 3, 3))
    links, _ = np.linalg.qr(noise[0] + 1j * noise[1])
    links[..., 0] /= np.linalg.det(links)[..., None]
    strangers = {"nersc": nersc_of_stranger, "ildg": ildg_of_stranger, "openqcd": openqcd_of_stranger}
    for name in gauge.FORMATS:
        file = path / name
        gauge.write(file, gauge.Configuration(links), name)

        def digest_of_links(file: Path = file) -> str:
            found = gauge.read(file).links
            if not np.allclose(found @ found.conj().swapaxes(-1, -2), np.eye(found.shape[-1]), atol=1e-4):
                raise AssertionError("links that are not unitary were let in")
            return digest(found)

        yield Subject("links", file, {"links": digest_of_links}, strangers[name], guarded=name != "openqcd")


def reads_of(kind: str, path: Path) -> dict[str, Read]:
    """All that commands make of a run, but for going on with it."""
    commands = damage.COMMANDS[kind].items()
    return {name: lambda command=command: command(path) for name, command in commands if "resume" not in name}


def sampled(path: Path) -> Iterator[Subject]:
    """Every file of a sampling run."""
    kept = {"keep_configurations": 2}
    work, _ = SamplePlan.from_table(damage.SAMPLE | kept).run(path, Console(quiet=True), show_results=False)
    *older, newest = sorted((path / "checkpoints").iterdir(), key=lambda file: int(file.stem))
    for file in older:  # else it would stand in for a newer one
        file.unlink()

    def go_on() -> Any:
        plan = SamplePlan.reopened(path)
        history = History.open(path / "history.zarr", "r")
        found = Checkpoints(path / "checkpoints", run=RunDirectory(path).identity(), create=False, read_only=True)
        step, carry, _ = found.restore(work.carry, functools.partial(require_history, plan.amounts, history))
        return step, [digest(np.asarray(leaf)) for leaf in jax.tree.leaves(carry)]

    reads = reads_of("sample", path) | {"resume": go_on, "page": lambda: len(build_page([path]).sections)}
    yield from files_of_run(path, reads)
    yield Subject("checkpoint", newest, reads, of_checkpoint, path)
    for name in ("charge/c/0/0", "energy_change/c/0/0", "accepted/c/0/0", "configurations/c/1/0/0/0/0", "kept/c/0"):
        yield Subject("history, chunks", path / "history.zarr" / name, reads, chunk_of_stranger, path)
    for name in ("zarr.json", "zarr.json", "charge/zarr.json"):
        yield Subject("history, metadata", path / "history.zarr" / name, reads, metadata_of_stranger, path)


def files_of_run(path: Path, reads: Mapping[str, Read]) -> Iterator[Subject]:
    """Those that runs of all kinds have."""
    identity = fingerprint(path / "config.toml")
    yield Subject("manifest", path / "manifest.json", reads, json_of_stranger(), path)
    yield Subject("settings", path / "config.toml", reads, toml_of_stranger, path)
    for name in ("summary", "results"):
        if (file := path / f"{name}.json").exists():
            yield Subject(name, file, reads, json_of_stranger(identity), path)
    if (file := path / "metrics.jsonl").exists():
        yield Subject("metrics", file, reads, bytes_changed, path)


def begun(kind: str, settings: Mapping[str, Any], path: Path) -> str:
    """A run directory of which the rest is to be made; what tells it from others."""
    path.mkdir()
    (path / "config.toml").write_text(to_toml(settings), encoding="utf-8")
    identity = fingerprint(path / "config.toml")
    write_json(path / "manifest.json", manifest(kind, 1, ["cpu: cpu"]) | {"inputs": {"config.toml": identity}})
    return identity


def trained(path: Path) -> Iterator[Subject]:
    """Every file of a training run."""
    identity = begun("train", TrainPlan.from_table(damage.TRAIN).table(), path)
    model_file(path / "model.safetensors", "local")
    figures = {"loss": -0.5, "acceptance": 0.5, "steps": 20, "seconds": 1.0, "nonfinite_rejected": 0}
    figures |= {"nonfinite_fraction": 0.0, "warnings": ["w"]}
    write_json(path / "summary.json", figures, identity)
    lines = MetricsFile(path / "metrics.jsonl")
    for step in (10, 20):
        lines.append({"step": step, "acceptance": 0.5, "loss": -0.5, "gamma": 1.0, "rate_factor": 1.0})
    lines.close()
    notes = lines.seal() | {"seconds": 1.5, "nonfinite": 0, "recent": {"loss": [-0.5, None]}}
    Checkpoints(path / "checkpoints", run=identity).save(20, {"x": np.zeros(4, np.float32)}, notes)
    screen = Console(file=io.StringIO(), width=200)
    reads = reads_of("train", path) | {"summary": lambda: damage.show_run(path, screen)}
    yield from files_of_run(path, reads)
    yield Subject("checkpoint", path / "checkpoints" / "20.npz", reads, of_checkpoint, path)
    yield Subject("model", path / "model.safetensors", reads, of_model, path)


def compared(path: Path) -> Iterator[Subject]:
    """Every file of a comparison."""
    identity = begun("compare", ComparePlan.from_table(damage.COMPARE | {"chains": 4}).table(), path)
    (path / "histories").mkdir()
    names = ("charge", "sine_charge")
    streams = Streams(names, "charge", 4)
    streams.extend(dict.fromkeys(names, np.arange(40.0).reshape(10, 4)))
    streams.save(path / "histories" / "a.npz")
    moment: Any = {"mean": 0.5, "error": 0.1, "exact": 0.4, "z": 1.0, "rhat": 1.0, "ess_bulk": 40.0}
    tau: Any = {"value": 1.0, "error": 0.1, "window": 3, "frozen": False, "lower_bound": 0.5}
    moments = dict.fromkeys(("plaquette", "charge_squared", "sine_charge_squared"), moment)
    cost = Quantity.measured(3.0, 0.1)
    entry = Entry(
        "leapfrog 1/10", "hmc", "measured", "leapfrog", 1.0, 0.1, None, 10, 11, 0, 10, 1.0, 0.8, 0, moments,
        dict.fromkeys(names, tau), {"plaquette": tau}, cost, cost, cost,
        history="histories/a.npz", history_sha256=fingerprint(path / "histories" / "a.npz"),
    )  # fmt: skip
    target = {"target": "u1", "lattice": [4, 4], "beta": 2.0}
    exact, best = dict.fromkeys(moments, 0.4), entry.name
    results = Results(target, 4, 0.1, 1.0, True, False, exact, best, best, ("a warning",), (entry,))
    write_json(path / "results.json", to_json(results), identity)

    def texts() -> Any:
        found = ComparedRun.open(path).results
        return table.markdown(found), table.comma_separated(found)

    reads = reads_of("compare", path) | {"tables": texts, "page": lambda: len(build_page([path]).sections)}
    yield from files_of_run(path, reads)
    yield Subject("streams", path / "histories" / "a.npz", reads, archive_of_stranger(), path)


if __name__ == "__main__":
    sys.exit(main())

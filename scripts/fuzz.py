"""Damage files and hand them to everything that loads them: each is read, or refused with one sentence.

    python scripts/fuzz.py --inputs 10000

Files are cut off, emptied, deleted, filled with noise, and changed in a few bytes. What a checksum guards is read as it
was saved, or of an earlier checkpoint, which says so. No input may raise anything but UserError, start a process, write
a file, or take long.
"""

import argparse
import collections
import dataclasses
import io
import random
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import equinox as eqx
import jax
import numpy as np
from rich.console import Console

import dlhmc
from dlhmc import io as gauge
from dlhmc.errors import UserError
from dlhmc.report.training import training_pictures
from dlhmc.run import sampling, training

MOST_SECONDS = 60
Read = Callable[[Path], Any]
Damage = Callable[[bytes, random.Random], bytes | None]
#: events of the interpreter that no loader may cause
FORBIDDEN = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "socket.connect", "pickle.find_class")
TARGET = dlhmc.Gaussian([1.0, 2.0])


@dataclasses.dataclass(frozen=True)
class Subject:
    """A directory (or file), the files in it that are damaged, and all that loads it, by name."""

    name: str
    path: Path
    files: list[Path]
    reads: Mapping[str, Read]
    #: whether what is read of a damaged file is what was saved
    guarded: Callable[[Path], bool]


def main() -> int:
    """Fuzz as asked, print counts, and return 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=10_000, help="how many damaged files")
    parser.add_argument("--seed", type=int, default=1, help="of the damages")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        counts = fuzz(subjects(Path(directory)), arguments.inputs, arguments.seed)
    sys.stdout.write("".join(f"{count:>8} {name}\n" for name, count in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


def fuzz(made: list[Subject], inputs: int, seed: int = 1) -> collections.Counter[str]:
    """Damage, load, judge; failures are printed with their seed."""
    counts: collections.Counter[str] = collections.Counter(inputs=inputs, wrong=0)
    expected = {(subject.name, name): read(subject.path) for subject in made for name, read in subject.reads.items()}
    for number in range(inputs):
        chance = random.Random(f"{seed}/{number}")  # noqa: S311
        subject = made[number % len(made)]
        file, kind = chance.choice(subject.files), chance.choice(list(DAMAGES))
        original = file.read_bytes()
        damaged = DAMAGES[kind](original, chance)
        try:
            file.unlink() if damaged is None else file.write_bytes(damaged)
            for name, read in subject.reads.items():
                wanted = expected[subject.name, name] if subject.guarded(file) else None
                if trouble := judge(read, subject.path, wanted, counts, subject.name):
                    counts["wrong"] += 1
                    sys.stdout.write(
                        f"{subject.name}, {name}, {file.name} {kind}, --seed {seed}, {number}: {trouble}\n"
                    )
                    sys.stdout.flush()
        finally:
            file.write_bytes(original)
    return counts


def judge(read: Read, path: Path, wanted: Any, counts: collections.Counter[str], what: str) -> str:
    """Load, and say what is wrong with how that went."""
    events.clear()
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(MOST_SECONDS)
    trouble = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = read(path)
    except UserError as error:
        counts[f"{what}: refused"] += 1
        if "\n" in str(error) or len(str(error)) > 12_000:
            trouble = f"not one sentence: {str(error)[:300]!r}"
    except (Exception, SystemExit, RecursionError):
        trouble = traceback.format_exc(limit=-4)
    else:
        counts[f"{what}: read"] += 1
        if wanted is not None and found != wanted and "earlier checkpoint" not in str(found):
            trouble = f"it went unnoticed: {str(found)[:200]}"
    finally:
        signal.alarm(0)
    if {file: file.stat().st_mtime_ns for file in path.rglob("*")} != before:
        trouble += " a file was written"
    return trouble + (f" events: {events[:5]}" if events else "")


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError(f"it took more than {MOST_SECONDS} s")


events: list[str] = []
sys.addaudithook(lambda event, _: events.append(event) if event.startswith(FORBIDDEN) else None)


def change_bytes(data: bytes, chance: random.Random) -> bytes:
    """A few bytes are others."""
    changed = bytearray(data or b"\0")
    for _ in range(chance.choice([1, 1, 1, 3, 30])):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


DAMAGES: dict[str, Damage] = {
    "changed": change_bytes,
    "cut off": lambda data, chance: data[: chance.randrange(len(data) + 1)],
    "emptied": lambda data, chance: b"",
    "deleted": lambda data, chance: None,
    "replaced by noise": lambda data, chance: chance.randbytes(len(data)),
}


# What there is to load.


def digest(tree: Any) -> list[bytes]:
    """All numbers of a tree."""
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array_like))]


def subjects(directory: Path) -> list[Subject]:
    """Runs of all kinds, models, and links as other programs write them."""
    screen = Console(file=io.StringIO(), width=1000)
    kernel = dlhmc.HMC(TARGET, 0.5, 1)
    sampled, trained, links = (directory / name for name in ("sampled", "trained", "links"))
    quantity = {"chains": 4, "warmup": 10, "keep_configurations": 2, "progress": False}
    dlhmc.sample(kernel, trajectories=20, **quantity, out=sampled)
    layers = dlhmc.build_trajectory(TARGET, "dense", layers=1, hidden=(2,))
    dlhmc.train(TARGET, layers, steps=10, chains=4, progress=False, out=trained)

    def summary(path: Path) -> Any:
        found = sampling.show_results(path, screen)
        return {name: value for name, value in found.items() if "second" not in name}

    def loaded(path: Path) -> Any:
        return digest({str(name): array.values for name, array in dlhmc.load(path).data.variables.items()})

    def parameters(path: Path) -> Any:
        return digest(dlhmc.load_kernel(path, TARGET, like=layers).trajectory)

    def curves(path: Path) -> Any:
        (picture,) = training_pictures([path])
        return str(picture)[:10]

    def results(path: Path) -> Any:
        return training.show_results(path, screen)

    links.mkdir()
    write_links(links)
    return [
        Subject("sampling", sampled, files_of(sampled), {"summary": summary, "load": loaded}, in_history),
        Subject("training", trained, files_of(trained), {"model": parameters, "summary": results}, is_no_file),
        Subject("curves", trained, files_of(trained), {"curves": curves}, is_no_file),
        *(Subject("links", path, [path], {"links": read_links}, is_no_file) for path in files_of(links)),
    ]


def files_of(path: Path) -> list[Path]:
    """All files that hold something."""
    return sorted(file for file in path.rglob("*") if file.is_file() and file.name != ".lock")


def in_history(file: Path) -> bool:
    """Whether every chunk of it has a CRC."""
    return "c" in file.parts or file.parent.name == "checkpoints"


def is_no_file(_: Path) -> bool:
    """Nothing tells."""
    return False


def write_links(folder: Path) -> None:
    """In all formats."""
    noise = np.random.default_rng(1).normal(size=(2, 4, 2, 4, 2, 4, 3, 3))
    links, _ = np.linalg.qr(noise[0] + 1j * noise[1])
    links[..., 0] /= np.linalg.det(links)[..., None]
    for name in gauge.FORMATS:
        gauge.write(folder / name, gauge.Configuration(links), name)


def read_links(path: Path) -> Any:
    """Links are unitary, or refused."""
    found = gauge.read(path).links
    if not np.allclose(found @ found.conj().swapaxes(-1, -2), np.eye(found.shape[-1]), atol=1e-4):
        raise AssertionError("links that are not unitary were let in")
    return digest(found)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())

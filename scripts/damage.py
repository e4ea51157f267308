"""Damage every file of a run in turn, and look at what the commands make of it.

    python scripts/damage.py

A file is truncated, emptied, given a flipped bit, deleted, or replaced by that of another run. Every command must then
refuse with one sentence, or give what it gives for the undamaged run, bit for bit. `dlhmc summary` may also give what a
run gives that ended with the checkpoint before, if it says so. Resuming takes longest, and is tried with one kind of
damage for each file, each in its turn.
"""

import collections
import io
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
import zarr
from rich.console import Console

from dlhmc.cli.output import show_run
from dlhmc.errors import ExitCode, UserError
from dlhmc.models.model import Model
from dlhmc.numerics.leaves import by_name, digest
from dlhmc.plans.comparing import ComparePlan
from dlhmc.plans.sampling import SamplePlan
from dlhmc.plans.training import TrainPlan
from dlhmc.report.command import intact
from dlhmc.report.compared import ComparedRun, Family
from dlhmc.report.costs import cost_table
from dlhmc.report.page import Picture
from dlhmc.report.sampling import SampledRun, sampling_picture, sampling_table
from dlhmc.report.training import training_pictures
from dlhmc.run.directory import run_kind
from dlhmc.run.driver import ExecutionOptions
from dlhmc.run.samples import load_samples
from dlhmc.theories.u1.wilson import U1

SAMPLE: dict[str, Any] = {
    "lattice": (4, 4),
    "beta": 2.0,
    "chains": 4,
    "trajectories": 60,
    "warmup": 20,
    "start": "cold",
    "chunk": 20,
}
TRAIN: dict[str, Any] = {
    "lattice": (4, 4),
    "beta": 2.0,
    "chains": 4,
    "steps": 20,
    "burn_in": 1,
    "start": "cold",
    "chunk": 5,
}
COMPARE: dict[str, Any] = {
    "lattice": (4, 4),
    "beta": 2.0,
    "integrators": ("leapfrog",),
    "lengths": (1.0,),
    "step_sizes": (0.25,),
    "hit_lengths": (1.0,),
    "chains": 16,
    "budget": 2.0,
}
Command = Callable[[Path], Any]


def main() -> int:
    """Sweep over all files and kinds of damage, print counts, and return 1 if anything went wrong."""
    with tempfile.TemporaryDirectory() as directory:
        counts = sweep(Path(directory))
    sys.stdout.write("".join(f"{count:>8} {name}\n" for name, count in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


def sweep(directory: Path) -> collections.Counter[str]:
    """All files of a sampling and a training run and of a comparison."""
    counts: collections.Counter[str] = collections.Counter(wrong=0)
    screen = Console(file=io.StringIO())
    for name in ("one", "other"):
        seed = {"seed": 1 if name == "one" else 2}
        TrainPlan.from_table(TRAIN | seed).run(directory / "train" / name, screen)
        ComparePlan.from_table(COMPARE | seed).run(directory / "compare" / name, screen, ExecutionOptions(quiet=True))
    before = sampling_runs(directory / "sample")
    for kind, commands in COMMANDS.items():
        one, other = directory / kind / "one", directory / kind / "other"
        files = sorted(file for file in one.rglob("*") if file.is_file() and file.name != ".lock")
        quick = {name: command for name, command in commands.items() if not name.startswith("resume")}
        harm(one, other, files, list(DAMAGES), quick, before, counts)
        slow = {name: command for name, command in commands.items() if name not in quick}
        for index, damage in enumerate(DAMAGES):
            harm(one, other, files[index :: len(DAMAGES)], [damage], slow, before, counts)
        sys.stdout.write(f"{kind}: {len(files)} files\n")
        sys.stdout.flush()
    return counts


def sampling_runs(directory: Path) -> dict[str, Any]:
    """Two runs of the same kind, and what the commands give for the first if it had ended one checkpoint before."""
    shorter = {"trajectories": SAMPLE["trajectories"] - SAMPLE["chunk"]}
    for name, change in (("one", {}), ("other", {"seed": 2}), ("shorter", shorter)):
        SamplePlan.from_table(SAMPLE | change).run(directory / name, Console(quiet=True))
    return {"summary": summary(directory / "shorter") | {"is_of_an_earlier_checkpoint": True}}


def harm(
    one: Path,
    other: Path,
    files: list[Path],
    damages: list[str],
    commands: Mapping[str, Command],
    before: Mapping[str, Any],
    counts: collections.Counter[str],
) -> None:
    """Each of the files with each of the damages, in a copy of the run; `before`: what its checkpoint before gives."""
    expected = {name: command(one) for name, command in commands.items()}
    copy = one.parent / "copy"
    for file in files:
        for damage in damages:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(one, copy)
            inside = file.relative_to(one)
            if not DAMAGES[damage](copy / inside, other / inside):
                continue
            counts["damaged files"] += 1
            for name, command in commands.items():
                try:
                    found = command(copy)
                    if found == expected[name]:
                        counts[f"{name}: as if undamaged"] += 1
                    elif found == before.get(name):
                        counts[f"{name}: of the checkpoint before, and it says so"] += 1
                    else:
                        counts["wrong"] += 1
                        sys.stdout.write(f"{name}, {inside} {damage}: other numbers\n")
                except UserError as error:
                    counts[f"{name}: refused"] += 1
                    if "\n" in str(error):
                        counts["wrong"] += 1
                        sys.stdout.write(f"{name}, {inside} {damage}: {error}\n")
                except Exception as error:
                    counts["wrong"] += 1
                    sys.stdout.write(f"{name}, {inside} {damage}: {error!r}\n")


def _truncated(file: Path, _: Path) -> bool:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    return True


def _emptied(file: Path, _: Path) -> bool:
    file.write_bytes(b"")
    return True


def _flipped(file: Path, _: Path) -> bool:
    data = bytearray(file.read_bytes())
    if not data:
        return False
    chance = random.Random(str(file.name))  # noqa: S311
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)
    return True


def _deleted(file: Path, _: Path) -> bool:
    file.unlink()
    return True


def _replaced(file: Path, other: Path) -> bool:
    if not other.exists() or other.read_bytes() == file.read_bytes():
        return False
    shutil.copyfile(other, file)
    return True


DAMAGES: dict[str, Callable[[Path, Path], bool]] = {
    "truncated": _truncated,
    "emptied": _emptied,
    "flipped": _flipped,
    "deleted": _deleted,
    "replaced": _replaced,
}


# What the commands give, with times left out: these are measured anew when steps are done again.


def summary(path: Path) -> Any:
    """`dlhmc summary`."""
    found = show_run(path, Console(file=io.StringIO()))
    says_so = any("results of an earlier checkpoint" in warning for warning in found["warnings"])
    numbers = {key: value for key, value in found.items() if "second" not in key and key != "warnings"}
    return numbers | {"is_of_an_earlier_checkpoint": says_so}


def report(path: Path) -> Any:
    """The section of a sampling run in `dlhmc report`; pages differ in the name of the directory."""
    run = SampledRun.open(path)
    with intact([path]):
        rows = [row for row in sampling_table(run.summary).rows if "µs" not in row[0]]
        return rows, drawn(sampling_picture(run))


def loaded(path: Path) -> Any:
    """`dlhmc.load` and `dlhmc export`."""
    return {str(name): digest(array.values) for name, array in load_samples(path).data.variables.items()}


def resumed(path: Path) -> Any:
    """The history after `dlhmc resume`."""
    assert SamplePlan.resume(path, Console(file=io.StringIO())) is ExitCode.OK  # noqa: S101
    store = zarr.open_group(path / "history.zarr", mode="r")
    return {name: digest(np.asarray(store[name])) for name in store.array_keys()}, summary(path)


def sampled(path: Path) -> Any:
    """The parameters that `dlhmc sample --model` would use."""
    trajectory = Model.open(str(path)).trajectory(U1((4, 4), 2.0))
    return {name: digest(np.asarray(leaf)) for name, leaf in by_name(eqx.filter(trajectory, eqx.is_array)).items()}


def trained(path: Path) -> Any:
    """The model after `dlhmc resume`."""
    assert TrainPlan.resume(path, Console(file=io.StringIO())) is ExitCode.OK  # noqa: S101
    return sampled(path)


def curves(path: Path) -> Any:
    """The section of a training run in `dlhmc report`."""
    (picture,) = training_pictures([path])
    return drawn(picture)


def drawn(picture: Picture | str) -> Any:
    """The numbers of all lines of a figure."""
    if isinstance(picture, str):
        return picture
    return [digest(np.asarray(line.get_ydata())) for axis in picture.figure.axes for line in axis.lines]


def compared(path: Path) -> Any:
    """`dlhmc summary` of a comparison."""
    return show_run(path, Console(file=io.StringIO()))


def races(path: Path) -> Any:
    """The section of a comparison in `dlhmc report`."""
    run_kind(path)
    comparison = ComparedRun.open(path)
    histories = [comparison.history(entry, "charge") for entry in comparison.results.entries]
    return cost_table(Family([comparison], "beta")).rows, [digest(history) for history in histories]


COMMANDS: dict[str, dict[str, Command]] = {
    "sample": {"summary": summary, "report": report, "load": loaded, "resume": resumed},
    "compare": {"summary of a comparison": compared, "report of a comparison": races},
    "train": {"sample --model": sampled, "report of training": curves, "resume of training": trained},
}


if __name__ == "__main__":
    sys.exit(main())

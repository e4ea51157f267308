"""How throughput grows with devices and processes: `dlhmc bench --scaling`.

JAX has as many devices as it was started with, so each number of them is a process (or several) of its own, which
waits until it is told to run. All take their turn in every round.
"""

import dataclasses
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Literal, cast

from rich.console import Console
from rich.markdown import Markdown

from benchmarks.chunks import sampling_chunk, training_chunk
from benchmarks.stopwatch import Contestant, fastest
from dlhmc.errors import UserError
from dlhmc.run.driver import ExecutionOptions
from dlhmc.run.processes import Membership, join
from dlhmc.spec.sampling import SampleSpec
from dlhmc.spec.training import TrainSpec
from dlhmc.tables import markdown

Work = Literal["sampling", "training"]
Kind = Literal["processes", "devices"]
WORKS: tuple[Work, ...] = ("sampling", "training")
NUMBERS = (1, 2, 4)
# On each device where the work of a device is fixed; as much as on two of them where the whole is.
CHAINS = 128
_LATTICE: dict[str, Any] = {"target": "u1", "lattice": (16, 16), "beta": 7.0, "start": "hot"}
_CHECKOUT = Path(__file__).resolve().parents[1]
# A call takes a good part of a second on one core.
_STEPS: dict[Work, int] = {"sampling": 400, "training": 100}


@dataclasses.dataclass(frozen=True)
class Setup:
    """What is done, and by how many."""

    work: Work
    kind: Kind
    number: int
    chains: int


def scaling(rounds: int, out: Path | None, console: Console) -> dict[str, Any]:
    """Measure, print, write the tables if asked to, and return what was measured."""
    measured = {work: _measured(work, rounds, console) for work in WORKS}
    report = "\n\n".join(_table(work, throughput) for work, throughput in measured.items())
    report += (
        f"\n\n{len(os.sched_getaffinity(0))} cores; fastest of {rounds} rounds, in each of which all took turns.\n"
    )
    console.print(Markdown(report))
    if out is not None:
        out.write_text(report, encoding="utf-8")
        console.print(f"written to {out}", highlight=False)
    rates = [(setup, rate) for throughput in measured.values() for setup, rate in throughput.items()]
    return {"setups": [dataclasses.asdict(setup) | {"chain_steps_per_second": rate} for setup, rate in rates]}


def setups(work: Work) -> list[Setup]:
    """Processes of one thread each, as many as there are cores; devices of one process."""
    cores = len(os.sched_getaffinity(0))
    numbers: dict[Kind, list[int]] = {"processes": [n for n in NUMBERS if n <= cores], "devices": list(NUMBERS)}
    return [
        Setup(work, kind, number, chains)
        for kind, possible in numbers.items()
        for number in possible
        for chains in sorted({CHAINS * number, 2 * CHAINS})
    ]


def _measured(work: Work, rounds: int, console: Console) -> dict[Setup, float]:
    """Chains × steps in a second, of each setup."""
    with ExitStack() as running, console.status(f"measuring {work} …"):
        contestants = {}
        for setup in setups(work):
            contestants[setup] = Contestant(running.enter_context(_started(setup)), _STEPS[work])
        seconds = fastest(contestants, rounds)
    return {setup: setup.chains / time for setup, time in seconds.items()}


def _table(work: Work, throughput: dict[Setup, float]) -> str:
    """Throughput, and its part of that of one times the number (of cores, if there are fewer)."""
    cores = len(os.sched_getaffinity(0))
    rows = []
    for kind in dict.fromkeys(setup.kind for setup in throughput):
        for fixed, chains_of in (("per device", lambda n: CHAINS * n), ("in all", lambda _: 2 * CHAINS)):
            numbers = sorted({setup.number for setup in throughput if setup.kind == kind})
            one = throughput[Setup(work, kind, 1, chains_of(1))]
            for number in numbers:
                found = throughput[Setup(work, kind, number, chains_of(number))]
                # Devices of one process share all cores from the start.
                ideal = one * (min(number, cores) if kind == "processes" else 1)
                rows.append([kind, fixed, str(number), str(chains_of(number)), f"{found:.3g}", f"{found / ideal:.0%}"])
    header = ["", "fixed work", "number", "chains", f"{work}: chain steps/s", "of ideal"]
    return markdown(header, rows)


@contextmanager
def _started(setup: Setup) -> Iterator[Callable[[], None]]:
    """The processes of a setup, compiled and waiting; the function lets them run once."""
    count = setup.number if setup.kind == "processes" else 1
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    program = [sys.executable, "-m", "benchmarks.scaling", json.dumps(dataclasses.asdict(setup))]
    started = [
        subprocess.Popen(  # noqa: S603 - our own program
            [*program, str(port), str(number)],
            cwd=_CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    try:
        _answer(started[0])
        yield lambda: _run_once(started)
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _run_once(processes: list["subprocess.Popen[str]"]) -> None:
    for process in processes:
        told = cast(IO[str], process.stdin)
        told.write("run\n")
        told.flush()
    _answer(processes[0])


def _answer(process: "subprocess.Popen[str]") -> None:
    if not cast(IO[str], process.stdout).readline():
        _, complaint = process.communicate()
        raise UserError(f"A measuring process ended: {(complaint.splitlines() or ['without a word'])[-1]}")


def serve() -> None:
    """What a measuring process does: compile, then run as often as it is told to."""
    setup = Setup(**json.loads(sys.argv[1]))
    port, number = sys.argv[2], int(sys.argv[3])
    if setup.kind == "processes":
        # One thread: what it gains from a second core is not the gain of a second process.
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
        join(Membership(f"127.0.0.1:{port}", number, setup.number) if setup.number > 1 else Membership())
    run = _program(setup)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        run()
        sys.stdout.write("done\n")
        sys.stdout.flush()


def _program(setup: Setup) -> Callable[[], None]:
    """The compiled loop of a run, without what the host does between chunks."""
    steps = _STEPS[setup.work]
    options = ExecutionOptions(devices=setup.number if setup.kind == "devices" else 1)
    table = _LATTICE | {"chains": setup.chains, "chunk": steps}
    if setup.work == "sampling":
        sampled = SampleSpec.of(table | {"step_size": 0.1, "leapfrog_steps": 10})
        return sampling_chunk(sampled.build()[0], sampled.amounts, options)
    trained = TrainSpec.of(table | {"network": "local", "burn_in": 0})
    algorithm, trajectory, _, amounts, *_ = trained.build()
    return training_chunk(algorithm, trajectory, amounts, options)


if __name__ == "__main__":
    serve()

import io
import os
import signal
import subprocess
import sys

import pytest
from rich.console import Console

from dlhmc.errors import ExitCode
from dlhmc.run.driver import ExecutionOptions, Run, drive, execute
from dlhmc.run.interruption import Interruption, watch_signals
from dlhmc.run.sink import Sink


class Counting(Run):
    """Counts its steps; ends a chunk after step 12, and sends itself a signal at a step if asked to."""

    title, unit = "counting", "steps"

    def __init__(self, signal_at=None, number=signal.SIGINT):
        self.total, self.capacity = 20, 5
        self.chunks = []
        self._signal_at, self._number = signal_at, number

    def program(self, step, count):
        return None, {}

    def record(self, step, count, records, seconds):
        raise AssertionError

    def restore(self, checkpoints):
        raise AssertionError

    def run(self, step, count):
        assert count == 0

    def finish(self):
        return ExitCode.OK

    def show(self, console):
        pass

    def advance(self, step, count):
        self.chunks.append(count)
        if self._signal_at is not None and step <= self._signal_at < step + count:
            os.kill(os.getpid(), self._number)

    def figures(self):
        return {"chunks": len(self.chunks)}

    def words(self):
        return "counting"

    def state(self):
        return sum(self.chunks), {}

    def next_stop(self, step):
        return 12 if step < 12 else self.total


class Listening(Sink):
    """Stands for checkpoints, too."""

    def __init__(self):
        self.reported, self.saved = [], []

    def report(self, step, figures, words):
        self.reported.append(step)

    def save(self, step, state):
        assert step == state[0]
        self.saved.append(step)


@pytest.mark.parametrize(
    ("chunk", "chunks"),
    [(1, [1] * 20), (3, [3] * 4 + [3, 3, 2]), (100, [5, 5, 2, 5, 3])],
)
def test_chunks_fill_the_run_and_respect_stops_and_capacity(chunk, chunks):
    work, sink = Counting(), Listening()
    assert drive(work, 0, sink, [sink], Interruption(), chunk=chunk) == (20, ExitCode.OK)
    assert work.chunks == chunks
    assert sink.reported == [sum(chunks[: i + 1]) for i in range(len(chunks))]
    assert sink.saved == [0, *sink.reported]  # each chunk that was asked for ends with a checkpoint


def test_chunks_of_a_length_that_follows_the_speed_do_so_too():
    work = Counting()
    drive(work, 0, None, [], Interruption())
    assert max(work.chunks) == 5
    assert {12, 20} <= {sum(work.chunks[: i + 1]) for i in range(len(work.chunks))}


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
def test_a_signal_ends_the_run_after_its_chunk_with_everything_saved(number, code):
    before, sink = signal.getsignal(number), Listening()
    with watch_signals() as interruption:
        reached, ended = drive(Counting(7, number), 0, sink, [sink], interruption, chunk=3)
    assert (reached, ended, sink.saved[-1]) == (9, code, 9)
    assert signal.getsignal(number) == before


def test_a_run_in_memory_says_how_far_it_came():
    screen = io.StringIO()
    assert execute(Counting(7), None, Console(file=screen), ExecutionOptions(), chunk=3) == ExitCode.INTERRUPTED
    assert "stopped after 9 of 20 steps\n" in screen.getvalue()


SLEEPING = """
import time
from dlhmc.run.interruption import watch_signals
with watch_signals():
    print("ready", flush=True)
    time.sleep(60)
    time.sleep(60)
"""


def test_a_second_ctrl_c_ends_the_process_at_once():
    process = subprocess.Popen([sys.executable, "-c", SLEEPING], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.send_signal(signal.SIGINT)
    assert b"stopped at once" in process.communicate(timeout=30)[1]
    assert process.returncode == 130

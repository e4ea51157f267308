import io
import json
import os
import shutil
import signal

import jax.numpy as jnp
import pytest
from rich.console import Console

from dlhmc.errors import ExitCode, UserError
from dlhmc.run.checkpoint import Checkpoints
from dlhmc.run.directory import RunDirectory
from dlhmc.run.interruption import Interruption, watch_signals
from dlhmc.run.loop import Work, adapted, drive
from dlhmc.run.progress import Display


class Counting(Work):
    """Counts its steps; ends a chunk after step 12, and sends itself a signal at a step if asked to."""

    def __init__(self, signal_at=None, number=signal.SIGINT):
        self.total, self.capacity = 20, 5
        self.chunks = []
        self._signal_at, self._number = signal_at, number

    def create(self):
        pass

    def resume(self, checkpoints):
        step, _, notes = checkpoints.restore(self.checkpoint()[0])
        return step, notes

    def compile(self):
        pass

    def finish(self, console):
        pass

    def advance(self, step, count):
        self.chunks.append(count)
        if self._signal_at is not None and step <= self._signal_at < step + count:
            os.kill(os.getpid(), self._number)

    def metrics(self):
        return {"chunks": len(self.chunks)}

    def status_line(self):
        return "counting"

    def checkpoint(self):
        return {"x": jnp.asarray(sum(self.chunks))}, {}

    def next_stop(self, step):
        return 12 if step < 12 else self.total


def go(work, tmp_path, interruption, *, step=0, chunk=None):
    directory = RunDirectory(tmp_path)
    display = Display(Console(file=io.StringIO()), "counting", work.total)
    checkpoints = Checkpoints(directory.checkpoints)
    with directory.locked():
        reached, _ = drive(work, step, directory, checkpoints, display, interruption, chunk=chunk)
    return reached, [json.loads(line) for line in directory.metrics.read_text().splitlines()]


@pytest.mark.parametrize(
    ("chunk", "chunks"),
    [(1, [1] * 20), (3, [3] * 4 + [3, 3, 2]), (100, [5, 5, 2, 5, 3])],
)
def test_chunks_fill_the_run_and_respect_stops_and_capacity(chunk, chunks, tmp_path):
    work = Counting()
    reached, metrics = go(work, tmp_path, Interruption(), chunk=chunk)
    assert reached == 20
    assert work.chunks == chunks
    assert [line["step"] for line in metrics] == [sum(chunks[: i + 1]) for i in range(len(chunks))]
    assert Checkpoints(tmp_path / "checkpoints").newest_notes()[0] == 20


def test_chunks_of_a_length_that_follows_the_speed_do_so_too(tmp_path):
    work = Counting()
    go(work, tmp_path, Interruption())
    assert max(work.chunks) == 5
    assert {12, 20} <= {sum(work.chunks[: i + 1]) for i in range(len(work.chunks))}


@pytest.mark.parametrize(
    ("length", "wanted", "then"), [(100, 190, 100), (100, 60, 100), (100, 200.4, 200), (100, 50, 50), (8, 0.2, 1)]
)
def test_the_length_of_chunks_changes_only_with_the_speed(length, wanted, then):
    assert adapted(length, wanted) == then


def test_every_chunk_that_was_asked_for_ends_with_a_checkpoint(tmp_path):
    class Looking(Counting):
        seen = ()

        def advance(self, step, count):
            if step:
                self.seen += (Checkpoints(tmp_path / "checkpoints", read_only=True).newest_notes()[0],)
            super().advance(step, count)

    work = Looking()
    go(work, tmp_path, Interruption(), chunk=4)
    assert work.seen == (4, 8, 12, 16)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
def test_a_signal_ends_the_run_after_its_chunk_with_everything_saved(number, code, tmp_path):
    before = signal.getsignal(number)
    with watch_signals() as interruption:
        reached, metrics = go(Counting(7, number), tmp_path, interruption, chunk=3)
    assert reached == 9
    assert interruption.exit_code == code
    assert metrics[-1]["step"] == 9
    assert Checkpoints(tmp_path / "checkpoints").newest_notes()[0] == 9
    assert signal.getsignal(number) == before


def test_a_second_ctrl_c_stops_at_once():
    with watch_signals() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_run_goes_on_where_it_was(tmp_path):
    work = Counting()
    go(work, tmp_path, Interruption(), step=14, chunk=4)
    assert work.chunks == [4, 2]


def test_a_directory_that_is_removed_ends_the_run(tmp_path):
    class Removing(Counting):
        def advance(self, step, count):
            super().advance(step, count)
            shutil.rmtree(tmp_path / "run")

    (tmp_path / "run").mkdir()
    work = Removing()
    with pytest.raises(UserError, match="run was removed while the run was going on"):
        go(work, tmp_path / "run", Interruption(), chunk=3)
    assert work.chunks == [3]
    assert not (tmp_path / "run").exists()

"""Runs of several processes: joining them, agreeing between them, and ending when one of them has died.

All of them run the same program on parts of the same arrays (`dlhmc.run.devices`). JAX's distributed runtime
connects them and watches over them; what they must agree on in the host loop goes through it, too. With one process
nothing here does anything.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils

from dlhmc.errors import ExitCode, Setting, UserError

# A process that has been silent for this long is taken for dead, and the others end.
_SILENCE = 30
# The others wait for process 0 to write the results.
_LONGEST_SUMMARY = 24 * 3600
_LONGEST_START = 300


class Membership(NamedTuple):
    """How a process finds the others; what is not given is asked of SLURM, Open MPI or Kubernetes."""

    coordinator: str | None = None
    process_id: int | None = None
    number: int | None = None


ALONE = Membership()
# Of processes that a launcher has started: SLURM's, Open MPI's.
_NUMBERS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
_MEMBERSHIP = f"{Setting('coordinator')}, {Setting('process_id')} and {Setting('num_processes')}"


def join(membership: Membership = ALONE) -> None:
    """Connect to the other processes of the run, if there are any; before JAX is used for the first time."""
    coordinator, process_id, number = membership
    launched = any(int(os.environ.get(name, 1)) > 1 for name in _NUMBERS) or "JOB_COMPLETION_INDEX" in os.environ
    if coordinator is None and not launched and (process_id, number) == (None, None):
        return
    if jax.distributed.is_initialized():
        return
    if coordinator is not None and "OMPI_COMM_WORLD_RANK" in os.environ:  # version 5, which JAX does not know
        process_id = int(os.environ["OMPI_COMM_WORLD_RANK"]) if process_id is None else process_id
        number = int(os.environ["OMPI_COMM_WORLD_SIZE"]) if number is None else number
    needed = f"A process of several needs {_MEMBERSHIP}, unless a launcher sets them"
    if not launched and None in (coordinator, process_id, number):
        raise UserError(f"{needed}.")
    # SIGTERM is ours: it ends a run between two chunks, with everything saved.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        if coordinator is not None and ":" not in coordinator:
            raise ValueError(f"{coordinator} is no host:port")
        if number is not None and process_id is not None and not 0 <= process_id < number:
            raise ValueError(f"there is no process {process_id} of {number}")
        jax.distributed.initialize(
            coordinator,
            number,
            process_id,
            initialization_timeout=_LONGEST_START,
            heartbeat_timeout_seconds=_SILENCE,
            shutdown_timeout_seconds=_LONGEST_SUMMARY,
        )
    except (ValueError, RuntimeError) as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        raise UserError(f"The processes of the run did not find each other ({reason}): check {_MEMBERSHIP}.") from None
    with _hushed(only_now=is_first()):
        barrier("start")  # Gloo announces its first connection


@contextlib.contextmanager
def _hushed(*, only_now: bool) -> Iterator[None]:
    """Send what is written to stdout, by whatever language, to nowhere; for good, unless `only_now`."""
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    yield
    if only_now:
        os.dup2(kept, 1)
    os.close(kept)


def is_first() -> bool:
    """Whether this process prints, and writes what is written once."""
    return not jax.distributed.is_initialized() or jax.process_index() == 0


def several() -> bool:
    """Whether there are other processes."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def barrier(name: str) -> None:
    """Wait for the other processes."""
    if several():
        multihost_utils.sync_global_devices(name)


def gathered(values: tuple[int, ...]) -> list[tuple[int, ...]]:
    """A few whole numbers of each process, on each process."""
    if not several():
        return [values]
    rows = multihost_utils.process_allgather(np.asarray(values, np.int32))
    return [tuple(int(value) for value in row) for row in rows]


def whole(array: Any) -> Any:
    """An array of which this process may hold a part only, as NumPy has it."""
    if isinstance(array, jax.Array) and not (array.is_fully_addressable or array.is_fully_replicated):
        return multihost_utils.process_allgather(array, tiled=True)
    return np.asarray(array)


def lost_another(error: BaseException) -> bool:
    """Whether an error says that another process is gone."""
    text = str(error)
    return several() and any(sign in text for sign in ("Gloo", "NCCL", "ncclInternalError", "coordination service"))


def leave(code: int) -> None:
    """End this process. After an error at once: waiting for the others would keep them waiting."""
    orderly = (ExitCode.OK, ExitCode.ALARM, ExitCode.TIME_OVER, ExitCode.INTERRUPTED, ExitCode.TERMINATED)
    if jax.distributed.is_initialized() and code not in orderly:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)

"""The table [machine]: on what a run is done; none of it changes its numbers."""

import dataclasses
import re
from typing import TYPE_CHECKING

from dlhmc.errors import UserError
from dlhmc.settings import Advanced, Count, Settings

if TYPE_CHECKING:
    from dlhmc.run.driver import ExecutionOptions


@dataclasses.dataclass(frozen=True)
class Machine(Settings):
    """Devices, processes and time."""

    devices: Count | None = None
    """devices that share the chains, else one"""
    split_lattice: Advanced[Count] = 1
    """devices that share each lattice, cut along its last direction but one: for lattices too large for one"""
    coordinator: Advanced[str | None] = None
    """host:port of process 0 of several; SLURM, Open MPI and Kubernetes are asked if not given"""
    process_id: Advanced[int | None] = None
    """which of the processes this is, from 0"""
    num_processes: Advanced[int | None] = None
    """how many processes there are"""
    time_limit: str | None = None
    """stop after this long, all saved: 55m, 1h30m, 90s"""
    check_every: Advanced[str] = "10m"
    """check the rounding errors of a sampling run this often, and stop it if they are too large"""

    def __post_init__(self) -> None:
        """Durations are some."""
        super().__post_init__()
        for text in (self.time_limit, self.check_every):
            if text is not None:
                parse_duration(text)

    def begin(self, *, quiet: bool) -> "ExecutionOptions":
        """Join the other processes, if there are any, and say how to run."""
        from dlhmc.run.driver import ExecutionOptions
        from dlhmc.run.processes import Membership, join

        join(Membership(self.coordinator, self.process_id, self.num_processes))
        limit = None if self.time_limit is None else parse_duration(self.time_limit)
        return ExecutionOptions(self.devices, self.split_lattice, limit, quiet, parse_duration(self.check_every))


def parse_duration(text: str) -> float:
    """What a person wrote, in seconds.

    >>> parse_duration("55m"), parse_duration("1h30m"), parse_duration("90")
    (3300.0, 5400.0, 90.0)
    """
    number = r"(\d+(?:\.\d+)?)"
    parts = re.fullmatch(f"(?:{number}h)?(?:{number}m)?(?:{number}s?)?", text)
    if not text or parts is None:
        raise UserError(f"'{text}' is no duration: write it like 55m, 1h30m or 90s.")
    return sum(float(part) * unit for part, unit in zip(parts.groups(), (3600, 60, 1), strict=True) if part)

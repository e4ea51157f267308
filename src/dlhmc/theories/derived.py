"""What follows from the observables of a run, and what to warn of. Only what has something to say is imported."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dlhmc.errors import Setting
from dlhmc.statistics import Estimate

if TYPE_CHECKING:
    from dlhmc.run.summary import Histories


def derive(histories: "Histories", notes: Mapping[str, Any]) -> dict[str, Estimate]:
    """What follows from several observables: t₀ and w₀ of the flow, masses of mesons; where they were measured."""
    equilibrium, found = histories.start == "exact", dict[str, Estimate]()
    if "flow_energy" in histories.elements and "flow_times" in notes:
        from dlhmc.statistics.scales import reference_scales

        times = np.asarray(notes["flow_times"], np.float64)
        if times.shape != histories.elements["flow_energy"]:
            raise ValueError(f"{len(times)} flow times")
        found |= reference_scales(
            times, lambda k: histories.read("flow_energy", 1, (k,)), equilibrium_start=equilibrium
        )
    if len(sides := histories.elements.get("pion", ())) == 1:
        from dlhmc.statistics.masses import masses

        found |= masses(
            {"pion": lambda t: histories.read("pion", 1, (t,)), "eta": lambda t: histories.read("eta", 1, (t,))},
            sides[0],
            equilibrium_start=equilibrium,
        )
    return found


def warn(histories: "Histories") -> list[str]:
    """Trajectories in which a solver gave up."""
    failed = histories.total("solver_failures") if "solver_failures" in histories.elements else 0
    advice = f"raise {Setting('most_iterations')} or {Setting('residual')}, or use {Setting('float64')}"
    return [f"The solver gave up {failed:.0f} times, and the proposals were rejected: {advice}."] if failed else []

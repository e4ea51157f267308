"""What a sampling run has found: summary.json and the table beside the exact values."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from dlhmc.runs.history import History, Rows
from dlhmc.runs.precision import Precision
from dlhmc.statistics import AutocorrelationTime, Estimate, Series, format_uncertainty, gamma_method, mean_and_error
from dlhmc.targets.contract import Moment, Target

# A larger share of proposals that are not finite means that something is wrong with the run.
MOST_NONFINITE = 0.01


@dataclasses.dataclass(frozen=True)
class Quantities:
    """How to read the histories of a target: what to report, what moves slowly, and what is known exactly."""

    moments: Mapping[str, Moment]
    #: slow observables with their exact means, and their variances in units of their changes, where known
    slow: Mapping[str, float | None]
    variances: Mapping[str, float]
    #: exact values of the moments, where known
    exact: Mapping[str, float]

    @classmethod
    def of(cls, target: Target) -> Self:
        """Of a target."""
        variances = {name: target.slow_variance(name) for name in target.slow}
        exact = target.exact()
        return cls(
            dict(target.moments),
            dict(target.slow),
            {name: variance for name, variance in variances.items() if variance is not None},
            {name: exact[name] for name in target.moments if name in exact},
        )

    def to_json(self) -> dict[str, Any]:
        """As plain tables."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Self:
        """What `to_json` gave."""
        moments = {name: Moment(str(label), int(power)) for name, (label, power) in table["moments"].items()}
        slow, variances, exact = (dict(table[name]) for name in ("slow", "variances", "exact"))
        return cls(moments, slow, variances, exact)


class Histories(Protocol):
    """Series [trajectory, chain] by name, in a store or in memory."""

    @property
    def shape(self) -> tuple[int, int]:
        """Trajectories and chains."""

    def series(self, name: str, power: int = 1) -> Series:
        """A record of every trajectory, raised to a power."""

    def total(self, name: str) -> float:
        """The sum of a record over all trajectories and chains."""


class Stored(Histories):
    """The first rows of a history on disk, read piece by piece."""

    def __init__(self, history: History, rows: int) -> None:
        self._history = history
        self._rows = rows

    @property
    def shape(self) -> tuple[int, int]:
        """Trajectories and chains."""
        return self._rows, self._history.array("accepted").shape[1]

    def series(self, name: str, power: int = 1) -> Rows:
        """A record of every trajectory, raised to a power."""
        return Rows(self._history.array(name), self._rows, power)

    def total(self, name: str) -> float:
        """The sum of a record over all trajectories and chains."""
        return self.series(name).total()


def summarise(
    what: Mapping[str, Any],
    quantities: Quantities,
    histories: Histories,
    leapfrog_steps: int,
    seconds: float,
    precision: Precision | None = None,
) -> dict[str, Any]:
    """Everything in summary.json; `what` ran stands first."""
    rows, chains = histories.shape
    summary: dict[str, Any] = {
        **what,
        "chains": chains,
        "trajectories": rows,
        "leapfrog_steps": leapfrog_steps,
        "acceptance": histories.total("accepted") / (rows * chains),
    }
    taus = autocorrelation_times(quantities, histories)
    summary |= summarise_observables(quantities, histories, taus)
    weights = Weights(histories.series("energy_change"))
    summary["exp_minus_dh"] = (
        {"mean": 1.0, "error": 0.0} if what["kernel"] == "exact" else _plain(mean_and_error(weights))
    )
    summary |= nonfinite_figures(int(histories.total("nonfinite")), rows * chains)
    summary["precision"] = None if precision is None else precision._asdict()
    per_trajectory = 1e6 * seconds / (rows * chains)
    slowest = max((tau.value if tau.resolved else math.inf for tau in taus.values()), default=math.inf)
    summary |= {
        "seconds": seconds,
        "microseconds_per_trajectory": per_trajectory,
        # an independent configuration is 2 τ_int trajectories apart: ½ is the τ_int of independent draws
        "microseconds_per_independent": finite(2 * slowest * per_trajectory),
    }
    return summary


def autocorrelation_times(quantities: Quantities, histories: Histories) -> dict[str, AutocorrelationTime]:
    """Of the slow observables."""
    return {
        name: gamma_method(histories.series(name), mean, variance=quantities.variances.get(name)).tau
        for name, mean in quantities.slow.items()
    }


def summarise_observables(
    quantities: Quantities, histories: Histories, taus: Mapping[str, AutocorrelationTime]
) -> dict[str, Any]:
    """The moments beside their exact values, and the autocorrelation times."""
    moments = {
        name: compared(mean_and_error(histories.series(observable, power)), quantities.exact.get(name))
        for name, (observable, power) in quantities.moments.items()
    }
    return moments | {f"tau_int_{name}": time_entry(tau) for name, tau in taus.items()}


def nonfinite_figures(rejected: int, proposals: int) -> dict[str, Any]:
    """Proposals rejected because a number in them was NaN or infinite, and what to say about them.

    >>> nonfinite_figures(2, 2560)["warnings"]
    ['2 of 2560 proposals (0.0781 %) were not finite and were rejected.']
    """
    share = rejected / max(1, proposals)
    text = f"{rejected} of {proposals} proposals ({100 * share:.3g} %) were not finite and were rejected"
    advice = ": look at the step size and the model, or use --float64" if share > MOST_NONFINITE else ""
    return {
        "nonfinite_rejected": rejected,
        "nonfinite_fraction": share,
        "warnings": [f"{text}{advice}."] if rejected else [],
    }


def show_warnings(figures: dict[str, Any], console: Console) -> None:
    """Print the warnings of a run; in red if numbers go wrong more often than now and then."""
    style = "red" if figures["nonfinite_fraction"] > MOST_NONFINITE else None
    for warning in figures["warnings"]:
        console.print(f"Warning: {warning}", style=style, markup=False, highlight=False, soft_wrap=True)


class Weights:
    """The series e^{−ΔH}, whose mean is 1 for every exact kernel; a proposal that is not finite has weight 0."""

    def __init__(self, energy_change: Series) -> None:
        self._energy_change = energy_change
        self.shape = energy_change.shape

    def __getitem__(self, index: Any) -> NDArray[np.float64]:
        """series[:, a:b]."""
        change = np.asarray(self._energy_change[index], np.float64)
        # Weights of a run far from equilibrium can be larger than any number: e^300 is enough, and can be squared.
        return np.exp(-np.maximum(np.where(np.isfinite(change), change, np.inf), -300))


def finite(value: float) -> float | None:
    """A number for JSON, which has no infinities: None stands for one."""
    return value if math.isfinite(value) else None


def _plain(estimate: Estimate) -> dict[str, Any]:
    return {"mean": finite(estimate.value), "error": finite(estimate.error)}


def compared(estimate: Estimate, exact: float | None) -> dict[str, Any]:
    """An estimate beside its exact value, for JSON."""
    known = exact is not None and 0 < estimate.error < math.inf
    z = (estimate.value - exact) / estimate.error if known and exact is not None else None
    return _plain(estimate) | {"exact": exact, "z": z}


def time_entry(tau: AutocorrelationTime) -> dict[str, Any]:
    """An autocorrelation time, for JSON."""
    return {
        # a time that the run is too short to measure is a lower bound, and no value
        "value": finite(tau.value) if tau.resolved else None,
        "error": finite(tau.error) if tau.resolved else None,
        "window": tau.window,
        "frozen": tau.frozen,
        "lower_bound": finite(tau.lower_bound),
    }


def show(summary: dict[str, Any], quantities: Quantities, console: Console) -> None:
    """Print the table: observable, measured, exact, difference in σ; then how fast the slow ones move."""
    show_observables(summary, quantities, console)
    independent = summary["microseconds_per_independent"]
    per_independent = "" if independent is None else f", {independent:.4g} µs an independent configuration"
    console.print(
        f"{summary['microseconds_per_trajectory']:.4g} µs a trajectory and chain{per_independent}", highlight=False
    )
    if summary["precision"] is not None:
        console.print(
            f"rounding errors: {Precision(**summary['precision'])}", markup=False, highlight=False, soft_wrap=True
        )
    show_warnings(summary, console)


def show_observables(summary: Mapping[str, Any], quantities: Quantities, console: Console) -> None:
    """The table alone."""
    table = Table(title=_title(summary), title_justify="left")
    for column in ("observable", "measured", "exact", "difference"):
        table.add_column(column, justify="left" if column == "observable" else "right")
    for name in quantities.moments:
        entry = summary[name]
        exact = "" if entry["exact"] is None else f"{entry['exact']:.6f}"
        difference = "" if entry["z"] is None else f"{entry['z']:+.1f} σ"
        table.add_row(name.replace("_", " "), shown_mean(entry), exact, difference)
    if "exp_minus_dh" in summary:
        table.add_row("exp(-ΔH)", shown_mean(summary["exp_minus_dh"]), "1", _z_from_one(summary["exp_minus_dh"]))
        table.add_row("acceptance", f"{summary['acceptance']:.4f}")
    for name in quantities.slow:
        table.add_row(f"τ_int({name.replace('_', ' ')})", shown_time(summary[f"tau_int_{name}"]))
    console.print(table)


def shown_time(tau: dict[str, Any]) -> str:
    """An autocorrelation time for people; a frozen one is a lower bound."""
    if tau["value"] is None:
        return f"> {tau['lower_bound']:.0f} ({'frozen' if tau['frozen'] else 'too short'})"
    return format_uncertainty(tau["value"], tau["error"])


def _title(summary: Mapping[str, Any]) -> str:
    target = summary.get("target", "")
    if "lattice" in summary:
        lattice = "×".join(map(str, summary["lattice"]))
        target = f"{target}  {lattice}".strip() + (f"  β = {summary['beta']:g}" if "beta" in summary else "")
    return f"{summary['kernel']}  {target}  {summary['chains']} chains × {summary['trajectories']} trajectories"


def shown_mean(entry: dict[str, Any]) -> str:
    """A mean with its error, for people."""
    error = math.inf if entry["error"] is None else entry["error"]
    return format_uncertainty(entry["mean"], error)


def _z_from_one(entry: dict[str, Any]) -> str:
    return f"{(entry['mean'] - 1) / entry['error']:+.1f} σ" if entry["error"] else ""

"""What a sampling run has found: summary.json and the table beside the exact values."""

import math
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dlhmc.runs.config import SampleConfig
from dlhmc.runs.history import History, Rows
from dlhmc.runs.precision import Precision
from dlhmc.statistics import AutocorrelationTime, Estimate, format_uncertainty, gamma_method, mean_and_error
from dlhmc.targets.contract import Target

# A larger share of proposals that are not finite means that something is wrong with the run.
MOST_NONFINITE = 0.01


def what_ran(config: SampleConfig) -> dict[str, Any]:
    """Kernel and target; that of U(1) by its lattice and coupling, others by name."""
    if config.lattice is None:
        return {"kernel": config.kernel, "target": config.target}
    return {"kernel": config.kernel, "lattice": list(config.lattice), "beta": config.beta}


def summarise(
    config: SampleConfig,
    target: Target,
    leapfrog_steps: int,
    history: History,
    rows: int,
    seconds: float,
    precision: Precision | None = None,
) -> dict[str, Any]:
    """Everything in summary.json, from the first `rows` trajectories of the history."""

    def series(name: str, power: int = 1) -> Rows:
        return Rows(history.array(name), rows, power)

    exact = target.exact()
    summary: dict[str, Any] = {
        **what_ran(config),
        "chains": config.chains,
        "trajectories": rows,
        "leapfrog_steps": leapfrog_steps,
        "acceptance": series("accepted").total() / (rows * config.chains),
    }
    for name, (observable, power) in target.moments.items():
        summary[name] = compared(mean_and_error(series(observable, power)), exact.get(name))
    taus = {}
    for name, mean in target.slow.items():
        taus[name] = gamma_method(series(name), mean, variance=target.slow_variance(name)).tau
        summary[f"tau_int_{name}"] = time_entry(taus[name])
    weights = Weights(history, rows)
    summary["exp_minus_dh"] = (
        {"mean": 1.0, "error": 0.0} if config.kernel == "exact" else _plain(mean_and_error(weights))
    )
    summary |= nonfinite_figures(int(series("nonfinite").total()), rows * config.chains)
    summary["precision"] = None if precision is None else precision._asdict()
    per_trajectory = 1e6 * seconds / (rows * config.chains)
    slowest = max((tau.value if tau.resolved else math.inf for tau in taus.values()), default=math.inf)
    summary |= {
        "seconds": seconds,
        "microseconds_per_trajectory": per_trajectory,
        # an independent configuration is 2 τ_int trajectories apart: ½ is the τ_int of independent draws
        "microseconds_per_independent": finite(2 * slowest * per_trajectory),
    }
    return summary


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


class Weights(Rows):
    """The series e^{−ΔH}, whose mean is 1 for every exact kernel; a proposal that is not finite has weight 0."""

    def __init__(self, history: History, rows: int) -> None:
        super().__init__(history.array("energy_change"), rows)

    def __getitem__(self, index: tuple[slice, slice]) -> Any:
        """series[:, a:b]."""
        change = super().__getitem__(index)
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


def show(summary: dict[str, Any], target: Target, console: Console) -> None:
    """Print the table: observable, measured, exact, difference in σ; then how fast the slow ones move."""
    table = Table(title=_title(summary), title_justify="left")
    for column in ("observable", "measured", "exact", "difference"):
        table.add_column(column, justify="left" if column == "observable" else "right")
    for name in target.moments:
        entry = summary[name]
        exact = "" if entry["exact"] is None else f"{entry['exact']:.6f}"
        difference = "" if entry["z"] is None else f"{entry['z']:+.1f} σ"
        table.add_row(name.replace("_", " "), shown_mean(entry), exact, difference)
    table.add_row("exp(-ΔH)", shown_mean(summary["exp_minus_dh"]), "1", _z_from_one(summary["exp_minus_dh"]))
    table.add_row("acceptance", f"{summary['acceptance']:.4f}")
    for name in target.slow:
        table.add_row(f"τ_int({name.replace('_', ' ')})", shown_time(summary[f"tau_int_{name}"]))
    console.print(table)
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


def shown_time(tau: dict[str, Any]) -> str:
    """An autocorrelation time for people; a frozen one is a lower bound."""
    if tau["value"] is None:
        return f"> {tau['lower_bound']:.0f} ({'frozen' if tau['frozen'] else 'too short'})"
    return format_uncertainty(tau["value"], tau["error"])


def _title(summary: dict[str, Any]) -> str:
    lattice = "×".join(map(str, summary.get("lattice", ())))
    target = f"{lattice}  β = {summary['beta']:g}" if lattice else summary["target"]
    return f"{summary['kernel']}  {target}  {summary['chains']} chains × {summary['trajectories']} trajectories"


def shown_mean(entry: dict[str, Any]) -> str:
    """A mean with its error, for people."""
    error = math.inf if entry["error"] is None else entry["error"]
    return format_uncertainty(entry["mean"], error)


def _z_from_one(entry: dict[str, Any]) -> str:
    return f"{(entry['mean'] - 1) / entry['error']:+.1f} σ" if entry["error"] else ""

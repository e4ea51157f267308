"""What a report shows of runs with fermions: correlators of mesons, and the pion mass against the mass of fermions."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from dlhmc.report.charts import BLACK, BLUE, GREY, VERMILION, Block, Chart, Panel, Series
from dlhmc.report.figures import Figures
from dlhmc.report.sampling import SampledRun
from dlhmc.runs.summary import shown_mean

#: −m_c of Wilson fermions at β = 1 … 6, N_f = 2, known from large lattices to a few units of the last digit
_CRITICAL = (0.3204, 0.1968, 0.1351, 0.1033, 0.0840, 0.0719)
#: M_π = 2.008 m^{2/3} g^{1/3} of two light flavours in the continuum (Smilga, Phys. Rev. D 55 (1997) 443)
_CONTINUUM = 2.008


class SchwingerFigures(Figures):
    """Correlators with their fits; M_π against the mass, of all runs together."""

    axis: ClassVar[str | None] = "beta"
    moves: ClassVar[str] = "HMC with hits"

    def sampled(self, run: SampledRun) -> list[Block]:
        """The correlators, where they were measured."""
        return [] if run.summary is None or "pion" not in run.summary else [correlator_chart(run, run.summary)]

    def together(self, runs: Sequence[SampledRun]) -> list[Block]:
        """M_π against the mass."""
        chart = pion_chart([run for run in runs if run.summary is not None])
        return [] if chart is None else [chart]


def correlator_chart(run: SampledRun, summary: Mapping[str, Any]) -> Chart:
    """C(t) with errors, and A cosh(M(L/2 − t)) from where it was fitted."""
    series: list[Series] = []
    derived = summary.get("derived", {})
    for name, colour in (("pion", VERMILION), ("eta", BLUE)):
        mean = np.array(summary[name]["mean"], np.float64)
        error = np.array(summary[name]["error"], np.float64)  # None becomes NaN
        times = np.arange(len(mean))
        positive = [float(value) if value > 0 else None for value in mean]
        errors = [float(e) if np.isfinite(e) else None for e in error]
        series.append(Series(run.symbol(name), times.tolist(), positive, "points", colour, error=errors))
        if f"{name}_mass" in derived:
            mass, first = derived[f"{name}_mass"]["mean"], int(derived[f"{name}_fit_from"]["mean"])
            shape = np.cosh(mass * (len(mean) - 1 - times))[first:]
            amplitude = np.sum(mean[first:] * shape / error[first:] ** 2) / np.sum((shape / error[first:]) ** 2)
            label = f"{run.symbol(f'{name}_mass')} = {shown_mean(derived[f'{name}_mass'])}"
            series.append(Series(label, times[first:].tolist(), (amplitude * shape).tolist(), "line", colour))
    caption = "Correlators at zero momentum against the separation in time, symmetric about half the lattice."
    name = f"correlators-{run.path.name}"
    return Chart(name, f"Mesons, {run.path.name}", caption, [Panel("t/a", "C(t)", series, y_log=True)], columns=1)


def pion_chart(runs: Sequence[SampledRun]) -> Chart | None:
    """M_π/g against (m − m_c)/g, with g = 1/√β, beside the continuum; None where no run has a mass."""
    points = []
    for run in runs:
        described, summary = run.history.attributes, run.summary or {}
        critical = critical_mass(float(described["beta"]))
        mass = summary.get("derived", {}).get("pion_mass")
        if critical is not None and mass is not None and mass["error"] is not None:
            scale = float(described["beta"]) ** 0.5
            points.append(((float(described["mass"]) - critical) * scale, mass["mean"] * scale, mass["error"] * scale))
    if not points:
        return None
    x, y, error = (list(column) for column in zip(*sorted(points), strict=True))
    fine = np.linspace(0, 1.1 * max(x), 100)
    curve = Series("2.008 m^{2/3}", fine.tolist(), (_CONTINUUM * fine ** (2 / 3)).tolist(), "line", GREY, dashed=True)
    measured = Series("measured", x, y, "points", BLACK, error=error)
    panel = Panel("(m − m_{c})/g", "M_{π}/g", [curve, measured], x_limits=(0.0, 1.15 * max(x)))
    caption = (
        "The pion mass against the mass of fermions, in units of g = 1/√β. At the bare mass m_{c}, known from large "
        "lattices, the pion is massless; the line holds in the continuum for small masses."
    )
    return Chart("pion-mass", "The pion mass", caption, [panel], columns=1)


def critical_mass(beta: float) -> float | None:
    """m_c at 1 ≤ β ≤ 6, linear in 1/β between the values that are known."""
    inverse = 1 / np.arange(1.0, 7.0)
    if not 1 <= beta <= 6:
        return None
    return -float(np.interp(1 / beta, inverse[::-1], _CRITICAL[::-1]))

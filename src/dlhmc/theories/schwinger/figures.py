"""What a report shows of runs with fermions: mesons, the pion mass, and costs along lines of constant physics."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from dlhmc.comparison.results import NOTHING, Entry, Quantity, in_time, in_trajectories
from dlhmc.report.charts import BLACK, BLUE, GREY, VERMILION, Block, Chart, Panel, Section, Series
from dlhmc.report.comparisons import ComparedRun
from dlhmc.report.costs import best_panel, cost_table
from dlhmc.report.curves import Curve
from dlhmc.report.families import Family
from dlhmc.report.figures import Figures
from dlhmc.report.sampling import SampledRun
from dlhmc.runs.summary import shown_mean
from dlhmc.theories.schwinger.theory import SchwingerSettings

#: −m_c of Wilson fermions at β = ∞, 6 … 1, N_f = 2, known from large lattices to a few units of the last digit
_CRITICAL = (0.0, 0.0719, 0.0840, 0.1033, 0.1351, 0.1968, 0.3204)
#: how far L/√β and (m − m_c)√β may be apart on a line of constant physics
_ALIKE = 0.02
#: M_π = 2.008 m^{2/3} g^{1/3} of two light flavours in the continuum (Smilga, Phys. Rev. D 55 (1997) 443)
_CONTINUUM = 2.008


class SchwingerFigures(Figures):
    """Correlators with their fits; M_π against the mass, of all runs together."""

    axis: ClassVar[str | None] = "beta"
    moves: ClassVar[str] = "HMC with hits"

    def where(self, run: ComparedRun) -> str:
        """16×16 at β = 7, m = −0.04."""
        settings = cast(SchwingerSettings, run.settings)
        at = f"{'×'.join(map(str, settings.lattice))} at β = {settings.beta:g}, m = {settings.bare_mass:.4g}"
        return at.replace("-", "−")

    def judged(self, run: ComparedRun) -> str:
        """The charge."""
        return "topological charge"

    def families(self, runs: Sequence[ComparedRun], curves: Sequence[Curve]) -> list[Family]:
        """Lines of constant physics; what is on none, along β."""
        lines: list[list[ComparedRun]] = []
        for run in runs:
            same = (line for line in lines if np.allclose(_physics(line[0]), _physics(run), rtol=0, atol=_ALIKE))
            if (line := next(same, None)) is None:
                lines.append(line := [])
            line.append(run)
        beta = Family(runs, self.axis).at
        long = [sorted(line, key=beta) for line in lines if len(set(map(beta, line))) > 1]
        rest = [run for line in lines if len(set(map(beta, line))) == 1 for run in line]
        return [Family(line, self.axis) for line in long] + (super().families(rest, curves) if rest else [])

    def costs(self, family: Family) -> Section:
        """Along a line: τ_int, time and work of the best of each kind."""
        if len(family.runs) == 1:
            return super().costs(family)
        return Section("What it costs along β", [line_chart(family, self), cost_table(family, self.moves)])

    def layers(self, run: ComparedRun) -> list[Block]:
        """Nothing: layers see no fermions, and to bring so many chains to equilibrium takes longer than the race."""
        return []

    def sampled(self, run: SampledRun) -> list[Block]:
        """The correlators, where they were measured."""
        return [] if run.summary is None or "pion" not in run.summary else [correlator_chart(run, run.summary)]

    def together(self, runs: Sequence[SampledRun]) -> list[Block]:
        """M_π against the mass."""
        chart = pion_chart([run for run in runs if run.summary is not None])
        return [] if chart is None else [chart]


def line_chart(family: Family, figures: SchwingerFigures) -> Chart:
    """τ_int of the charge, time and work against β."""
    panels = [
        best_panel(family, in_trajectories, 1.0, f"τ_{{int}}({family.judge}) (trajectories)", figures.moves),
        best_panel(family, in_time, 1e3, "milliseconds", figures.moves),
    ]
    for name in ("dirac_applications", "lu_decompositions"):

        def work(entry: Entry, name: str = name) -> Quantity:
            return entry.work_per_independent.get(name, NOTHING)

        panels.append(best_panel(family, work, 1.0, f"{family.last.symbol(name)} per charge", figures.moves))
    caption = (
        f"The best of each kind on {'; '.join(figures.where(run) for run in family.runs)}: the autocorrelation time of "
        "the charge, and time, applications of the Dirac operator and LU decompositions of one chain for an "
        "independent charge. Arrows: only a lower limit (95 %) is known."
    )
    return Chart("cost", "Cost of an independent topological charge", caption, panels)


def _physics(run: ComparedRun) -> list[float]:
    """What stays the same toward the continuum: L/√β of both sides, (m − m_c)√β, N_f; NaN where m_c is not known."""
    settings = cast(SchwingerSettings, run.settings)
    root, critical = settings.beta**0.5, critical_mass(settings.beta)
    mass = float("nan") if critical is None else (settings.bare_mass - critical) * root
    return [*(side / root for side in settings.lattice), mass, float(settings.flavours)]


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
    """m_c at β ≥ 1, linear in 1/β between the values that are known; beyond β = 6 as at leading order, m_c ∝ 1/β."""
    inverse = [0.0, *(1 / known for known in range(6, 0, -1))]
    return None if beta < 1 else -float(np.interp(1 / beta, inverse, _CRITICAL))

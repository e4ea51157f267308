"""What a report shows of runs with fermions: mesons, the pion mass, and costs along lines of constant physics."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from dlhmc.report.compared import ComparedRun
from dlhmc.report.figures import Figures
from dlhmc.report.page import Block, Picture
from dlhmc.report.plots import BLACK, BLUE, GREY, VERMILION, add_legend, mark, mathtext, panels
from dlhmc.report.sampling import SampledRun
from dlhmc.run.show import shown_mean
from dlhmc.settings import fields_of
from dlhmc.statistics.quantity import Quantity
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

    def alike(self, one: ComparedRun, other: ComparedRun, axis: str | None) -> bool:
        """Lines of constant physics; what is on none, along β."""
        same = np.allclose(_physics(one), _physics(other), rtol=0, atol=_ALIKE)
        return bool(same) or super().alike(one, other, axis)

    def sampled(self, run: SampledRun) -> list[Block]:
        """C(t) with errors, and A cosh(M(L/2 − t)) from where it was fitted."""
        summary = run.summary
        if "pion" not in summary:
            return []
        derived = summary.get("derived", {})
        figure, (axis,) = panels(1, 1, 8.0, 3.6)
        for name, colour in (("pion", VERMILION), ("eta", BLUE)):
            means, errors = (summary[name][key] for key in ("mean", "error"))
            points = [(t, Quantity(c, e)) for t, (c, e) in enumerate(zip(means, errors, strict=True)) if c > 0]
            mark(axis, points, label=mathtext(run.symbol(name)), color=colour, marker="o", linestyle="none")
            if f"{name}_mass" in derived:
                mass, first = derived[f"{name}_mass"], int(derived[f"{name}_fit_from"]["mean"])
                mean, weight = np.array(means)[first:], np.array(errors, float)[first:] ** -2
                times = np.arange(first, len(means))
                shape = np.cosh(mass["mean"] * (len(means) - 1 - times))
                amplitude = np.sum(weight * mean * shape) / np.sum(weight * shape**2)
                label = mathtext(f"{run.symbol(f'{name}_mass')} = {shown_mean(mass)}")
                axis.plot(times, amplitude * shape, color=colour, label=label)
        axis.set(xlabel="t/a", ylabel="C(t)", yscale="log")
        add_legend(figure)
        caption = "Correlators at zero momentum against the separation in time, symmetric about half the lattice."
        return [Picture(f"correlators-{run.name}", f"Mesons, {run.name}", caption, figure)]

    def together(self, runs: Sequence[SampledRun]) -> list[Block]:
        """M_π/g against (m − m_c)/g, with g = 1/√β, beside the continuum."""
        points = []
        for run in runs:
            described, derived = run.attributes, run.summary.get("derived", {})
            critical, mass = critical_mass(float(described["beta"])), derived.get("pion_mass")
            if critical is not None and mass is not None and mass["error"] is not None:
                scale = float(described["beta"]) ** 0.5
                place = (float(described["mass"]) - critical) * scale
                points.append((place, Quantity(mass["mean"], mass["error"]).times(scale)))
        if not points:
            return []
        figure, (axis,) = panels(1, 1, 8.0, 3.6)
        masses = np.linspace(0, 1.1 * max(place for place, _ in points), 100)
        curve = _CONTINUUM * masses ** (2 / 3)
        axis.plot(masses, curve, "--", color=GREY, label=mathtext("2.008 m^{2/3}"))
        mark(axis, points, label="measured", color=BLACK, marker="o", linestyle="none")
        axis.set(xlabel=mathtext("(m − m_{c})/g"), ylabel=mathtext("M_{π}/g"), xlim=(0.0, None))
        add_legend(figure)
        caption = (
            "The pion mass against the mass of fermions, in units of g = 1/√β. At the bare mass m_{c}, known from "
            "large lattices, the pion is massless; the line holds in the continuum for small masses."
        )
        return [Picture("pion-mass", "The pion mass", caption, figure)]


def _physics(run: ComparedRun) -> list[float]:
    """What stays the same toward the continuum: L/√β of both sides, (m − m_c)√β, N_f; NaN where m_c is not known."""
    names = [field.name for field in fields_of(SchwingerSettings)]
    settings = SchwingerSettings(**{name: run.results.target[name] for name in names if name in run.results.target})
    root, critical = settings.beta**0.5, critical_mass(settings.beta)
    mass = float("nan") if critical is None else (settings.bare_mass - critical) * root
    return [*(side / root for side in settings.lattice), mass, float(settings.flavours)]


def critical_mass(beta: float) -> float | None:
    """m_c at β ≥ 1, linear in 1/β between the values that are known; beyond β = 6 as at leading order, m_c ∝ 1/β."""
    inverse = [0.0, *(1 / known for known in range(6, 0, -1))]
    return None if beta < 1 else -float(np.interp(1 / beta, inverse, _CRITICAL))

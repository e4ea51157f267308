"""What a report shows of comparisons on U(1): the charge beside exact results, and tunnelling layer by layer."""

import math
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array

from dlhmc.geometry.torus import wrap_angle
from dlhmc.report.compared import ComparedRun
from dlhmc.report.figures import Figures
from dlhmc.report.layers import ENERGY, Profile, follow, profile_picture
from dlhmc.report.page import Block, Picture
from dlhmc.report.plots import BLUE, COLOURS, GREEN, add_legend, draw_histories, mathtext, panels
from dlhmc.theories.gauge.figures import GaugeFigures
from dlhmc.theories.u1 import exact
from dlhmc.theories.u1.links import Links, plaquettes
from dlhmc.theories.u1.theory import U1Settings, U1Theory

Q_Z, Q_R = U1Theory.symbols["charge"], U1Theory.symbols["sine_charge"]
_FRAMES = 5


class U1Figures(GaugeFigures):
    """Those of the paper."""

    moves: ClassVar[str] = "HMC + instanton hits"
    judge: ClassVar[str] = "topological charge"

    def compared(self, run: ComparedRun) -> list[Block]:
        """The charge of one chain, and how often each charge occurred."""
        charges = {name: run.history(entry, "charge") for name, entry in run.contenders(self.moves).items()}
        caption = "The charge of one chain after each trajectory. A flat line is a chain that stays in its sector."
        histories = draw_histories({name: values[:, 0] for name, values in charges.items()}, Q_Z)
        return [
            Picture("charge-history", f"Topological charge of one chain, {run.where}", caption, histories),
            _distribution(run, charges),
        ]

    def layers(self, run: ComparedRun) -> list[Block]:
        """Energy and charge along the trajectories; all plaquettes of one that tunnels."""

        def watch(target: Any, x: Links) -> dict[str, Array]:
            observables = target.observables(x)
            return {Q_R: observables["sine_charge"], Q_Z: observables["charge"], "angles": wrap_angle(plaquettes(x))}

        profiles = follow(run, self.moves, watch)
        if not profiles:
            return []
        return [profile_picture(profiles, run.where), _strip(next(iter(profiles.values())), run.where)]


def in_words(settings: U1Settings) -> str:
    """16×16 at β = 7."""
    return f"{'×'.join(map(str, settings.lattice))} at β = {settings.beta:g}"


def _distribution(run: ComparedRun, charges: dict[str, Any]) -> Picture:
    described = run.results.target
    reach = min(100, max(int(np.abs(values).max()) for values in charges.values()) + 1)
    sectors = np.arange(-reach, reach + 1)
    figure, axes = panels(1, 1, 8.0, 3.4)
    axis = axes[0, 0]
    probabilities = exact.charge_distribution(described["beta"], math.prod(described["lattice"]), sectors)
    axis.bar(sectors, np.asarray(probabilities), color=GREEN, alpha=0.45, label="exact P(Q)")
    for number, ((name, values), colour) in enumerate(zip(charges.items(), (BLUE, *COLOURS * 3), strict=False)):
        # The error of a frequency is that of the average of a 0/1 series; chains are independent of each other.
        each = np.stack([(values == sector).mean(axis=0) for sector in sectors])
        error = each.std(axis=1, ddof=1) / math.sqrt(each.shape[1])
        places = sectors + 0.12 * (number - 0.5 * (len(charges) - 1))
        axis.errorbar(places, each.mean(axis=1), error, fmt="o", markersize=4, color=colour, label=mathtext(name))
    axis.set(xlabel=mathtext(Q_Z), ylabel=mathtext(f"P({Q_Z})"), yscale="log", ylim=(1e-6, 1.5))
    add_legend(figure)
    caption = (
        "Frequencies of the charge with errors from the spread of the chains, against the exact distribution (bars). The "
        "chains start from exact configurations, so even a frozen sampler is right on average; its errors are what its "
        "starts left it."
    )
    return Picture("charge-distribution", f"Distribution of the charge, {run.where}", caption, figure)


def _strip(profile: Profile, where: str) -> Picture:
    """All plaquettes of one trajectory: of those that conserve the energy, one that tunnels if any does."""
    change = profile[Q_Z][-1] - profile[Q_Z][0]
    best = int(np.argmin(np.abs(profile[ENERGY][-1]) + np.where(change != 0, 0, 1e6)))
    angles = profile["angles"][..., best]
    shown = np.unique(np.linspace(0, len(angles) - 1, _FRAMES).round().astype(int))
    figure, axes = panels(1, len(shown), 9.2 / len(shown), 2.6)
    for axis, layer in zip(axes[0], shown, strict=True):
        image = axis.imshow(angles[layer].T, origin="lower", cmap="twilight_shifted", vmin=-math.pi, vmax=math.pi)
        axis.set(title=f"after layer {layer}" if layer else "start", xticks=[], yticks=[])
    bar = figure.colorbar(image, ax=axes, shrink=0.75, label=mathtext("x_{P}"))
    bar.set_ticks([-math.pi, 0, math.pi], labels=["−π", "0", "π"])
    change = int(change[best])
    what = f"changes the charge by {change:+d}" if change else "leaves the charge as it is"
    caption = f"Plaquette angles x_{{P}} before, during and after a trajectory that {what}."
    return Picture("tunnelling", f"A {'tunnelling ' if change else ''}trajectory, {where}", caption, figure)

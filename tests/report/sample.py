"""A report with everything in it: all kinds of series, both kinds of axes, films, tables, and texts that attack."""

import math

import numpy as np

from dlhmc.report.charts import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Chart,
    Code,
    Film,
    Frame,
    HeatMap,
    Page,
    Panel,
    Section,
    Series,
    Table,
    Text,
)

#: leaves a script element, an attribute and a comment
HOSTILE = "</script><img src=x onerror=alert(1)>\"'--><svg onload=alert(2)>&\u2028"


def costs() -> Chart:
    """Points with errors and limits on logarithmic axes, bands, lines."""
    betas = [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    hmc = [3.1, 9.8, 41.0, 260.0, 2100.0, 9000.0]
    learned = [2.2, 3.4, 5.9, 11.0, 24.0, 60.0]
    times = Panel(
        "β",
        "τ_{int}(Q) in trajectories",
        [
            Series(
                "HMC",
                betas,
                hmc,
                "points",
                BLACK,
                error=[0.2, 0.6, 3.0, 40.0, None, None],
                is_limit=[False] * 4 + [True] * 2,
                joined=True,
                notes=[f"leapfrog {round(beta)}/40" for beta in betas],
            ),
            Series("DLHMC", betas, learned, "points", BLUE, error=[0.1 * tau for tau in learned], marker="s"),
            Series(
                "DLHMC, fit",
                betas,
                [0.8 * tau for tau in learned],
                "band",
                BLUE,
                upper=[1.2 * tau for tau in learned],
            ),
            Series("∝ exp(1.7 β)", betas, [0.1 * math.exp(1.7 * beta) for beta in betas], "line", GREY, dashed=True),
        ],
        title="Autocorrelation time",
        y_log=True,
    )
    gains = Panel(
        "seconds per independent configuration of HMC",
        "gain N_{LF}·τ",
        [
            Series("DLHMC", [0.003, 0.02, 0.3, 4.0, 70.0], [0.5, 0.9, 3.0, None, 41.0], "points", BLUE, marker="s"),
            Series("other markers", [0.01, 0.1, 1.0], [2.0, 6.0, 20.0], "points", PURPLE, marker="D", joined=True),
            Series("crosses", [0.02, 0.2, 2.0], [1.0, 4.0, 11.0], "points", VERMILION, marker="x"),
            Series("as good", [0.003, 70.0], [1.0, 1.0], "line", BLACK, dashed=True),
        ],
        title="Gain over the best HMC",
        x_log=True,
        y_log=True,
        y_limits=(0.3, 100.0),
    )
    return Chart(
        "costs",
        "What an independent configuration costs",
        "Left: integrated autocorrelation time of the topological charge; arrows are lower limits at 95 %. "
        "Right: the gain, where 1 means as good as HMC with its best trajectory.",
        [times, gains],
    )


def histories() -> Chart:
    """Steps, lines with gaps, bars side by side, and large numbers, in three columns."""
    rng = np.random.default_rng(1)
    steps = np.arange(400)
    frozen = np.cumsum(rng.random(400) < 0.01).astype(float)
    moving = np.round(rng.normal(0, 2, 400))
    charges = np.arange(-6, 7)
    counts = 1e6 * np.exp(-(charges**2) / 8)
    return Chart(
        "histories",
        "Topology along the chain",
        "The charge of one chain of each sampler; how often each charge was seen; the loss during training.",
        [
            Panel(
                "trajectory",
                "Q_{ℤ}",
                [
                    Series("DLHMC", steps, moving, "steps", SKY),
                    Series("HMC", steps, frozen, "steps", BLACK),
                ],
                title="Charge",
            ),
            Panel(
                "Q_{ℤ}",
                "configurations",
                [
                    Series("HMC", charges, counts * (charges > -2), "bars", BLACK),
                    Series("DLHMC", charges, counts, "bars", SKY),
                ],
                title="Distribution",
            ),
            Panel(
                "step of training",
                "loss",
                [
                    Series(
                        "training",
                        np.arange(0, 200_000, 2000),
                        [math.nan if 40 < n < 50 else 1e-5 * (2 + math.sin(n / 9)) for n in range(100)],
                        "line",
                        GREEN,
                    ),
                ],
                title="Loss",
            ),
        ],
        columns=3,
    )


def edges() -> Chart:
    """Whatever can be missing."""
    return Chart(
        "edges",
        "Nothing and next to nothing",
        "Empty series, a single point, only gaps, values that a logarithmic axis cannot show.",
        [
            Panel("x", "y", [Series("empty", [], []), Series("only gaps", [1.0, 2.0], [None, None])]),
            Panel("x", "y", [Series("single", [3.0], [5.0], "points", ORANGE, error=[None])], x_log=True, y_log=True),
            Panel(
                "x",
                "y",
                [
                    Series("not positive", [0.0, 1.0, 2.0], [-1.0, 0.0, 3.0], "points", error=[1.0, 1.0, 4.0]),
                    Series("band to zero", [0.5, 1.0, 2.0], [0.0, 0.0, 0.1], "band", GREEN, upper=[1.0, 2.0, 3.0]),
                ],
                y_log=True,
            ),
            Panel("x", "y", []),
        ],
    )


def angles(frames: int = 6, size: int = 16) -> Film:
    """Heat maps: a vortex that wanders."""
    sites = np.arange(size)[:, None], np.arange(size)[None, :]

    def vortex(place: float) -> np.ndarray:
        return np.angle((sites[0] - place) + 1j * (sites[1] - size / 2 - 0.25) + 1e-9)

    return Film(
        "angles",
        "A configuration on its way",
        "Plaquette angles before and after the layer; both ends of the colours are the same angle.",
        [
            Frame(
                f"layer {number} of {frames - 1}",
                maps=[HeatMap("HMC", vortex(4.3) * 0.3), HeatMap("DLHMC", vortex(2.3 + 2 * number))],
            )
            for number in range(frames)
        ],
        colour_label="plaquette angle x_{P}",
    )


def training() -> Film:
    """Panels whose axes must not change from frame to frame."""
    grid = np.linspace(-3, 3, 61)
    return Film(
        "training",
        "What training does",
        "Density of the proposal against the target's; the axes stay the same.",
        [
            Frame(
                f"step {100 * number}",
                panels=[
                    Panel(
                        "x",
                        "p(x)",
                        [
                            Series("target", grid, np.exp(-(grid**2) / 2), "line", BLACK),
                            Series(
                                "proposal", grid, (number + 1) * np.exp(-((grid - 2 + number) ** 2)), "line", ORANGE
                            ),
                        ],
                    )
                ],
            )
            for number in range(4)
        ],
    )


def hostile() -> Section:
    """The same attack in every field that holds text."""
    panel = Panel(
        HOSTILE,
        HOSTILE,
        [Series(HOSTILE, [1.0, 2.0], [1.0, 2.0], "points", HOSTILE, notes=[HOSTILE, HOSTILE])],
        title=HOSTILE,
    )
    return Section(
        HOSTILE,
        [
            Text(HOSTILE),
            Code(HOSTILE, HOSTILE),
            Table(HOSTILE, [HOSTILE, HOSTILE], [[HOSTILE, HOSTILE], [HOSTILE, HOSTILE]]),
            Chart(HOSTILE, HOSTILE, HOSTILE, [panel]),
            Film(
                HOSTILE + "film",
                HOSTILE,
                HOSTILE,
                [Frame(HOSTILE, [panel], [HeatMap(HOSTILE, [[0.0, 1.0], [2.0, 3.0]])]), Frame(HOSTILE, [panel])],
                colour_label=HOSTILE,
            ),
        ],
    )


def page(*, with_hostile: bool = True) -> Page:
    """The whole report."""
    wide = [
        "sampler",
        "acceptance",
        "τ_{int}(Q_{ℤ})",
        "τ_{int}(Q_{ℝ})",
        "N_{LF}·τ",
        "ms per independent",
        "gain",
        "status",
    ]
    sections = [
        Section(
            "Cost",
            [
                Text(
                    "An independent configuration costs 2 τ_{int} trajectories. HMC freezes: its time grows as "
                    "exp(c β), while that of DLHMC grows as β^{2}."
                ),
                costs(),
                Table(
                    "All samplers on 16×16 at β = 6; in brackets the error of the last digits.",
                    wide,
                    [
                        ["leapfrog 4/36", "0.912", "> 2100", "> 1900", "> 75 600", "> 210", "1", "not resolved"],
                        ["DLHMC", "0.774", "24.1(1.3)", "22.8(1.1)", "241(13)", "8.3(4)", "> 25", "finished"],
                        ["DLHMC, no defects", "0.801", "310(40)", "288(37)", "3100(400)", "—", "—", "dropped"],
                    ],
                ),
            ],
        ),
        Section("Topology", [histories(), Text("No chain is left out."), angles()]),
        Section("Training", [training(), Code("Settings of the run", "[target]\nlattice = [16, 16]\nbeta = 6.0\n")]),
        Section(
            "Corner cases", [edges(), Code("Again", "dlhmc compare --target.beta 6 " + "--long-option value " * 8)]
        ),
    ]
    return Page(
        "16×16 U(1) at β = 6" + (HOSTILE if with_hostile else ""),
        "Does the trained sampler pay for itself?" + (HOSTILE if with_hostile else ""),
        "DLHMC is at least 25 times as fast as the best HMC, at 95 % confidence." + (HOSTILE if with_hostile else ""),
        [*sections, hostile()] if with_hostile else sections,
    )

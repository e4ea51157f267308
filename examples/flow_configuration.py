"""A gauge configuration from a file, smoothed by the Wilson flow: its topological charge, slice by slice.

    python examples/flow_configuration.py FILE
    python examples/flow_configuration.py

The file is a NERSC archive, an ILDG file or an openQCD configuration of SU(N) in four dimensions. Without one, a
configuration of SU(3) is made by the heat bath and written first. The picture shows the density of the charge before,
early in and at the end of the flow, and t²E and Q along it.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console

import dlhmc
from dlhmc.geometry import UnitaryMatrices
from dlhmc.io import Configuration, read, write
from dlhmc.theories.gauge.flow import Flowed, charge_density, field_strengths, flow

#: of the flow time, where the picture shows the density for the first time after the start
EARLY = 1 / 8


class Smoothed(NamedTuple):
    """A configuration along the flow."""

    times: NDArray[Any]
    #: what was measured at these times, [time, 1]
    measured: Flowed
    #: charge densities [x, y, z, t] at a few flow times
    densities: dict[float, NDArray[Any]]


def make(path: Path, sides: tuple[int, ...], beta: float, sweeps: int, seed: int) -> None:
    """Write a configuration of SU(3) after some sweeps of the heat bath from a cold start."""
    kernel = dlhmc.HeatBath(dlhmc.wilson("su3", sides, beta))
    samples = dlhmc.sample(
        kernel, chains=1, trajectories=1, warmup=sweeps, seed=seed, start="cold", keep_configurations=1
    )
    x = np.asarray(samples.data["configurations"])[0, ..., 0]
    # Links are x[row, column, μ, *site] here and [μ, *site, row, column] in files.
    write(path, Configuration(np.moveaxis(x, (0, 1), (-2, -1))), "nersc")


def smooth(configuration: Configuration, flow_time: float, points: int = 32) -> Smoothed:
    """Flow a configuration."""
    geometry = UnitaryMatrices(configuration.colors, True, (len(configuration.lattice), *configuration.lattice))
    x = jnp.asarray(np.moveaxis(configuration.links, (-2, -1), (0, 1))[..., None], jnp.complex64)

    @jax.jit
    def density(x: Array) -> Float[Array, "x y z t"]:
        return charge_density(field_strengths(x, geometry))[..., 0]

    times = flow_time * np.arange(1, points + 1) / points
    densities = {0.0: np.asarray(density(x))}
    for fraction in (EARLY, 1.0):
        flowed, measured = flow(x, geometry, jnp.asarray(fraction * times))
        densities[fraction * flow_time] = np.asarray(density(flowed))
    return Smoothed(times, measured, densities)


def picture(smoothed: Smoothed, slices: int = 8) -> Figure:
    """Planes through the place where the density is largest at the end, which is put into the middle."""
    times, measured = smoothed.times, smoothed.measured
    last = list(smoothed.densities.values())[-1]
    peak = np.unravel_index(np.argmax(np.abs(last)), last.shape)
    sides = last.shape
    chosen = np.unique(np.linspace(0, sides[3] - 1, min(slices, sides[3])).round().astype(int))
    figure = Figure(figsize=(1.35 * len(chosen) + 1.6, 1.6 * len(smoothed.densities) + 3.0), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(1.6 * len(smoothed.densities), 2.6))
    above, below = parts
    axes = above.subplots(len(smoothed.densities), len(chosen), squeeze=False)
    for row, (flow_time, density) in zip(axes, smoothed.densities.items(), strict=True):
        middle = tuple(side // 2 - int(place) for side, place in zip(sides, peak, strict=True))
        rolled = np.roll(density, middle, axis=(0, 1, 2, 3))[:, :, sides[2] // 2]
        # Each row has colours of its own: the flow damps the noise by orders of magnitude.
        most = float(np.abs(rolled).max()) or 1.0
        for axis, t in zip(row, chosen, strict=True):
            image = axis.imshow(rolled[..., t].T, origin="lower", cmap="RdBu_r", vmin=-most, vmax=most)
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_title(f"$x_4 = {t - sides[3] // 2}$" if flow_time == 0 else "", fontsize=9)
        row[0].set_ylabel(f"flow time {flow_time:g}")
        above.colorbar(image, ax=row, fraction=0.02, pad=0.01, format="%.1g", ticks=[-most, 0, most])
    above.suptitle("Charge density in slices through its largest value at the end of the flow")
    curves: tuple[tuple[str, dict[str, Any], float], ...] = (
        (r"$t^2E$", {"clover": measured.energy, "plaquette": measured.energy_plaquette}, 0.3),
        ("$Q$", {"clover": measured.charge}, round(float(np.asarray(measured.charge)[-1, 0]))),
    )
    for axis, (label, series, reference) in zip(below.subplots(1, 2), curves, strict=True):
        axis.axhline(reference, color="0.6", linewidth=1, linestyle="--")
        for (name, values), colour in zip(series.items(), ("#D55E00", "#0072B2"), strict=False):
            axis.plot(times, np.asarray(values)[:, 0], color=colour, label=name)
        axis.set_xlabel("flow time $t/a^2$")
        axis.set_ylabel(label)
        axis.grid(alpha=0.2)
        if len(series) > 1:
            axis.legend(frameon=False)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    return figure


def main(arguments: Sequence[str] | None = None) -> Smoothed:
    """Read, flow, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="a configuration; one is made if not given")
    parser.add_argument("--flow-time", type=float, default=3.0, help="where the flow ends, in lattice units")
    parser.add_argument("--out", type=Path, default=Path("charge-density.png"), help="the picture")
    parser.add_argument("--lattice", type=int, nargs=4, default=(8, 8, 8, 8), help="of a configuration that is made")
    parser.add_argument("--beta", type=float, default=5.8, help="of a configuration that is made")
    parser.add_argument("--sweeps", type=int, default=200, help="of the heat bath, to make it")
    parser.add_argument("--seed", type=int, default=2, help="of a configuration that is made")
    options = parser.parse_args(arguments)

    console, file = Console(), options.file
    if file is None:
        file = options.out.with_suffix(".nersc")
        make(file, tuple(options.lattice), options.beta, options.sweeps, options.seed)
        console.out(f"configuration: {file}", highlight=False)
    configuration = read(file)
    smoothed = smooth(configuration, options.flow_time)
    picture(smoothed).savefig(options.out, dpi=110)
    charge = float(np.asarray(smoothed.measured.charge)[-1, 0])
    plaquette = configuration.header["plaquette"]
    console.out(f"plaquette {plaquette:.6f}, Q = {charge:.3f} at flow time {options.flow_time:g}", highlight=False)
    console.out(f"picture: {options.out}", highlight=False)
    return smoothed


if __name__ == "__main__":
    main()

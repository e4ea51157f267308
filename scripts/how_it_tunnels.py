"""Draw the two figures of docs/how-it-tunnels.md from a trained defect.

python scripts/how_it_tunnels.py MODEL FOLDER
"""

import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from dlhmc.figures import BLACK, BLUE, ORANGE, VERMILION, save
from dlhmc.layers import Defect
from dlhmc.runs.sampling import learned_kernel
from dlhmc.targets import U1
from dlhmc.targets.u1_links import plaquettes, wrap_angle

CHAINS = 512


def main(model: str, folder: Path) -> None:
    """Follow 512 trajectories from exact configurations at 16×16, β = 7."""
    target = U1((16, 16), 7.0)
    trajectory = learned_kernel(model, target).trajectory
    if not isinstance(trajectory, Defect):
        sys.exit(f"{model} is no defect: train one with dlhmc train.")
    x = target.exact_draws().draw(jax.random.key(1), CHAINS, jnp.dtype("float32"))
    x = wrap_angle(x)
    v = target.momentum(jax.random.key(2), x)
    xs, vs = eqx.filter_jit(trajectory.layer_by_layer)(target, x, v)
    xs, vs = jnp.concatenate([x[None], xs]), jnp.concatenate([v[None], vs])
    angles = jax.vmap(plaquettes)(xs)
    action = 7.0 * jnp.sum(1 - jnp.cos(angles), axis=(1, 2))
    energy = np.asarray(action + 0.5 * jnp.sum(vs * vs, axis=(1, 2, 3)))
    energy = energy - energy[0]
    rest = np.asarray(action - 7.0 * (1 - jnp.cos(angles[:, 0, 0])))
    save(_layers(np.asarray(angles[:, 0, 0]), energy, rest - rest[0]), folder / "tunnelling-layers")
    chain = int(np.argmin(np.abs(energy[-1])))
    save(_maps(np.asarray(wrap_angle(angles))[..., chain]), folder / "tunnelling-maps")


def _layers(angle: np.ndarray, energy: np.ndarray, rest: np.ndarray) -> Figure:
    """The angle in the hole, the energy, and the action of all other plaquettes, against the layer."""
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)
    layers = np.arange(len(angle))
    start = np.round(angle[0] / (2 * np.pi)) * 2 * np.pi
    panels = (
        (angle - start, "angle of the plaquette in the hole", BLUE),
        (energy, r"energy $H - \sum\log|\mathcal{J}|$, from its start", VERMILION),
        (rest, "action of all other plaquettes, from its start", ORANGE),
    )
    for axis, (values, title, colour) in zip(axes, panels, strict=True):
        low, middle, high = np.quantile(values, (0.16, 0.5, 0.84), axis=1)
        axis.fill_between(layers, low, high, color=colour, alpha=0.25, linewidth=0)
        axis.plot(layers, middle, color=colour, marker="o", markersize=3.5)
        axis.axhline(0, color=BLACK, linewidth=0.6)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("leapfrog layer")
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    turn = np.sign(np.median(angle[-1] - start)) * 2 * np.pi
    axes[0].set_yticks([0, turn / 2, turn], ["0", r"$\pm\pi$", r"$\pm 2\pi$"])
    return figure


def _maps(angles: np.ndarray) -> Figure:
    """All plaquettes of one configuration, the hole in the middle, after some of the layers."""
    number = len(angles) - 1
    chosen = [0, number // 4, number // 2, number - number // 4, number]
    figure = Figure(figsize=(11, 2.9), layout="constrained")
    axes = figure.subplots(1, len(chosen))
    image = None
    for axis, layer in zip(axes, chosen, strict=True):
        field = np.roll(angles[layer], (angles.shape[1] // 2, angles.shape[2] // 2), axis=(0, 1))
        image = axis.imshow(field.T, origin="lower", cmap="twilight_shifted", vmin=-np.pi, vmax=np.pi)
        axis.set_title("start" if layer == 0 else f"after layer {layer}", fontsize=10)
        axis.set_xticks([])
        axis.set_yticks([])
    bar = figure.colorbar(image, ax=axes, shrink=0.75)
    bar.set_ticks([-np.pi, 0, np.pi], labels=[r"$-\pi$", "0", r"$\pi$"])
    bar.set_label(r"plaquette $x_P$")
    return figure


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""How often the sector of a window can change, and how often it does: python -m benchmarks.bound."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import dlhmc
from dlhmc.geometry.torus import wrap_angle
from dlhmc.lattice.loops import plaquettes
from dlhmc.models.model import Model
from dlhmc.targets.windows import Windows, windowed

SIDES, CHAINS = (16, 16), 2048


def bound(beta: float, cells: int) -> float:
    """Σ min(P(w), P(w ∓ 2π)) toward the smaller |w|, for the sum w of `cells` independent angles in (−π, π]."""
    points = 2**12
    step = 2 * np.pi / points
    angles = (np.arange(points) + 0.5) * step - np.pi
    one = np.exp(beta * (np.cos(angles) - 1))
    size = 1 << int(np.ceil(np.log2(cells * points)))
    density = np.fft.irfft(np.fft.rfft(one / one.sum(), size) ** cells, size)[: cells * (points - 1) + 1]
    fluxes = (np.arange(len(density)) + 0.5 * cells) * step - cells * np.pi
    moved = np.interp(fluxes - 2 * np.pi * np.sign(fluxes), fluxes, density, left=0, right=0)
    return float(np.minimum(density, moved).sum())


def reached(beta: float, model: str, seed: int = 1) -> tuple[int, float]:
    """The side of a window, and how often one changes its sector in a step from exact configurations."""
    target = dlhmc.U1(SIDES, beta)
    local = Model.open(model).trajectory(target)
    draw_key, step_key = jax.random.split(jax.random.key(seed))
    x = target.exact_draws().draw(draw_key, CHAINS, jnp.dtype(jnp.float32))

    def sector(window, x):
        action = windowed(window)
        cells = wrap_angle(plaquettes(action.embed(x))).reshape(-1, x.shape[-1])[action.cells()]
        return jnp.sum(cells, axis=0)

    def changed(key, window, x):
        kernel = dlhmc.DLHMC(window, local.inside)
        new, _ = kernel.step(key, kernel.init(x))
        return jnp.abs(sector(window, new.x) - sector(window, x)) > np.pi

    windows = Windows.at_origin(target, local.block, x)
    return local.block, float(jax.jit(lambda key: windows.each_alone(key, changed))(step_key).mean())


def main() -> None:
    """A table in Markdown."""
    sys.stdout.write("| β | window | bound | reached | of it |\n|---|---|---|---|---|\n")
    for beta in range(2, 8):
        block, rate = reached(beta, f"u1-b{beta}")
        most = bound(beta, block**2)
        sys.stdout.write(f"| {beta} | {block} × {block} | {most:.3f} | {rate:.3f} | {100 * rate / most:.0f} % |\n")


if __name__ == "__main__":
    main()

"""What happens along the layers of a trajectory, as in the paper's last figures: plaquette, energy, charge."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dlhmc.kernels import HMC
from dlhmc.kernels.integrators import Integrator, integrate
from dlhmc.layers import Phase, Trajectory
from dlhmc.report.charts import BLUE, VERMILION, Chart, Film, Frame, HeatMap, Panel, Series
from dlhmc.targets.contract import Field
from dlhmc.theories.u1.action import U1
from dlhmc.theories.u1.links import plaquettes, wrap_angle

_CHAINS = 512
_BINS = 24
_PANELS = ("⟨x_{P} − x_{P}^{*}⟩", "H − Σ log|J|, from its start", "Q_{ℝ}, from its start")


class Profile(NamedTuple):
    """[layer, chain], the start included: average plaquette minus its exact value; energy and charge minus theirs."""

    plaquette: NDArray[Any]
    energy: NDArray[Any]
    charge: NDArray[Any]
    #: x_P of the trajectory that conserves the energy best, [layer, x, t], plaquette (0, 0) in the middle
    angles: NDArray[Any]


def learned_profile(trajectory: Trajectory, target: U1, seed: int = 1) -> Profile:
    """Of a trained trajectory, from exact configurations."""
    return _profile(target, seed, trajectory.layer_by_layer)


def hmc_profile(hmc: HMC, target: U1, seed: int = 1) -> Profile:
    """Of HMC, from exact configurations."""

    def layer_by_layer(target: U1, x: Field, v: Field) -> Phase:
        return _steps(target, hmc.integrator, x, v, hmc.step_size, int(hmc.steps))

    return _profile(target, seed, layer_by_layer)


def _steps(target: U1, integrator: Integrator, x: Field, v: Field, step_size: Any, number: int) -> Phase:
    """A trajectory step by step."""

    def step(xv: tuple[Field, Field], _: None) -> tuple[tuple[Field, Field], Phase]:
        x, v = integrate(target, integrator, *xv, step_size, jnp.int32(1))
        return (x, v), Phase(x, v, jnp.zeros(x.shape[-1], x.dtype))

    return jax.lax.scan(step, (x, v), None, length=number)[1]


def _profile(target: U1, seed: int, layer_by_layer: Any) -> Profile:
    start, momentum = jax.random.split(jax.random.key(seed))
    x = wrap_angle(target.exact_draws().draw(start, _CHAINS, jnp.dtype(jnp.result_type(float))))
    v = target.momentum(momentum, x)

    @eqx.filter_jit
    def follow(target: U1, x: Field, v: Field) -> tuple[Any, ...]:
        later = layer_by_layer(target, x, v)
        begin = Phase(x, v, jnp.zeros(x.shape[-1], x.dtype))
        all_of_it = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), begin, later)
        kinetic = 0.5 * jnp.sum(all_of_it.v**2, axis=(1, 2, 3))
        action = jax.vmap(lambda y: jnp.sum(target.local_action(y), axis=(0, 1)))(all_of_it.x)
        energy = action + kinetic - all_of_it.log_jacobian
        return (
            jax.vmap(target.plaquette)(all_of_it.x),
            energy - energy[0],
            jax.vmap(target.sine_charge)(all_of_it.x),
            jax.vmap(plaquettes)(all_of_it.x),
        )

    plaquette, energy, charge, angles = (np.asarray(a) for a in follow(target, x, v))
    # Among trajectories that conserve the energy, one that tunnels if any does.
    tunnels = np.abs(np.rint(charge[-1] - charge[0])) > 0
    best = int(np.argmin(np.abs(energy[-1]) + np.where(tunnels, 0, 1e6)))
    shown = np.asarray(wrap_angle(jnp.asarray(angles[..., best])))
    middle = tuple(side // 2 for side in target.lattice)
    return Profile(
        plaquette - target.exact()["plaquette"],
        energy,
        charge - charge[0],
        np.roll(shown, middle, axis=(1, 2)),
    )


def profile_chart(profiles: dict[str, Profile], title: str) -> Chart:
    """Median and central 68 % over the batch after each layer, a row for each sampler."""
    panels = []
    for (name, profile), colour in zip(profiles.items(), (VERMILION, BLUE), strict=False):
        for label, values in zip(_PANELS, profile[:3], strict=True):
            layers = list(range(len(values)))
            low, middle, high = (q.tolist() for q in np.quantile(values, (0.16, 0.5, 0.84), axis=1))
            band = Series(name, layers, low, "band", colour, upper=high)
            panels.append(Panel("leapfrog layer", label, [band, Series(name, layers, middle, "line", colour)], name))
    return Chart(
        "layers",
        title,
        f"Median and central 68 % over {_CHAINS} trajectories from exact configurations. The trained sampler raises "
        "the energy in the middle of the trajectory, moves the charge by one, and pays the energy back. Σ log|J| is "
        "part of the energy that accept/reject looks at. The trained layers act forwards here; other chains "
        "see the mirror image.",
        panels,
        columns=3,
    )


def profile_film(profile: Profile, title: str) -> Film:
    """The distribution over the batch after each layer."""
    edges = [_edges(values) for values in profile[:3]]
    frames = []
    for layer in range(len(profile.energy)):
        panels = []
        for label, values, bins in zip(_PANELS, profile[:3], edges, strict=True):
            counts = np.histogram(np.clip(values[layer], bins[0], bins[-1]), bins)[0] / values.shape[1]
            centres = 0.5 * (bins[1:] + bins[:-1])
            bars = Series("trained", centres.tolist(), counts.tolist(), "bars", VERMILION)
            panels.append(Panel(label, "fraction of the batch", [bars]))
        frames.append(Frame(_after(layer), panels=panels))
    return Film(
        "layers-film",
        title,
        "The distributions of the figure above, layer by layer. The outermost bars hold everything beyond them.",
        frames,
    )


def _edges(values: NDArray[Any]) -> NDArray[Any]:
    low, high = np.quantile(values, (0.002, 0.998))
    return np.linspace(low, high if high > low else low + 1, _BINS + 1)


def tunnelling_film(profile: Profile, title: str) -> Film:
    """All plaquettes of one trajectory."""
    frames = [
        Frame(_after(layer), maps=[HeatMap("x_{P}", field.round(4).tolist())])
        for layer, field in enumerate(profile.angles)
    ]
    return Film(
        "tunnelling",
        title,
        "Plaquette angles of one configuration, the place of the defect in the middle, before, during and after a "
        "trajectory that changes the charge by one.",
        frames,
        colour_label="x_{P}",
    )


def _after(layer: int) -> str:
    return "start" if layer == 0 else f"after layer {layer}"

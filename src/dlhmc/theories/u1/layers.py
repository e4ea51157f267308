"""What learned trajectories do, layer by layer: energy and charge, and all plaquettes of one that tunnels."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from dlhmc.errors import UserError
from dlhmc.geometry.contract import sum_sites
from dlhmc.geometry.torus import wrap_angle
from dlhmc.lattice.loops import plaquettes
from dlhmc.layers import Phase, Trajectory
from dlhmc.models.model import Model
from dlhmc.report.compared import ComparedRun
from dlhmc.report.page import Block, Picture
from dlhmc.report.plots import COLOURS, mathtext, panels
from dlhmc.targets import Target
from dlhmc.theories.u1.theory import SYMBOLS

#: numbers [layer, …, chain], the start included, by their label
Profile = Mapping[str, NDArray[Any]]
PLAQUETTE, CHARGE, ANGLES = "⟨x_{P} − x_{P}^{*}⟩", "charge", "angles"
ENERGY, SINE_CHARGE = "H − Σ log|J|, from its start", f"{SYMBOLS['sine_charge']}, from its start"
CHAINS = 512
_FRAMES = 5
# It runs only once: to optimise it would take longer.
_OPTIONS = {"xla_backend_optimization_level": 0}


def layer_blocks(run: ComparedRun) -> list[Block]:
    """Of the best trajectory of each kind; those in turn with HMC are the same."""
    models = {name: entry.model for name, entry in run.contenders.items() if entry.model and not entry.settings}
    try:
        profiles = {name: _follow(run, model) for name, model in models.items()}
    except UserError as error:
        return [f"The layers cannot be shown: {error}"]
    if not profiles:
        return []
    return [_draw_profiles(profiles, run.where), _draw_strip(next(iter(profiles.values())), run.where)]


def _follow(run: ComparedRun, model: str) -> Profile:
    target = cast(Target, run.target)
    # A directory that was moved as a whole keeps its models beside the comparison.
    beside = run.path.parent / Path(model).name
    trajectory = Model.open(str(beside) if beside.exists() else model).kernel(target).trajectory
    keys, dtype = jax.random.split(jax.random.key(1)), jnp.dtype(jnp.result_type(float))
    if (draws := target.exact_draws()) is None:
        raise UserError("there are no exact configurations to start from.")
    x = draws.draw(keys[0], CHAINS, dtype)
    start = Phase(x, target.geometry.momentum(keys[1], x), jnp.zeros(CHAINS, dtype))
    found = eqx.filter_jit(_see, compiler_options=_OPTIONS)(target, trajectory, start)  # type: ignore[call-overload]
    seen = {label: np.asarray(values) for label, values in found.items()}
    seen[PLAQUETTE] = seen[PLAQUETTE] - target.exact()["plaquette"]
    return seen


def _see(target: Target, trajectory: Trajectory, start: Phase) -> dict[str, Array]:
    later = trajectory.layer_by_layer(target, start.x, start.v)
    phases = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, later)

    def look(phase: Phase) -> dict[str, Array]:
        observables, kinetic = target.observables(phase.x), sum_sites(target.geometry.local_kinetic(phase.v))
        return {
            PLAQUETTE: observables["plaquette"],
            ENERGY: target.action(phase.x) + kinetic - phase.log_jacobian,
            SINE_CHARGE: observables["sine_charge"],
            CHARGE: observables["charge"],
            ANGLES: wrap_angle(plaquettes(phase.x)),
        }

    found = jax.lax.map(look, phases)  # vmap would take longer to trace than this to run
    return found | {label: found[label] - found[label][0] for label in (ENERGY, SINE_CHARGE)}


def _draw_profiles(profiles: Mapping[str, Profile], where: str) -> Picture:
    places = [(name, label) for name in profiles for label in (PLAQUETTE, ENERGY, SINE_CHARGE)]
    figure, axes = panels(len(places), len(places) // len(profiles), 3.1, 2.8)
    colours = dict(zip(profiles, COLOURS, strict=False))
    for axis, (name, label) in zip(axes, places, strict=True):
        low, middle, high = np.quantile(profiles[name][label], (0.16, 0.5, 0.84), axis=1)
        axis.fill_between(range(len(low)), low, high, color=colours[name], alpha=0.25, linewidth=0)
        axis.plot(middle, ".-", color=colours[name])
        axis.set(xlabel="leapfrog layer", ylabel=mathtext(label))
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_title(name, fontsize=9, loc="left")
    caption = (
        f"Median and central 68 % over {CHAINS} trajectories from exact draws, before accept/reject. Σ log|J| is part "
        "of the energy that accept/reject looks at. Trajectories go forwards here, in all windows at once if they act "
        "in windows; proposals go either way."
    )
    return Picture("layers", f"Along the layers, {where}", caption, figure)


def _draw_strip(profile: Profile, where: str) -> Picture:
    """Of the trajectories that conserve the energy, one that tunnels if any does."""
    changes = profile[CHARGE][-1] - profile[CHARGE][0]
    best = int(np.argmin(np.abs(profile[ENERGY][-1]) + np.where(changes != 0, 0, 1e6)))
    angles, change = profile[ANGLES][..., best], int(changes[best])
    shown = np.unique(np.linspace(0, len(angles) - 1, _FRAMES).round().astype(int))
    figure, axes = panels(len(shown), len(shown), 9.2 / len(shown), 2.6)
    for axis, layer in zip(axes, shown, strict=True):
        image = axis.imshow(angles[layer].T, origin="lower", cmap="twilight_shifted", vmin=-math.pi, vmax=math.pi)
        axis.set_axis_off()
        axis.set_title(f"after layer {layer}" if layer else "start", fontsize=10)
    bar = figure.colorbar(image, ax=axes, shrink=0.75, label=mathtext("x_{P}"))
    bar.set_ticks([-math.pi, 0, math.pi], labels=["−π", "0", "π"])
    what = f"changes the charge by {change:+d}" if change else "leaves the charge as it is"
    caption = f"Plaquette angles x_{{P}} before, during and after a trajectory that {what}."
    return Picture("tunnelling", f"A {'tunnelling ' if change else ''}trajectory, {where}", caption, figure)

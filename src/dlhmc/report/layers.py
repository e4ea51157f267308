"""What happens along the layers of learned trajectories: the energy, and whatever else one looks at."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from dlhmc.geometry.contract import Field, Momentum, real_dtype, sum_sites
from dlhmc.layers import Phase, Trajectory
from dlhmc.models.model import Model
from dlhmc.report.compared import ComparedRun
from dlhmc.report.page import Picture
from dlhmc.report.plots import COLOURS, mathtext, panels
from dlhmc.targets import Target

#: numbers [layer, …, chain], the start included, by their label
Profile = Mapping[str, NDArray[Any]]
ENERGY = "H − Σ log|J|, from its start"
CHAINS = 512
# They run only once: to optimise them would take longer.
_OPTIONS = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


def follow(run: ComparedRun, moves: str, watch: Callable[[Target, Field], dict[str, Array]]) -> dict[str, Profile]:
    """The best trajectory of each kind, from exact draws: the energy, and functions of the configurations."""
    target, found = run.target, dict[str, Profile]()
    draws = None if target is None else target.exact_draws()
    for name, entry in run.contenders(moves).items():
        # Those in turn with HMC are the same trajectories.
        if target is None or draws is None or entry.model is None or entry.integrator is not None:
            continue
        # A directory that was moved as a whole keeps its models beside the comparison.
        beside = run.path.parent / Path(entry.model).name
        trajectory = Model.open(str(beside) if beside.exists() else entry.model).kernel(target).trajectory
        keys = jax.random.split(jax.random.key(1))
        x = draws.draw(keys[0], CHAINS, jnp.dtype(jnp.result_type(float)))
        v = target.geometry.momentum(keys[1], CHAINS, real_dtype(x))
        seen = eqx.filter_jit(_see, compiler_options=_OPTIONS)(target, trajectory, x, v, watch)  # type: ignore[call-overload]
        found[name] = {label: np.asarray(values) for label, values in seen.items()}
    return found


def _see(
    target: Target, trajectory: Trajectory, x: Field, v: Momentum, watch: Callable[[Target, Field], dict[str, Array]]
) -> dict[str, Array]:
    start = Phase(x, v, jnp.zeros(x.shape[-1], v.dtype))
    later = trajectory.layer_by_layer(target, x, v)
    phases = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, later)

    def look(phase: Phase) -> dict[str, Array]:
        kinetic = sum_sites(target.geometry.local_kinetic(phase.v))
        return {ENERGY: target.action(phase.x) + kinetic - phase.log_jacobian, **watch(target, phase.x)}

    found = jax.lax.map(look, phases)  # vmap would take longer to trace than this to run
    return {**found, ENERGY: found[ENERGY] - found[ENERGY][0]}


def profile_picture(profiles: Mapping[str, Profile], where: str) -> Picture:
    """Median and central 68 % over the chains after each layer, a row for each sampler."""
    labels = [label for label, values in next(iter(profiles.values())).items() if values.ndim == 2]
    figure, axes = panels(len(profiles), len(labels), 9.2 / max(2, len(labels)), 2.4)
    for row, (name, profile), colour in zip(axes, profiles.items(), COLOURS * len(axes), strict=False):
        for axis, label in zip(row, labels, strict=True):
            low, middle, high = np.quantile(profile[label], (0.16, 0.5, 0.84), axis=1)
            axis.fill_between(range(len(low)), low, high, color=colour, alpha=0.25, linewidth=0)
            axis.plot(middle, ".-", color=colour)
            axis.set(xlabel="leapfrog layer", ylabel=mathtext(label), xticks=range(len(low)))
        row[0].set_title(mathtext(name), fontsize=10, loc="left")
    caption = (
        f"Median and central 68 % over {CHAINS} trajectories from exact draws, before accept/reject. Σ log|J| is part of "
        "the energy that accept/reject looks at. Trajectories go forwards here, in all windows at once if they act in "
        "windows; proposals go either way."
    )
    return Picture("layers", f"Along the trajectory, {where}", caption, figure)

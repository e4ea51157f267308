"""What happens along the layers of a trajectory: the energy, and whatever else one looks at."""

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from dlhmc.comparison.results import Entry, in_steps, in_time
from dlhmc.geometry.contract import Field, Momentum, sum_sites
from dlhmc.kernels import DLHMC, HMC, Kernel
from dlhmc.kernels.integrators import integrate
from dlhmc.layers import Phase, Trajectory
from dlhmc.models.model import Model
from dlhmc.names import Scheme
from dlhmc.numerics.leaves import integer, leaf
from dlhmc.report.charts import BLUE, GREEN, ORANGE, PURPLE, VERMILION, Chart, Film, Frame, Panel, Series
from dlhmc.report.comparisons import ComparedRun, in_words, label
from dlhmc.runs.engine import Schedule, advance, begin
from dlhmc.targets import Target

#: the phase after each step of a trajectory, stacked along a new first axis
Way = Callable[[Target, Field, Momentum], Phase]
#: numbers [layer, chain], the start included, by their label
Profile = Mapping[str, NDArray[Any]]
ENERGY = "H − Σ log|J|, from its start"
CHAINS = 512
_BINS = 24
_COLOURS = (VERMILION, BLUE, GREEN, PURPLE, ORANGE)
# From a hot start to equilibrium, where there are no draws.
_EQUILIBRATION = 500


def _compiled_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A program that runs only once: to optimise it would take longer than it runs."""
    options = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
    return eqx.filter_jit(function, compiler_options=options)  # type: ignore[call-overload]


class Batch(NamedTuple):
    """A start that several samplers have in common, each to be followed layer by layer."""

    target: Target
    x: Field
    v: Momentum
    #: by label: the longest trained trajectory, the best HMC, then the longest of each other kind of layers
    ways: dict[str, Way]
    #: the trained one
    trajectory: Trajectory

    @classmethod
    def of(cls, run: ComparedRun, seed: int = 1) -> "Batch | None":
        """From configurations in equilibrium; None without a model, UserError for one that cannot be read."""
        target = run.target
        if target is None:
            return None
        longest: dict[type[Trajectory], tuple[Entry, DLHMC]] = {}
        for entry in run.trained:
            if entry.model is not None:
                trained = _open(run, entry.model).kernel(target)
                longest.setdefault(type(trained.trajectory), (entry, trained))
        if not longest:
            return None
        (first, kernel), *others = longest.values()
        ways: dict[str, Way] = {first.name if others else label(first): kernel.trajectory.layer_by_layer}
        best = run.best("hmc", in_time) or run.best("hmc", in_steps)
        hmc = None
        if best is not None and best.step_size is not None:
            scheme: Scheme = "omelyan" if best.integrator == "omelyan" else "leapfrog"
            hmc = HMC(target, best.step_size, np.int32(best.leapfrog_steps), scheme)
            ways[f"HMC ({in_words(best)})"] = _step_by_step(hmc)
        ways |= {entry.name: trained.trajectory.layer_by_layer for entry, trained in others}
        x = _equilibrium(hmc or kernel, seed)

        @_compiled_once
        def drawn(target: Target, x: Field) -> tuple[Target, Momentum]:
            momentum, refresh = jax.random.split(jax.random.key(seed))
            return target.refresh(refresh, x), target.geometry.momentum(momentum, x)

        refreshed, v = drawn(target, x)
        return cls(refreshed, x, v, ways, kernel.trajectory)

    def follow(self, way: Way, watched: Callable[[Field], dict[str, Array]]) -> dict[str, NDArray[Any]]:
        """The energy from its start, and functions of the configurations, after each layer; the layer is axis 0."""

        @_compiled_once
        def follow(target: Target, x: Field, v: Momentum) -> dict[str, Array]:
            begin = Phase(x, v, jnp.zeros(x.shape[-1], v.dtype))
            later = way(target, x, v)
            phases = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), begin, later)

            def seen(phase: Phase) -> dict[str, Array]:
                kinetic = sum_sites(target.geometry.local_kinetic(phase.v))
                return {ENERGY: target.action(phase.x) + kinetic - phase.log_jacobian, **watched(phase.x)}

            found = jax.lax.map(seen, phases)  # vmap would take longer to trace than this to run
            return {**found, ENERGY: found[ENERGY] - found[ENERGY][0]}

        return {name: np.asarray(values) for name, values in follow(self.target, self.x, self.v).items()}


def _open(run: ComparedRun, model: str) -> Model:
    """A directory that was moved as a whole keeps its models beside the comparison."""
    beside = run.path.parent / Path(model).name
    return Model.open(str(beside) if beside.exists() else model)


def _equilibrium(kernel: Kernel, seed: int) -> Field:
    """Draws, exact if there are such; else where the kernel has come to from a hot start."""
    draws, root = kernel.target.approximate_draws(), integer(seed, np.uint32)
    if draws is not None:
        dtype = jnp.dtype(jnp.result_type(float))
        return _compiled_once(lambda draws: draws.draw(jax.random.key(seed), CHAINS, dtype))(draws)
    number = integer(_EQUILIBRATION)
    carry, schedule = begin(kernel, None, root, "hot", CHAINS), Schedule(root, number, leaf(0.8))
    carry, _ = advance(kernel, schedule, carry, integer(0), number, _EQUILIBRATION, tune=False)
    return kernel.target.geometry.project(carry.state.x)


def _step_by_step(hmc: HMC) -> Way:
    number = int(hmc.steps)

    def way(target: Target, x: Field, v: Momentum) -> Phase:
        def step(xv: tuple[Field, Momentum], _: None) -> tuple[tuple[Field, Momentum], Phase]:
            x, v = integrate(target, hmc.integrator, *xv, hmc.step_size, jnp.int32(1))[:2]
            return (x, v), Phase(x, v, jnp.zeros(x.shape[-1], v.dtype))

        return jax.lax.scan(step, (x, v), None, length=number)[1]

    return way


def profile_chart(profiles: Mapping[str, Profile], title: str, remark: str = "") -> Chart:
    """Median and central 68 % over the batch after each layer, a row for each sampler."""
    panels = []
    for (name, profile), colour in zip(profiles.items(), itertools.cycle(_COLOURS), strict=False):
        for quantity, values in profile.items():
            layers = list(range(len(values)))
            low, middle, high = (q.tolist() for q in np.quantile(values, (0.16, 0.5, 0.84), axis=1))
            band = Series(name, layers, low, "band", colour, upper=high)
            panels.append(Panel("leapfrog layer", quantity, [band, Series(name, layers, middle, "line", colour)], name))
    caption = (
        f"Median and central 68 % over {CHAINS} trajectories from configurations in equilibrium.{remark} Σ log|J| is "
        "part of the energy that accept/reject looks at. Trained layers are followed forwards here; proposals go "
        "either way."
    )
    return Chart("layers", title, caption, panels, columns=len(next(iter(profiles.values()))))


def profile_film(profile: Profile, title: str) -> Film:
    """The distribution over the batch after each layer."""
    edges = {quantity: _edges(values) for quantity, values in profile.items()}
    fractions = {quantity: _fractions(values, edges[quantity]) for quantity, values in profile.items()}
    frames = []
    for layer in range(len(next(iter(profile.values())))):
        panels = []
        for quantity, bins in edges.items():
            centres = 0.5 * (bins[1:] + bins[:-1])
            bars = Series("trained", centres.tolist(), fractions[quantity][layer].tolist(), "bars", VERMILION)
            # At the start all may be in one bar, which would leave the others flat.
            most = 1.1 * float(fractions[quantity][1:].max())
            panels.append(Panel(quantity, "fraction of the batch", [bars], y_limits=(0.0, most)))
        frames.append(Frame(after(layer), panels=panels))
    caption = "The distributions of the figure above, layer by layer. The outermost bars hold everything beyond them."
    # Where the trajectory is farthest from where it may end.
    first = int(np.argmax(np.abs(np.median(profile[ENERGY], axis=1)))) if ENERGY in profile else 0
    return Film("layers-film", title, caption, frames, first=first)


def _fractions(values: NDArray[Any], bins: NDArray[Any]) -> NDArray[Any]:
    """Of the batch in each bin, [layer, bin]."""
    return np.stack([np.histogram(np.clip(one, bins[0], bins[-1]), bins)[0] / len(one) for one in values])


def _edges(values: NDArray[Any]) -> NDArray[Any]:
    low, high = np.quantile(values, (0.002, 0.998))
    return np.linspace(low, high if high > low else low + 1, _BINS + 1)


def after(layer: int) -> str:
    """The label of a frame."""
    return "start" if layer == 0 else f"after layer {layer}"

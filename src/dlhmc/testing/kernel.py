"""Checks of kernels."""

from collections.abc import Callable, Iterable

import equinox as eqx
import jax
import numpy as np

from dlhmc.kernels.contract import Info, Kernel
from dlhmc.kernels.dlhmc import DLHMC
from dlhmc.numerics.leaves import by_name, in_double
from dlhmc.testing.checks import Checked, Problems, as_numbers, bad_numbers, example, run_checks
from dlhmc.testing.stationarity import check_stationarity
from dlhmc.testing.trajectory import round_trips

# Pairs of chains share directions, where their number is even.
_CHAINS = 4


def check_kernel(kernel: Kernel, *, steps: int = 10, chains: int = 10_000, seed: int = 0) -> Checked:
    """A kernel must keep its word about acceptance, and leave its target as it is.

    Whether it does is tested with chains that start from exact draws, where the target has them: an exact kernel is
    refused once in ten thousand times, a biased one for sure if there are enough chains.
    """

    def step() -> Problems:
        x = example(kernel.target, _CHAINS)
        state, info = eqx.filter_jit(lambda kernel, x: kernel.step(jax.random.key(1), kernel.init(x)))(kernel, x)
        if not hasattr(state, "x"):
            yield f"step returns a state without the configurations x: {type(state).__name__}"
            return
        if missing := [name for name in Info._fields if not hasattr(info, name) and name not in Info._field_defaults]:
            yield f"step returns an info without {', '.join(missing)}"
            return
        if bool(jax.tree.structure(state) != jax.tree.structure(kernel.init(x))):  # type: ignore[operator]
            yield "step returns a state of another structure than init"
        if state.x.dtype != x.dtype:
            yield f"step turns x of {x.dtype} into {state.x.dtype}"
        yield from bad_numbers("x after a step", state.x, x.shape)
        for name, value in by_name(info).items():
            if value.shape[-1:] != (_CHAINS,):
                yield f"info{name} has the shape {value.shape}, not a number for each of {_CHAINS} chains"
        probability = as_numbers(info.acceptance)
        if not np.all((probability >= 0) & (probability <= 1)):
            yield "info.acceptance is not between 0 and 1"

    def stationary() -> Problems:
        result = check_stationarity(kernel, steps=steps, chains=chains, seed=seed)
        if result.p_value < 1e-4:
            worst = max(result.pulls, key=lambda name: abs(result.pulls[name]))
            yield (
                f"it changes the distribution: p-value {result.p_value:.1g}, "
                f"{worst} is {result.pulls[worst]:+.1f} σ from its exact value"
            )
        if abs(result.weight_pull) > 5:
            yield f"⟨e^{{−ΔH}}⟩ is {result.weight_pull:+.1f} σ from 1, but energy_change is what acceptance comes from"

    checks: dict[str, Callable[[], Iterable[str]]] = {"step": step}
    skipped = []
    if kernel.target.exact_draws() is None or not kernel.target.exact():
        skipped.append("stationarity: the target has no exact draws or no exact values")
    else:
        checks["stationarity"] = stationary
    if isinstance(kernel, DLHMC):
        checks["inverse"] = lambda: round_trips(in_double(kernel.trajectory), kernel.target)
    return run_checks(kernel, checks, skipped)

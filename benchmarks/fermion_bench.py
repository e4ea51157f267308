"""Dynamical fermions: time, work and memory of an HMC trajectory and of a learned proposal, against the lattice."""

import functools
import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from rich.console import Console

from benchmarks.stopwatch import Contestant, fastest
from dlhmc import tables
from dlhmc.api.building import build_trajectory
from dlhmc.kernels import DLHMC, HMC, Kernel
from dlhmc.targets import Target
from dlhmc.theories.gauge.known import FERMIONS
from dlhmc.theories.schwinger.schwinger import Schwinger

SIDES = (8, 16, 24, 32)
BETA, MASS = 7.0, 0.0
STEP_SIZE, STEPS, CHAINS = 0.08, 8, 8


class Cost(NamedTuple):
    """Of one chain: CPU seconds, counted work by name, and bytes of the compiled step beside its state."""

    seconds: float
    work: dict[str, float]
    memory: float


def measure(rounds: int, console: Console, sides: tuple[int, ...] = SIDES) -> dict[str, dict[int, Cost]]:
    """An HMC trajectory and a learned proposal with LU, on lattices of these sides."""
    found: dict[str, dict[int, Cost]] = {"HMC": {}, "proposal": {}}
    for side in sides:
        with console.status(f"measuring fermions on {side}×{side} …"):
            target = Schwinger((side, side), BETA, MASS)
            learned = DLHMC.of(target, build_trajectory(target, "local"))
            kernels: dict[str, Kernel] = {"HMC": HMC(target, STEP_SIZE, STEPS), "proposal": learned}
            for name, cost in _costs(target, kernels, rounds).items():
                found[name][side] = cost
    return found


def _costs(target: Target, kernels: dict[str, Kernel], rounds: int) -> dict[str, Cost]:
    draws: Any = target.known.approximate_draws(target)
    x = eqx.filter_jit(draws.draw)(jax.random.key(0), CHAINS, jnp.dtype(jnp.float32))
    steps, contestants = {}, {}
    for name, kernel in kernels.items():
        step = eqx.filter_jit(lambda kernel, state: kernel.step(jax.random.key(1), state))
        arguments = kernel, eqx.filter_jit(kernel.init)(x)
        compiled = step.lower(*arguments).compile()  # type: ignore[attr-defined]
        steps[name] = compiled, arguments
        contestants[name] = Contestant(functools.partial(compiled, *arguments), CHAINS)
    seconds = fastest(contestants, rounds, time.process_time)
    return {name: Cost(seconds[name], _work(*steps[name]), _memory(steps[name][0])) for name in steps}


def _work(compiled: Any, arguments: tuple[Any, ...]) -> dict[str, float]:
    return {name: float(jnp.mean(counted)) for name, counted in compiled(*arguments)[1].effort.items()}


def _memory(compiled: Any) -> float:
    return compiled.compiled.memory_analysis().temp_size_in_bytes / CHAINS


def report(found: dict[str, dict[int, Cost]], rounds: int) -> str:
    """A section for the report of `dlhmc bench`."""
    rows = [
        [
            f"{side}×{side}",
            f"{1e3 * hmc.seconds:.3g}",
            f"{hmc.work['dirac_applications']:.0f}",
            f"{hmc.memory / 1e6:.2g}",
            f"{1e3 * proposal.seconds:.3g}",
            f"{proposal.work['lu_decompositions']:.0f}",
            f"{proposal.memory / 1e6:.2g}",
        ]
        for (side, hmc), proposal in zip(found["HMC"].items(), found["proposal"].values(), strict=True)
    ]
    header = ["", "HMC: ms", "Dirac applications", "MB", "learned proposal: ms", "LU decompositions", "MB"]
    return f"""## Dynamical fermions

The Schwinger model at β = {BETA:g}, m = {MASS:g}, float32, {CHAINS} chains, numbers of one chain: an HMC trajectory of
{STEPS} steps of {STEP_SIZE:g}, each with {FERMIONS.inner_steps} of the gauge force, and one of networks in
windows with its determinant in double precision. CPU time, the fastest of {rounds} rounds; applications of Â or Â†,
all of them; the memory of the compiled step beside its state.

{tables.markdown(header, rows)}
"""

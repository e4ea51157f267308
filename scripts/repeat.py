"""Calls compiled steps of several kernels again and again with the same input: a result that differs is a fault of XLA.

python scripts/repeat.py --seconds 60
XLA_FLAGS=--xla_cpu_experimental_ynn_fusion_type=reduce python scripts/repeat.py --kernels covariant
"""

import argparse
import collections
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

import dlhmc
from dlhmc import DLHMC, HMC, wilson
from dlhmc.kernels import Kernel
from dlhmc.targets import Target


def shaken(trajectory: dlhmc.Trajectory) -> dlhmc.Trajectory:
    """With random weights: last layers start at zero, and would hide what comes before."""
    generator = np.random.default_rng(1)
    return jax.tree.map(
        lambda leaf: (
            leaf + jnp.asarray(0.1 * generator.normal(size=leaf.shape), leaf.dtype)
            if eqx.is_inexact_array(leaf)
            else leaf
        ),
        trajectory,
    )


def learned(target: Target, network: str) -> Kernel:
    """With two layers of a kind."""
    return DLHMC(target, shaken(dlhmc.build_trajectory(target, network, leapfrog_steps=2)))


#: kernels with their numbers of chains
KERNELS: dict[str, tuple[Callable[[], Kernel], int]] = {
    "covariant": (lambda: learned(wilson("su2", (4, 4), 4.0), "covariant"), 4000),
    "dense": (lambda: learned(dlhmc.U1((8, 8), 5.0), "dense"), 512),
    "local": (lambda: learned(dlhmc.U1((16, 16), 7.0), "local"), 512),
    "local-u2": (lambda: learned(wilson("u2", (16, 16), 12.0), "local"), 64),
    "hmc-u1": (lambda: HMC(dlhmc.U1((16, 16), 7.0), 0.1, 10), 512),
    "hmc-u2": (lambda: HMC(wilson("u2", (16, 16), 12.0), 0.1, 5), 128),
    "hmc-su3": (lambda: HMC(wilson("su3", (4, 4, 4, 4), 5.7), 0.05, 5), 16),
    "schwinger": (lambda: HMC(dlhmc.Schwinger((8, 8), beta=2.0, mass=0.1), 0.1, 5), 64),
}


def differing(kernel: Kernel, chains: int, seconds: float) -> tuple[int, int]:
    """Calls, and those whose result is not the most frequent one."""
    start = jax.jit(lambda key: kernel.target.start(key, "hot", chains, jnp.float32))  # type: ignore[attr-defined]
    state = jax.jit(kernel.init)(start(jax.random.key(1)))
    step, key = jax.jit(kernel.step), jax.random.key(2)
    found: collections.Counter[bytes] = collections.Counter()
    jax.block_until_ready(step(key, state))  # compiled
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _, info = step(key, state)
        found[np.asarray(info.energy_change).tobytes()] += 1
    return found.total(), found.total() - max(found.values())


def main() -> None:
    """A line for each kernel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each kernel")
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    options, console = parser.parse_args(), Console()
    for name in options.kernels:
        make, chains = KERNELS[name]
        calls, others = differing(make(), chains, options.seconds)
        console.print(f"{name:12} {calls:7} calls, {others} of them differ")


if __name__ == "__main__":
    main()

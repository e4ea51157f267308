"""What a run takes beside its trajectories: `dlhmc.sample` against a bare scan of `kernel.step`."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import dlhmc
from dlhmc.kernels import HMC, Kernel
from dlhmc.numerics import rng
from dlhmc.numerics.leaves import integer
from dlhmc.theories.gauge.field import U1

LATTICE, BETA, CHAINS, TRAJECTORIES = (16, 16), 7.0, 128, 1000


class Seconds(NamedTuple):
    """Of the processor, compilation aside: other work on the machine does not count."""

    bare: float
    run: float


@eqx.filter_jit
def scan(kernel: Kernel, state: Any, seed: jax.Array) -> Any:
    """Nothing but trajectories."""

    def step(state: Any, index: jax.Array) -> tuple[Any, None]:
        return kernel.step(rng.step_key(seed, rng.Purpose.TRAJECTORY, index), state)[0], None

    return jax.lax.scan(step, state, jnp.arange(TRAJECTORIES, dtype=jnp.int32))[0]


def measure(rounds: int) -> Seconds:
    """The fastest of so many rounds each; the first compiles."""
    kernel = HMC(U1(LATTICE, BETA), 0.08, 20)
    options: dict[str, Any] = {"chains": CHAINS, "warmup": 0, "start": "hot", "progress": False}
    x = kernel.target.start(jax.random.key(0), "hot", CHAINS, np.dtype(np.float32))
    state, seed = kernel.init(x), integer(1, np.uint32)

    def seconds(work: Callable[[], Any]) -> float:
        started = time.process_time()
        jax.block_until_ready(work())
        return time.process_time() - started

    found = [
        (
            seconds(lambda: scan(kernel, state, seed)),
            seconds(lambda: dlhmc.sample(kernel, trajectories=TRAJECTORIES, **options).acceptance),
        )
        for _ in range(rounds + 1)
    ]
    return Seconds(*map(min, zip(*found[1:], strict=True)))


def report(seconds: Seconds) -> str:
    """For people."""
    size = "×".join(map(str, LATTICE))
    what = f"{TRAJECTORIES} trajectories of HMC on {size}, {CHAINS} chains"
    more = 100 * (seconds.run / seconds.bare - 1)
    return (
        f"# A run\n\n{what}: {seconds.bare:.2f} s of the processor in a bare scan, {seconds.run:.2f} s in "
        f"`dlhmc.sample` with observables, history in memory and checks: {more:.0f} % more.\n"
    )

"""How fast steps are: a leapfrog step against BlackJAX, a NumPy loop and bare arithmetic, networks against products.

Everything is measured in turn, several rounds over, and the fastest round of each counts: a comparison is a ratio
from one run, because machines are shared and noisy.
"""

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from rich.console import Console
from rich.markdown import Markdown

from benchmarks import fermion_bench, gauge_bench, loop_bench, network_bench
from benchmarks.chunks import sampling_chunk
from benchmarks.stopwatch import Contestant, fastest
from dlhmc import tables
from dlhmc.errors import UserError
from dlhmc.exact.von_mises import U1Draws
from dlhmc.kernels import DLHMC, HMC, Exact, Kernel
from dlhmc.numerics import trig
from dlhmc.run.sampling import Sampler
from dlhmc.run.settings import SampleAmounts
from dlhmc.targets.contract import ExactDraws, Target
from dlhmc.theories.gauge.architectures import LocalArchitecture
from dlhmc.theories.gauge.field import U1
from dlhmc.theories.u1.hits import InstantonHits

LATTICE = (16, 16)
BETA = 7.0
STEP_SIZE = 0.08
STEPS = 20
CHAINS = (128, 1)

OURS = "dlhmc, all of a trajectory"
BARE = "bare scan of the leapfrog arithmetic"
BLACKJAX = "BlackJAX, written the obvious way"
NUMPY = "NumPy loop"

Links = Float[Array, "2 x t chain"]
#: a section of the report, and its numbers
Measured = tuple[str, Any]


class Limits(NamedTuple):
    """What the machine can do at best: microseconds of a leapfrog step and chain."""

    memory: float
    sines: float


def bench(rounds: int, out: Path | None, console: Console, only: str | None = None) -> dict[str, Any]:
    """Measure all parts or one, print, and write the tables if asked to; the numbers are for a program."""
    if only is not None and only not in PARTS:
        raise UserError(f"--only is {only}, but must be one of {', '.join(PARTS)}.")
    found = {name: part(rounds, console) for name, part in PARTS.items() if only in (None, name)}
    report = "\n".join(text for text, _ in found.values())
    console.print(Markdown(report))
    if out is not None:
        out.write_text(report, encoding="utf-8")
        console.print(f"written to {out}", highlight=False)
    return {name: numbers for name, (_, numbers) in found.items()}


def _steps(rounds: int, console: Console) -> Measured:
    """Leapfrog steps, and what the machine could do."""
    times: dict[str, dict[int, float]] = {}
    for chains in CHAINS:
        with console.status(f"measuring {chains} chain{'s' if chains > 1 else ''} …"):
            for name, per_step in fastest(_contestants(chains), rounds).items():
                times.setdefault(name, {})[chains] = 1e6 * per_step / chains
    with console.status("measuring the machine …"):
        limits = _limits(CHAINS[0], rounds)
    return _report(times, limits, rounds), {"microseconds": times, "limits": limits._asdict()}


def _samplers(rounds: int, console: Console) -> Measured:
    """A step of each sampler of U(1), networks in windows among them."""
    target, chains, steps = U1(LATTICE, BETA), CHAINS[0], 100
    windows = LocalArchitecture().completed(target)
    hmc = HMC(target, STEP_SIZE, STEPS)
    kernels: dict[str, Kernel] = {
        f"HMC, {STEPS} leapfrog steps": hmc,
        "the same and an instanton hit": InstantonHits(hmc, 1),
        f"networks in windows of {windows.window}×{windows.window}, {windows.leapfrog_steps} layers": DLHMC(
            target, windows.build(target, jax.random.key(0))
        ),
        "an exact draw": Exact(target, U1Draws.build(LATTICE, BETA)),
    }
    amounts = SampleAmounts(chains=chains, chunk=steps, start="exact")
    with console.status("measuring samplers …"):
        contestants = {k: Contestant(sampling_chunk(Sampler(kernel), amounts), steps) for k, kernel in kernels.items()}
        times = {name: 1e6 * seconds / chains for name, seconds in fastest(contestants, rounds).items()}
    rows = [[name, f"{time:.3g}"] for name, time in times.items()]
    text = f"""## Samplers

Microseconds of a step of one of {chains} chains, {LATTICE[0]}×{LATTICE[1]}, β = {BETA:g}, float32, with observables
and records; the fastest of {rounds} rounds. Networks take the same time before and after training.

{tables.markdown(["", "µs"], rows)}
"""
    return text, times


def _networks(rounds: int, console: Console) -> Measured:
    with console.status("measuring networks …"):
        rates = network_bench.measure(network_bench.PAPER, rounds)
    return network_bench.report(network_bench.PAPER, rates, rounds), rates._asdict()


def _groups(rounds: int, console: Console) -> Measured:
    found = gauge_bench.measure(rounds, console)
    numbers = [
        setting._asdict() | case._asdict() | {"microseconds": times}
        for setting, cases in found.items()
        for case, times in cases.items()
    ]
    return gauge_bench.report(found, rounds), numbers


def _fermions(rounds: int, console: Console) -> Measured:
    found = fermion_bench.measure(rounds, console)
    numbers = [
        {"kernel": name, "side": side} | cost._asdict() for name, costs in found.items() for side, cost in costs.items()
    ]
    return fermion_bench.report(found, rounds), numbers


def _runs(rounds: int, console: Console) -> Measured:
    with console.status("measuring a run …"):
        seconds = loop_bench.measure(rounds)
    return loop_bench.report(seconds), seconds._asdict()


#: what `--only` chooses from
PARTS: dict[str, Callable[[int, Console], Measured]] = {
    "steps": _steps,
    "samplers": _samplers,
    "networks": _networks,
    "groups": _groups,
    "fermions": _fermions,
    "runs": _runs,
}


@eqx.filter_jit
def _draw(draws: ExactDraws, chains: int) -> Links:
    return draws.draw(jax.random.key(0), chains, jnp.dtype(jnp.float32))


def _contestants(chains: int) -> dict[str, Contestant]:
    """All start in equilibrium; long enough calls to time, about 50 ms each."""
    target = U1(LATTICE, BETA)
    x = _draw(U1Draws.build(LATTICE, BETA), chains)
    trajectories = max(2, 2560 // chains)
    return {
        OURS: _ours(HMC(target, STEP_SIZE, STEPS), chains, trajectories),
        BARE: _bare(target, x, trajectories * STEPS),
        BLACKJAX: _blackjax(x, trajectories),
        NUMPY: _numpy(np.asarray(x), 10 if chains > 1 else 200),
    }


def _ours(kernel: Kernel, chains: int, trajectories: int) -> Contestant:
    """The compiled loop of `dlhmc sample`: momenta, trajectory, accept/reject, observables, records."""
    amounts = SampleAmounts(chains=chains, chunk=trajectories, start="exact")
    return Contestant(sampling_chunk(Sampler(kernel), amounts), trajectories * STEPS)


def _bare(target: Target, x: Links, steps: int) -> Contestant:
    """Kicks and drifts and nothing else."""

    @eqx.filter_jit
    def run(target: Target, x: Links, v: Links) -> tuple[Links, Links]:
        def step(carry: tuple[Links, Links], _: None) -> tuple[tuple[Links, Links], None]:
            x, v = carry
            v = v - STEP_SIZE * target.force(x)
            return (x + STEP_SIZE * v, v), None

        return jax.lax.scan(step, (x, v), None, length=steps)[0]

    return Contestant(lambda: run(target, x, x), steps)


def _blackjax(x: Links, trajectories: int) -> Contestant:
    """BlackJAX's HMC as its documentation shows it: chains first by vmap, jnp.cos, the force by autodiff."""
    try:
        import blackjax
    except ImportError:
        raise UserError("The benchmark compares with BlackJAX: install it with 'pip install dlhmc[dev]'.") from None

    def log_density(links: Float[Array, "2 x t"]) -> Float[Array, ""]:
        p = links[0] + jnp.roll(links[1], -1, axis=0) - jnp.roll(links[0], -1, axis=1) - links[1]
        return -BETA * jnp.sum(1 - jnp.cos(p))

    size = 2 * LATTICE[0] * LATTICE[1]
    flat = jnp.moveaxis(x, -1, 0).reshape(-1, size)
    kernel = blackjax.hmc(
        lambda links: log_density(links.reshape(2, *LATTICE)), STEP_SIZE, jnp.ones(size), num_integration_steps=STEPS
    )

    @jax.jit
    def run(flat: Float[Array, "chain size"]) -> Any:
        def step(state: Any, key: Any) -> tuple[Any, Any]:
            state, info = jax.vmap(kernel.step)(jax.random.split(key, len(flat)), state)
            return state, info.is_accepted

        return jax.lax.scan(step, jax.vmap(kernel.init)(flat), jax.random.split(jax.random.key(0), trajectories))

    return Contestant(lambda: run(flat), trajectories * STEPS)


def _numpy(x: np.ndarray[Any, Any], steps: int) -> Contestant:
    """The same arithmetic in NumPy, chains last."""

    def run() -> np.ndarray[Any, Any]:
        y, v = x.copy(), x.copy()
        for _ in range(steps):
            p = y[0] + np.roll(y[1], -1, axis=0) - np.roll(y[0], -1, axis=1) - y[1]
            flow = np.float32(BETA * STEP_SIZE) * np.sin(p)
            v[0] -= flow - np.roll(flow, 1, axis=1)
            v[1] -= np.roll(flow, 1, axis=0) - flow
            y += np.float32(STEP_SIZE) * v
        return y

    return Contestant(run, steps)


def _limits(chains: int, rounds: int) -> Limits:
    """The time to read and write links and momenta once, and to evaluate one sine for each plaquette."""
    repeats = 200
    fields = jnp.ones((2, 2, *LATTICE, chains), jnp.float32)
    plaquettes = jnp.ones((*LATTICE, chains), jnp.float32)

    def repeat(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return jax.jit(lambda start: jax.lax.fori_loop(0, repeats, lambda _, a: function(a), start))

    touch = repeat(lambda a: a * np.float32(0.999))
    # Sixteen sines after another while the value is in a register: arithmetic without memory.
    chain = 16

    def sines(a: Array) -> Array:
        for _ in range(chain):
            a = trig.sin(a)
        return a

    many_sines = repeat(sines)
    seconds = fastest(
        {
            "memory": Contestant(lambda: touch(fields), repeats),
            "sines": Contestant(lambda: many_sines(plaquettes), repeats * chain),
        },
        rounds,
    )
    return Limits(memory=1e6 * seconds["memory"] / chains, sines=1e6 * seconds["sines"] / chains)


def _report(times: dict[str, dict[int, float]], limits: Limits, rounds: int) -> str:
    many, one = CHAINS
    ours = times[OURS]
    floor = max(limits.memory, limits.sines)
    header = ["", f"{many} chains: µs", "relative", f"{one} chain: µs", "relative"]
    rows = [
        [name, f"{t[many]:.3g}", f"{t[many] / ours[many]:.2f}", f"{t[one]:.3g}", f"{t[one] / ours[one]:.2f}"]
        for name, t in times.items()
    ]
    return f"""# Speed of a leapfrog step

Time of one leapfrog step of one chain: 2D U(1), {LATTICE[0]}×{LATTICE[1]}, β = {BETA:g}, float32, trajectories of
{STEPS} steps from configurations in equilibrium; the fastest of {rounds} rounds in which all took their
turn. Measured by `dlhmc bench` (`make bench`), JAX {jax.__version__} on {jax.devices()[0].device_kind},
{platform.machine()}. Absolute times are those of this machine; the ratios are what counts.

{tables.markdown(header, rows)}

At {many} chains dlhmc is **{times[BLACKJAX][many] / ours[many]:.1f} times** as fast as BlackJAX, and takes
**{ours[many] / times[BARE][many]:.2f} times** as long as the bare arithmetic, although it also draws momenta,
accepts or rejects, measures the observables and records them.

Distance to the limit of the machine: reading and writing links and momenta once takes {limits.memory:.2f} µs a chain,
and one sine for each plaquette {limits.sines:.2f} µs; a leapfrog step of dlhmc takes
{ours[many] / floor:.1f} times the larger of the two.
"""

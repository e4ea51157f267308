"""Gauge fields of larger groups: the time of a link and leapfrog step, against autodiff, heat bath and the machine.

XLA has as many threads as the process that starts it may use cores, and double precision is a matter of the process
too, so each number of cores and precision has a process of its own.
"""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from rich.console import Console

from benchmarks.stopwatch import Contestant, fastest
from dlhmc import tables
from dlhmc.actions import Plaquette
from dlhmc.errors import UserError
from dlhmc.geometry.contract import Geometry, Momentum, sum_sites
from dlhmc.kernels import HMC, Kernel
from dlhmc.lattice.links import Links
from dlhmc.lattice.loops import planes
from dlhmc.run.compilation import use_cache
from dlhmc.targets.contract import with_actions
from dlhmc.theories.gauge.field import wilson
from dlhmc.theories.gauge.groups import Group
from dlhmc.theories.gauge.heatbath import HeatBath

SHORT, LONG = 2, 12
STEP_SIZE = 0.02
_SWEEPS, _REPEATS = 4, 100
_SQUARE = 1024
_CHECKOUT = Path(__file__).resolve().parents[1]


class Case(NamedTuple):
    """A theory, and how many chains of it."""

    group: str
    sides: tuple[int, ...]
    chains: int
    beta: float

    def __str__(self) -> str:
        lattice = f"{self.sides[0]}⁴" if self.sides == (self.sides[0],) * 4 else "×".join(map(str, self.sides))
        return f"{Group.named(self.group)}, {lattice}, {self.chains} chain{'s' if self.chains > 1 else ''}"

    @property
    def links(self) -> int:
        """Of all chains."""
        return len(self.sides) * math.prod(self.sides) * self.chains

    @property
    def flops(self) -> int:
        """Those of the matrix products of a step and link; all other arithmetic counts nothing.

        Two corners and four staples for each plane, link times staples, and in the exponential H·U and H·(H·U); a
        product of N×N matrices has N² entries of N complex products, of 6 flops each, and N − 1 complex sums.
        """
        n, d = Group.named(self.group).colors, len(self.sides)
        products = 6 * len(planes(d)) // d + 1 + (n - 1)
        return products * n * n * (6 * n + 2 * (n - 1))


CASES = (
    Case("su3", (8, 8, 8, 8), 1, 6.0),
    Case("su3", (4, 4, 4, 4), 8, 6.0),
    Case("su2", (8, 8, 8, 8), 1, 2.3),
    Case("su2", (4, 4, 4, 4), 8, 2.3),
    Case("u2", (16, 16), 1, 12.0),
    Case("u2", (16, 16), 128, 12.0),
)


class Setting(NamedTuple):
    """Of a process."""

    cores: int
    precision: str

    @property
    def has_rivals(self) -> bool:
        """Whether others are measured too: they take longer to compile than all the rest."""
        return self == (1, "float32")


SETTINGS = (Setting(1, "float32"), Setting(1, "float64"), Setting(2, "float32"), Setting(2, "float64"))


class AutodiffPlaquette(Plaquette):
    """The same action and products, but a force by autodiff: what the staples by hand are worth."""

    def force(self, geometry: Geometry, x: Links) -> Momentum:
        """The gradient of the action along the algebra."""
        return geometry.gradient(lambda y: sum_sites(self.terms(y)), x)


def measure(
    rounds: int, console: Console, cases: tuple[Case, ...] = CASES
) -> dict[Setting, dict[Case, dict[str, float]]]:
    """Microseconds of a link, by what was done; the memory of a trajectory in fields."""
    found = {}
    for setting in SETTINGS:
        if setting.cores > len(os.sched_getaffinity(0)):
            continue
        with console.status(f"measuring gauge groups, {setting.cores} cores, {setting.precision} …"):
            found[setting] = _in_process(setting, rounds, cases)
    return found


def _in_process(setting: Setting, rounds: int, cases: tuple[Case, ...]) -> dict[Case, dict[str, float]]:
    program = [sys.executable, "-m", "benchmarks.gauge_bench", json.dumps([setting, rounds, cases])]
    environment = os.environ | {"JAX_ENABLE_X64": str(int(setting.precision == "float64"))}
    done = subprocess.run(  # noqa: S603 - our own program
        program, cwd=_CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UserError(f"A measuring process ended: {(done.stderr.splitlines() or ['without a word'])[-1]}")
    return dict(zip(cases, json.loads(done.stdout), strict=True))


def serve() -> None:
    """What a measuring process does."""
    (cores, precision), rounds, cases = json.loads(sys.argv[1])
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))  # before JAX starts its threads
    use_cache()
    setting = Setting(cores, precision)
    found = [_measure_one(Case(group, tuple(sides), *rest), setting, rounds) for group, sides, *rest in cases]
    sys.stdout.write(json.dumps(found))


def _measure_one(case: Case, setting: Setting, rounds: int) -> dict[str, float]:
    dtype = jnp.dtype(setting.precision)
    target = wilson(case.group, case.sides, case.beta)
    x = jax.jit(lambda key: target.start(key, "hot", case.chains, dtype))(jax.random.key(0))
    short, long = (HMC(target, STEP_SIZE, steps) for steps in (SHORT, LONG))
    trajectory = _compiled(long, x)
    square = jnp.ones((_SQUARE, _SQUARE), dtype)
    momenta = jnp.ones((*target.geometry.momentum_shape, case.chains), dtype)
    contestants = {
        "short": _repeated(case, trajectory, short, x),
        "long": _repeated(case, trajectory, long, x),
        "product": Contestant(_bound(jax.jit(jnp.matmul), square, square), 1),
        "touch": Contestant(_bound(_touch, (x, momenta)), _REPEATS),
    }
    if setting.has_rivals:
        autodiff = HMC(with_actions(target, [AutodiffPlaquette(jnp.asarray(case.beta))]), STEP_SIZE, LONG)
        contestants["autodiff"] = Contestant(_bound(_compiled(autodiff, x), autodiff, x), 1)
        contestants["blackjax"] = Contestant(_blackjax(case, x), 1)
        for sweeps in (0, _SWEEPS):
            bath = HeatBath(target, overrelaxation=sweeps)
            contestants[f"bath {sweeps}"] = _repeated(case, _compiled(bath, x), bath, x)
    # Others take no CPU time of a single thread away; of two threads, which wait for each other, only the clock tells.
    clock = time.process_time if setting.cores == 1 else time.perf_counter
    seconds = fastest(contestants, rounds, clock)
    found = {
        "step": (seconds["long"] - seconds["short"]) / (LONG - SHORT),
        "trajectory": seconds["long"] / LONG,
        "touch": seconds["touch"],
        "products": case.flops * case.links / (2 * _SQUARE**3 / seconds["product"]),
    }
    if setting.has_rivals:
        found |= {
            "autodiff": seconds["autodiff"] / LONG,
            "blackjax": seconds["blackjax"] / LONG,
            "heat bath": seconds["bath 0"],
            "overrelaxation": (seconds[f"bath {_SWEEPS}"] - seconds["bath 0"]) / _SWEEPS,
        }
    microseconds = {name: 1e6 * value / case.links for name, value in found.items()}
    return microseconds | {"fields": trajectory.compiled.memory_analysis().temp_size_in_bytes / x.nbytes}


def _bound(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: function(*arguments)


def _repeated(case: Case, function: Callable[..., Any], *arguments: Any) -> Contestant:
    """Often enough to time, where a call is short."""
    calls = max(1, 2**16 // case.links)

    def call() -> None:
        for _ in range(calls):
            jax.block_until_ready(function(*arguments))

    return Contestant(call, calls)


@jax.jit
def _touch(fields: tuple[Array, ...]) -> tuple[Array, ...]:
    """Read and written, many times."""
    return jax.lax.fori_loop(0, _REPEATS, lambda _, parts: tuple(0.999 * part for part in parts), fields)


def _compiled(kernel: Kernel, x: Links) -> Any:
    """A step of a kernel, for any kernel of the kind."""
    step = eqx.filter_jit(lambda kernel, x: kernel.step(jax.random.key(1), kernel.init(x)))
    return step.lower(kernel, x).compile()  # type: ignore[attr-defined]


def _blackjax(case: Case, x: Links) -> Callable[[], Any]:
    """BlackJAX's HMC of D in U = e^{iD}·U₀: chains by vmap, matrices last and multiplied by @, force by autodiff."""
    try:
        import blackjax
    except ImportError:
        raise UserError("The benchmark compares with BlackJAX: install it with 'pip install dlhmc[dev]'.") from None

    target = wilson(case.group, case.sides, case.beta)
    generators = jnp.asarray(target.geometry.generators(), x.dtype)  # type: ignore[attr-defined]
    shape, d = target.geometry.momentum_shape, len(case.sides)

    def log_density(flat: Float[Array, " size"], start: Array) -> Float[Array, ""]:
        h = jnp.einsum("g...,gij->...ij", flat.reshape(shape).astype(x.dtype), generators)
        u = jax.scipy.linalg.expm(1j * h) @ start
        total = jnp.zeros((), flat.dtype)
        for mu, nu in planes(d):
            there, back = u[mu] @ jnp.roll(u[nu], -1, axis=mu), u[nu] @ jnp.roll(u[mu], -1, axis=nu)
            traces = jnp.trace(there @ jnp.conj(back).mT, axis1=-2, axis2=-1).real
            total += jnp.sum(1 - traces / generators.shape[-1])
        return -case.beta * total

    def chain(key: Array, start: Array) -> Any:
        size = math.prod(shape)
        kernel = blackjax.hmc(
            lambda flat: log_density(flat, start),
            STEP_SIZE,
            jnp.ones(size, x.real.dtype),
            num_integration_steps=LONG,
        )
        return kernel.step(key, kernel.init(jnp.zeros(size, x.real.dtype)))

    starts = jnp.moveaxis(x, (-1, 0, 1), (0, -2, -1))
    keys = jax.random.split(jax.random.key(0), case.chains)
    return _bound(jax.jit(jax.vmap(chain)), keys, starts)


def report(found: dict[Setting, dict[Case, dict[str, float]]], rounds: int) -> str:
    """A section for the report of `dlhmc bench`."""
    cases = list(next(iter(found.values())))
    header = ["", *(f"{s.cores} core{'s' if s.cores > 1 else ''}, {s.precision}: a step, with the rest" for s in found)]
    speeds = [
        [str(case), *(f"{times[case]['step']:.3f}, {times[case]['trajectory']:.3f}" for times in found.values())]
        for case in cases
    ]
    rivals = found[SETTINGS[0]]
    names = {
        "products": "limit: products alone",
        "touch": "limit: fields once",
        "autodiff": "force by autodiff",
        "blackjax": "BlackJAX",
        "heat bath": "heat bath",
        "overrelaxation": "overrelaxation",
    }
    rows = [
        [str(case), *(f"{times[name]:.3g}" for name in ("step", "trajectory", *names)), f"{times['fields']:.1f}"]
        for case, times in rivals.items()
    ]
    gains = [f"{t['blackjax'] / t['trajectory']:.0f} ({t['autodiff'] / t['trajectory']:.1f})" for t in rivals.values()]
    return f"""## Gauge groups

Microseconds of a link and leapfrog step: a step alone (the difference of trajectories of {LONG} and {SHORT} steps),
and with all of a trajectory of {LONG} steps (momenta, energies, accept/reject, projection). Each number of cores and
precision in a process of its own; the fastest of {rounds} rounds, on one core in CPU time, which other programs do not
take away, on two by the clock.

{tables.markdown(header, speeds)}

One core, float32, all in turn, µs a link: a step alone and with the rest; its matrix products at the rate of large
products ({_SQUARE}²), and links and momenta read and written once; trajectories with the same code but autodiff of the
action as the force, and with BlackJAX's HMC in the coordinates D of U = e^{{iD}}·U₀ (chains by vmap, matrices last,
`expm`, autodiff); a sweep of the heat bath and of overrelaxation; and the memory of a compiled trajectory beside its
configuration, in configurations.

{tables.markdown(["", "a step", "with the rest", *names.values(), "memory"], rows)}

As fast as BlackJAX (as autodiff under the same leapfrog), times: {", ".join(gains)}.
"""


if __name__ == "__main__":
    serve()

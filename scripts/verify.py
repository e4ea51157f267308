"""Are all samplers exact? New seeds, high statistics, every kernel, rule and network.

python scripts/verify.py --minutes 15            # seeds from the clock, printed
python scripts/verify.py --minutes 15 --seed 7   # the same again

Every kernel is put to two tests of `dlhmc.testing`: exact configurations must stay exact (a χ² over all observables),
and the ranks of exact configurations in short histories must be uniform (Gandy and Scott; reversible kernels only).
Where there are no exact configurations, those of the heat bath must keep their means. So must correlations of
plaquettes at all distances, among them that of windows; and the configurational temperature must stay 1.
Beside them, the exact sampler is held to ⟨Q²⟩ with a number of draws that is fixed beforehand. All p-values are
corrected for their number (Holm); the smallest must be above 1e-3. The first round does every test once, however long
it takes; more rounds with new seeds follow while there is time. Exit code 1 if a test fails.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Key
from rich.console import Console
from scipy import stats

from dlhmc.errors import ExitCode
from dlhmc.exact.characters import charge_squared
from dlhmc.kernels import DLHMC, HMC, Alternating, Exact, Info, Kernel, State
from dlhmc.kernels.integrators import INTEGRATORS
from dlhmc.layers import Trajectory
from dlhmc.models.architectures import architecture
from dlhmc.targets import Target
from dlhmc.targets.contract import known_functions
from dlhmc.targets.temperature import CURVATURE, SLOPE, slope_and_curvature
from dlhmc.testing import check_ranks, check_stationarity, holm
from dlhmc.testing.stationarity import p_value_of_means
from dlhmc.theories.gauge.field import U1, wilson
from dlhmc.theories.gauge.known import charge
from dlhmc.theories.u1.hits import InstantonHits
from dlhmc.theories.vectors.toys import Funnel, Gaussian, GaussianMixture, RoughWell, correlated_gaussian
from dlhmc.training import Algorithm, train
from dlhmc.training.losses import loss_for

LEVEL = 1e-3
# Numbers in the chains of one test, all together.
_WORK = 2**22
# Fixed before anything was drawn: ⟨Q²⟩ to a tenth of a per cent.
_DRAWS_OF_CHARGE, _CHAINS_OF_CHARGE = 2**21, 2**9


class Stay(Kernel):
    """Does nothing: hits after it are hits alone, and reversible."""

    target: Target

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """The same state again."""
        one = jnp.ones(state.x.shape[-1], state.x.dtype)
        return state, Info(one, one > 0, 0 * one, one < 0)


def hmc(target: U1, integrator: str = "leapfrog") -> HMC:
    """Steps so large that accept/reject matters."""
    unit = 1.2 / float(target.actions[0].coefficient) ** 0.5 / math.prod(target.geometry.elements[1:]) ** 0.25
    return HMC(target, *((unit, 5) if integrator == "leapfrog" else (1.7 * unit, 3)), INTEGRATORS[integrator])


def new(target: Target, network: str, seed: int, **settings: Any) -> Trajectory:
    """A small model as it is before training."""
    if network == "dense":
        settings = {"leapfrog_steps": 3, "hidden": (8, 8), "step_size": 0.25} | settings
    return architecture(network)(**settings).completed(target).build(target, jax.random.key(seed))


def random(trajectory: Trajectory, scale: float, seed: int) -> Trajectory:
    """Normal numbers added to all parameters."""
    dynamic, static = eqx.partition(trajectory, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(dynamic)
    generator = np.random.default_rng(seed)
    noisy = [leaf + jnp.asarray(scale * generator.normal(size=leaf.shape), leaf.dtype) for leaf in leaves]
    return eqx.combine(jax.tree.unflatten(structure, noisy), static)


def trained(target: Target, trajectory: Trajectory, steps: int, seed: int) -> Trajectory:
    """As so many steps of training leave it."""
    algorithm = Algorithm(target, None, loss_for(target, None).function, optax.adam(3e-3))
    dtype = jnp.dtype(jnp.result_type(float))
    x = jax.jit(lambda draws, key: draws.draw(key, 64, dtype))(target.exact_draws(), jax.random.key(seed))
    return train(algorithm, trajectory, x, steps=steps, seed=seed)[0].trajectory


class Case(NamedTuple):
    """A kernel to test, made from a seed; `test` asks for one test alone instead of those of all kernels."""

    make: Callable[[int], Kernel]
    reversible: bool = True
    float64: bool = False
    test: Literal["all", "correlations", "temperature"] = "all"


def cases() -> dict[str, Case]:
    """Every kernel, rule and network, on several lattices, in both precisions."""
    table: dict[str, Case] = {}
    couplings = {(4, 4): 2.0, (6, 4): 3.0, (8, 8): 5.0, (16, 16): 7.0}
    hand_made: dict[str, tuple[Callable[[U1], Kernel], bool, tuple[tuple[int, int], ...], tuple[int, int]]] = {
        # how it is made, whether it is reversible, lattices in float32, lattice in float64
        "leapfrog": (hmc, True, ((4, 4), (16, 16)), (6, 4)),
        "omelyan": (lambda t: hmc(t, "omelyan"), True, ((6, 4),), (8, 8)),
        "leapfrog and hits": (lambda t: InstantonHits(hmc(t), 2), False, ((8, 8),), (4, 4)),
        "hits alone": (lambda t: InstantonHits(Stay(t), 2), True, ((6, 4),), (16, 16)),
        "exact": (lambda t: Exact(t, t.exact_draws()), True, ((8, 8),), (6, 4)),
    }
    for name, (make, reversible, single, double) in hand_made.items():
        for lattice, float64 in [(sides, False) for sides in single] + [(double, True)]:
            label = f"{name} {lattice[0]}×{lattice[1]} β={couplings[lattice]:g}{' float64' if float64 else ''}"
            build = lambda _, m=make, sides=lattice: m(U1(sides, couplings[sides]))  # noqa: E731
            table[label] = Case(build, reversible, float64)
    small, wide, box, large = (lambda sides=sides: U1(sides, couplings[sides]) for sides in couplings)

    def noisy(target: Callable[[], Target], network: str, scale: float, **settings: Any) -> Callable[[int], Kernel]:
        def kernel(seed: int) -> Kernel:
            built = target()
            return DLHMC(built, random(new(built, network, seed, **settings), scale, seed))

        return kernel

    def taught(target: Callable[[], Target], network: str, steps: int, **settings: Any) -> Callable[[int], Kernel]:
        def kernel(seed: int) -> Kernel:
            built = target()
            return DLHMC(built, trained(built, new(built, network, seed, **settings), steps, seed))

        return kernel

    def with_hmc(target: Callable[[], U1], kernel: Callable[[int], Kernel]) -> Callable[[int], Kernel]:
        return lambda seed: Alternating(kernel(seed), hmc(target()))

    def gaussian() -> Gaussian:
        return Gaussian(np.array([0.5, 1.0, 1.0, 2.0]))

    def odd() -> U1:
        return U1((7, 9), 3.0)

    def uneven() -> U1:
        return U1((11, 12), 7.0)

    def matrices(group: str, sides: tuple[int, ...], beta: float) -> Callable[[], Target]:
        return lambda: wilson(group, sides, beta)

    circle, links, paper = {"rule": "circle"}, {"heads": "links", "window": 3}, {"heads": "paper", "window": 3}
    table |= {
        "dense circle random 4×4 β=2": Case(noisy(small, "dense", 0.1, **circle)),
        "dense circle random 4×4 β=2 float64": Case(noisy(small, "dense", 0.1, **circle), True, True),
        "dense circle half-trained 4×4 β=2": Case(taught(small, "dense", 30, **circle)),
        "dense circle trained 4×4 β=2": Case(taught(small, "dense", 300, **circle)),
        "dense shift random 6×4 β=3": Case(noisy(wide, "dense", 0.1, rule="shift")),
        "dense affine random Gaussian": Case(noisy(gaussian, "dense", 0.15, rule="affine")),
        "dense affine trained Gaussian float64": Case(taught(gaussian, "dense", 300, rule="affine"), True, True),
        "windows random 16×16 β=7": Case(noisy(large, "local", 0.04)),
        "windows random 11×12 β=7": Case(noisy(uneven, "local", 0.04)),
        "windows random 7×9 β=3 float64": Case(noisy(odd, "local", 0.06), True, True),
        "windows, heads of links, random 7×9 β=3": Case(noisy(odd, "local", 0.06, **links)),
        "windows, the paper's heads, random 7×9 β=3": Case(noisy(odd, "local", 0.06, **paper)),
        "windows trained 8×8 β=5": Case(taught(box, "local", 300)),
        "windows and HMC 11×12 β=7": Case(with_hmc(uneven, noisy(uneven, "local", 0.04)), False),
        "windows random U(2) 7×9 β=8": Case(noisy(matrices("u2", (7, 9), 8.0), "local", 0.05, window=2)),
        "windows random SU(2) 6×4×4 β=2.2": Case(noisy(matrices("su2", (6, 4, 4), 2.2), "local", 0.04, window=3)),
        "windows random U(2) 6×4×4 β=6": Case(noisy(matrices("u2", (6, 4, 4), 6.0), "local", 0.02, window=3)),
    }
    for test in ("correlations", "temperature"):
        table |= {
            f"{test}: leapfrog 16×16 β=7": Case(lambda _: hmc(large()), test=test),
            f"{test}: windows random 16×16 β=7": Case(noisy(large, "local", 0.04), test=test),
            f"{test}: windows and HMC 11×12 β=7": Case(with_hmc(uneven, noisy(uneven, "local", 0.04)), test=test),
        }
    groups: dict[str, Callable[[], Target]] = {
        "U(2) 7×9 β=8": matrices("u2", (7, 9), 8.0),
        "SU(2) 6×4×4 β=2.2": matrices("su2", (6, 4, 4), 2.2),
    }
    for name, target in groups.items():
        kernel = noisy(target, "local", 0.04, window=2 if "7×9" in name else 3)
        table[f"temperature: windows random {name}"] = Case(kernel, test="temperature")
    vectors: dict[str, Callable[[], Kernel]] = {
        "correlated Gaussian": lambda: HMC(correlated_gaussian(), 0.4, 6),
        "mixture": lambda: HMC(GaussianMixture(separation=2.0, variance=0.3, weights=(1, 2)), 0.7, 3),
        "rough well": lambda: HMC(RoughWell(dim=2, eta=1e-2), 0.4, 5),
        "wide funnel": lambda: HMC(Funnel(sigma=0.5), 0.3, 4),
    }
    for name, make in vectors.items():
        table[f"leapfrog {name}"] = Case(lambda _, make=make: make())
    return table


def charge_of_exact_draws(seed: int) -> dict[str, float]:
    """⟨Q²⟩ of the exact sampler on 16×16 at β = 7: mean, error, exact, z and p."""
    target = U1((16, 16), 7.0)
    draws = target.exact_draws()

    @eqx.filter_jit
    def total(draws: object, key: Array, number: Array) -> Array:
        def add(index: Array, so_far: Array) -> Array:
            x = draws.draw(jax.random.fold_in(key, index), _CHAINS_OF_CHARGE, jnp.dtype(jnp.float32))
            sector = charge(x).astype(jnp.int32)
            return so_far + jnp.stack([jnp.sum(sector**2), jnp.sum(sector**4)])

        return jax.lax.fori_loop(0, number, add, jnp.zeros(2, jnp.int32))

    second = fourth = 0
    batches, at_once = _DRAWS_OF_CHARGE // _CHAINS_OF_CHARGE, 64  # sums of so many fit into 32 bits
    for first in range(0, batches, at_once):
        key = jax.random.fold_in(jax.random.key(seed), first)
        sums = np.asarray(total(draws, key, jnp.int32(at_once)))
        second, fourth = second + int(sums[0]), fourth + int(sums[1])
    mean = second / _DRAWS_OF_CHARGE
    error = float(np.sqrt((fourth / _DRAWS_OF_CHARGE - mean**2) / _DRAWS_OF_CHARGE))
    exact = charge_squared(7.0, 256)
    z = (mean - exact) / error
    return {"mean": mean, "error": error, "exact": exact, "z": z, "p": float(2 * stats.norm.sf(abs(z)))}


def correlations(x: Array) -> Array:
    """⟨sin x_P sin x_P′⟩ and ⟨cos x_P cos x_P′⟩ of U(1) at all distances along both axes."""
    angles = x[0] - jnp.roll(x[0], -1, axis=1) - x[1] + jnp.roll(x[1], -1, axis=0)
    found = [
        jnp.mean(part * jnp.roll(part, distance, axis), axis=(0, 1))
        for part in (jnp.sin(angles), jnp.cos(angles))
        for axis in (0, 1)
        for distance in range(1, angles.shape[axis] // 2 + 1)
    ]
    return jnp.stack(found)


def walked(kernel: Kernel, steps: int, chains: int, seed: int, function: Callable[..., Any]) -> tuple[Any, float]:
    """A function of a key and of configurations before and after some steps from equilibrium; and the acceptance."""
    target = kernel.target

    @eqx.filter_jit
    def walk(draws: Any, kernel: Kernel, key: Key[Array, ""]) -> tuple[Any, Array]:
        start_key, run_key, last_key = jax.random.split(key, 3)
        x = draws.draw(start_key, chains, jnp.dtype(jnp.result_type(float)))
        step = lambda state, key: kernel.step(key, state)  # noqa: E731
        state, info = jax.lax.scan(step, kernel.init(x), jax.random.split(run_key, steps))
        return function(last_key, x, state.x), jnp.mean(info.acceptance)

    draws = target.exact_draws() or target.known.approximate_draws(target)
    found, acceptance = walk(draws, kernel, jax.random.key(seed))
    return np.asarray(found, np.float64), float(acceptance)


def keeps_means(kernel: Kernel, steps: int, chains: int, seed: int, functions: Callable[..., Array]) -> Any:
    """P-value of how means change, and the acceptance."""
    changes, acceptance = walked(kernel, steps, chains, seed, lambda _, x, y: functions(y) - functions(x))
    return p_value_of_means(changes, changes), acceptance


def keeps_temperature(kernel: Kernel, steps: int, chains: int, seed: int) -> tuple[float, float]:
    """P-value of ⟨|∇S|² − ΔS⟩ = 0 after some steps, and the acceptance."""

    def excess(key: Array, _: Array, x: Array) -> Array:
        found = slope_and_curvature(kernel.target, key, x)
        return (found[SLOPE] - found[CURVATURE])[None]

    differences, acceptance = walked(kernel, steps, chains, seed, excess)
    return p_value_of_means(differences, differences), acceptance


def verify_case(case: Case, seed: int) -> tuple[dict[str, float], float]:
    """P-values of the tests, and the acceptance."""
    with jax.enable_x64(case.float64):
        kernel = case.make(seed)
        size = int(np.prod(kernel.target.geometry.shape))
        # Odd: then every chain draws its own direction, and chains are independent.
        chains = min(200_000, _WORK // size) | 1
        if case.test == "temperature":
            p_value, acceptance = keeps_temperature(kernel, 10, chains, seed)
            return {"T = 1": p_value}, acceptance
        if case.test == "correlations":
            p_value, acceptance = keeps_means(kernel, 10, chains, seed, correlations)
            return {"means": p_value}, acceptance
        if kernel.target.exact_draws() is None:
            functions = lambda x: jnp.stack([*known_functions(kernel.target, x).values()])  # noqa: E731
            p_value, acceptance = keeps_means(kernel, 10, chains, seed, functions)
            return {"means": p_value}, acceptance
        stationarity = check_stationarity(kernel, steps=10, chains=chains, seed=seed)
        p_values = {"χ²": stationarity.p_value}
        if case.reversible:
            p_values["ranks"] = check_ranks(kernel, steps=9, chains=chains, seed=seed + 1).p_value
    return p_values, stationarity.acceptance


def main() -> int:
    """All tests, then the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0, help="further rounds are begun until then")
    parser.add_argument("--seed", type=int, help="to repeat a verification; from the clock if not given")
    parser.add_argument("--only", default="", help="cases with this in their name")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else time.time_ns() // 10**9 % 10**9
    console = Console(width=110, highlight=False)
    started = time.monotonic()
    console.print(f"seed {seed}")
    found: dict[str, float] = {}
    rounds = 0
    table = {name: case for name, case in cases().items() if options.only in name}
    while not rounds or time.monotonic() - started < 60 * options.minutes:
        for number, (name, case) in enumerate(table.items()):
            if rounds and time.monotonic() - started > 60 * options.minutes:
                break
            p_values, acceptance = verify_case(case, seed + 1000 * rounds + 2 * number)
            found |= {f"{name}: {test}, round {rounds + 1}": p for test, p in p_values.items()}
            shown = "  ".join(f"{test} p = {p:.3g}" for test, p in p_values.items())
            console.print(f"{name:<44} acceptance {acceptance:.2f}  {shown}")
        if not rounds and not options.only:
            charge = charge_of_exact_draws(seed)
            console.print(
                f"⟨Q²⟩ of {_DRAWS_OF_CHARGE:,} exact draws, 16×16 β=7: {charge['mean']:.5f} ± {charge['error']:.5f}, "
                f"exact {charge['exact']:.5f}, z = {charge['z']:+.2f}"
            )
            found["⟨Q²⟩ of exact draws"] = charge["p"]
        rounds += 1
    adjusted = dict(zip(found, holm(list(found.values())), strict=True))
    worst = min(found, key=found.__getitem__)
    failed = [name for name, p in adjusted.items() if p <= LEVEL]
    minutes = (time.monotonic() - started) / 60
    console.print(f"{len(found)} tests in {minutes:.0f} minutes; smallest p = {found[worst]:.2g} ({worst}),")
    console.print(f"corrected for the number of tests (Holm) {adjusted[worst]:.2g}; the level is {LEVEL:g}")
    for name in failed:
        console.print(f"WRONG: {name} (p = {found[name]:.2g})", style="red")
    console.print(
        "all exact" if not failed else f"not exact; repeat with --seed {seed}", style="red" if failed else None
    )
    return ExitCode.WRONG if failed else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())

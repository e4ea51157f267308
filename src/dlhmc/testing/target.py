"""Checks of targets and observables."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dlhmc.numerics import rng
from dlhmc.targets.contract import Field, Target, sum_sites
from dlhmc.targets.watched import Observable
from dlhmc.testing.checks import CHAINS, Checked, Problems, as_numbers, example, far, run_checks

# Chance of a false alarm for each known expectation value of a target: 6e-5.
_SIGMAS = 4.0
_DRAWS = 40_000


def shapes_and_names(target: Target, x: Field) -> Problems:
    """Everything has a number for each chain, and every name is one of an observable."""
    if x.shape != (*target.shape, CHAINS):
        yield f"start gives the shape {x.shape} for {CHAINS} chains, but shape is {target.shape}"
        return
    if target.action(x).shape != (CHAINS,):
        yield f"the action has the shape {target.action(x).shape}, not one number for each of {CHAINS} chains"
    if target.force(x).shape != x.shape:
        yield f"the force has the shape {target.force(x).shape}, but the field {x.shape}"
    observables = target.observables(x)
    for name, values in observables.items():
        if values.shape != (CHAINS,):
            yield f"the observable {name} has the shape {values.shape}, not one number for each of {CHAINS} chains"
    named = {moment.observable for moment in target.moments.values()} | set(target.slow) | {target.sector} - {None}
    for name in sorted(str(label) for label in named - observables.keys()):
        yield f"moments, slow or sector name '{name}', which is not among the observables {sorted(observables)}"
    for name in sorted(target.exact().keys() - target.test_functions(x).keys()):
        yield f"exact gives a value for '{name}', which is not among the test functions"
    if target.wrap(x).shape != x.shape:
        yield "wrap changes the shape"
    cold = target.start(jax.random.key(1), "cold", CHAINS, jnp.dtype(jnp.float64))
    if cold.shape != x.shape or not np.all(np.isfinite(as_numbers(target.action(cold)))):
        yield "a cold start has another shape than a hot one, or an action that is not finite"


def force_is_the_gradient(target: Target, x: Field) -> Problems:
    """By autodiff."""
    wanted = jax.grad(lambda y: jnp.sum(target.action(y)))(x)
    if (error := far(target.force(x), wanted, 1e-12)) is not None:
        yield f"the force differs from the gradient of the action by {error:.2g}"


def force_agrees_with_finite_differences(target: Target, x: Field) -> Problems:
    """Which know nothing of autodiff, so that a gradient that was stopped or made up is seen."""
    direction = target.momentum(jax.random.key(2), x)

    def along(h: float) -> NDArray[np.float64]:
        return as_numbers(target.action(target.drift(x, h * direction)))

    h = 2e-3  # eighth-order central differences: truncation and rounding are both below 1e-9
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    slope = np.sum([w * (along(k * h) - along(-k * h)) for k, w in weights.items()], axis=0) / h
    if (error := far(slope, sum_sites(target.force(x) * direction), 1e-8)) is not None:
        yield f"along a random direction the action changes by another amount than the force says: {error:.2g} off"


def symmetries_hold(target: Target, x: Field) -> Problems:
    """Action and observables under each symmetry that the target names, and that it does something."""
    before = target.observables(x)
    for label, symmetry in target.symmetries().items():
        y = symmetry.apply(jax.random.key(3), x)
        if y.shape != x.shape:
            yield f"the {label} changes the shape"
            continue
        if np.allclose(y, x):
            yield f"the {label} changes nothing"
        if (error := far(target.action(y), target.action(x), 1e-12)) is not None:
            yield f"the {label} changes the action by {error:.2g}"
        for observable, value in target.observables(y).items():
            sign = -1 if observable in symmetry.odd else 1
            if np.max(np.abs(as_numbers(value) - sign * as_numbers(before[observable]))) > 1e-10:
                yield f"the {label} does not make the observable {observable} {'odd' if sign < 0 else 'even'}"


def chains_do_not_touch(target: Target, x: Field) -> Problems:
    """A chain has the action and the force that it has alone."""
    alone = x[..., 1:2]
    if far(target.force(x)[..., 1:2], target.force(alone), 1e-13) is not None:
        yield "the force of a chain depends on other chains"
    if far(target.action(x)[1:2], target.action(alone), 1e-13) is not None:
        yield "the action of a chain depends on other chains"
    together, apart = target.observables(x), target.observables(alone)
    for name in together:
        if far(together[name][1:2], apart[name], 1e-10) is not None:
            yield f"the observable {name} of a chain depends on other chains"


def wrapping_is_not_physical(target: Target, x: Field) -> Problems:
    """The canonical representative has the same action."""
    away = target.drift(x, 30 * rng.normal(jax.random.key(4), x.shape, x.dtype))
    if (error := far(target.action(target.wrap(away)), target.action(away), 1e-10)) is not None:
        yield f"wrap changes the action by {error:.2g}"


def gamma_multiplies_the_action(target: Target, x: Field) -> Problems:
    """Where there is a factor to anneal."""
    if not hasattr(target, "gamma"):
        return
    half = eqx.tree_at(lambda t: t.gamma, target, 0.5 * jnp.asarray(target.gamma))
    if far(half.action(x), 0.5 * as_numbers(target.action(x)), 1e-6) is not None:
        yield "half the gamma does not give half the action"


def draws_have_the_exact_moments(target: Target, x: Field) -> Problems:
    """Exact draws and exact values must agree, where there are both."""
    draws, exact = target.exact_draws(), target.exact()
    if draws is None or not exact:
        return
    measured = eqx.filter_jit(lambda sampler, key: target.test_functions(sampler.draw(key, _DRAWS, x.dtype)))(
        draws, jax.random.key(5)
    )
    for name, value in exact.items():
        values = as_numbers(measured[name])
        error = values.std() / np.sqrt(values.size)
        if not abs(values.mean() - value) < _SIGMAS * error + 1e-9:
            yield f"the exact value of {name} is {value:.6g}, but exact draws have {values.mean():.6g}({error:.2g})"


def couplings_do_not_recompile(target: Target, x: Field) -> Problems:
    """Parameters are arrays: other values are the same program."""
    compiled = jax.jit(lambda t, y: t.force(y))
    leaves, structure = jax.tree.flatten(target)
    for scale in (1.0, 1.5, 2.0):
        compiled(jax.tree.unflatten(structure, [leaf * scale for leaf in leaves]), x)
    if compiled._cache_size() != 1:  # type: ignore[attr-defined]
        yield "another coupling compiles again: make parameters array fields, not static ones"


TARGET_CHECKS: dict[str, Callable[[Target, Field], Problems]] = {
    "shapes and names": shapes_and_names,
    "force": force_is_the_gradient,
    "finite differences": force_agrees_with_finite_differences,
    "symmetries": symmetries_hold,
    "chains": chains_do_not_touch,
    "wrapping": wrapping_is_not_physical,
    "annealing": gamma_multiplies_the_action,
    "exact results": draws_have_the_exact_moments,
    "compilation": couplings_do_not_recompile,
}


def check_target(target: Target) -> Checked:
    """Run the package's conformance tests on a target, with all problems in one `ConformanceError`.

    >>> from dlhmc.theories.u1.action import U1
    >>> check_target(U1((4, 4), beta=2.0)).skipped
    ()
    """
    skipped = []
    if target.exact_draws() is None or not target.exact():
        skipped.append("exact results: the target has no exact draws or no exact values")
    checks = {name: _deferred(check, target) for name, check in TARGET_CHECKS.items()}
    return run_checks(target, checks, skipped)


def _deferred(check: Callable[[Target, Field], Problems], target: Target) -> Callable[[], Problems]:
    return lambda: check(target, example(target))


def check_observable(observable: Observable, target: Target, name: str = "the observable") -> Checked:
    """A function of x[…, chain] must give one finite number for each chain, whatever the other chains are."""

    def problems() -> Problems:
        x = example(target)
        values = observable(x)
        if np.shape(values) != (CHAINS,):
            yield f"it gives the shape {np.shape(values)} for {CHAINS} chains, not ({CHAINS},): sum over other axes"
        elif not np.all(np.isfinite(as_numbers(values))):
            yield "it gives numbers that are not finite"
        elif far(values[1:2], observable(x[..., 1:2]), 1e-8) is not None:
            yield "the number of a chain depends on other chains"

    return run_checks(name, {"observable": problems})

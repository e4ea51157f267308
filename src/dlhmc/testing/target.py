"""Checks of targets and observables."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dlhmc.geometry.contract import Field, real_dtype, sum_sites
from dlhmc.targets.contract import Observable, Target, known_functions, with_gamma
from dlhmc.testing.checks import CHAINS, Checked, Problems, as_numbers, evaluate, example, far, momentum, run_checks

# Chance of a false alarm for each known expectation value of a target: 6e-5.
_SIGMAS = 4.0
_DRAWS = 40_000


def shapes_and_names(target: Target, x: Field) -> Problems:
    """Everything has a number for each chain, and every name is one of an observable."""
    geometry = target.geometry
    if x.shape != (*geometry.shape, CHAINS):
        yield f"start gives the shape {x.shape} for {CHAINS} chains, but that of the geometry is {geometry.shape}"
        return
    if x.dtype != geometry.dtype(jnp.dtype(jnp.float64)):
        yield f"start gives {x.dtype}, but fields of this geometry are {geometry.dtype(jnp.dtype(jnp.float64))}"
        return
    if evaluate(target.action, x).shape != (CHAINS,):
        yield f"the action has the shape {evaluate(target.action, x).shape}, not one number for each of {CHAINS} chains"
    if (found := evaluate(target.force, x).shape) != (*geometry.momentum_shape, CHAINS):
        yield f"the force has the shape {found}, but momenta {(*geometry.momentum_shape, CHAINS)}"
    observables = evaluate(target.observables, x)
    for name, values in observables.items():
        if values.shape[-1:] != (CHAINS,):
            yield f"the observable {name} has the shape {values.shape}, whose last axis is not that of {CHAINS} chains"
    known, slow = target.known, target.known.slow(target)
    for name in sorted(set(slow) & observables.keys()):
        if observables[name].shape != (CHAINS,):
            yield f"the slow observable {name} has the shape {observables[name].shape}, but must be a number"
    named = {moment.observable for moment in known.moments.values()} | set(slow) | {known.sector} - {None}
    for name in sorted(str(label) for label in named - observables.keys()):
        yield f"moments, slow or sector name '{name}', which is not among the observables {sorted(observables)}"
    for name in sorted(target.exact().keys() - evaluate(known_functions, target, x).keys()):
        yield f"exact gives a value for '{name}', which is not among moments and functions"
    if evaluate(geometry.project, x).shape != x.shape:
        yield "the projection of the geometry changes the shape"
    cold = evaluate(target.start, jax.random.key(1), "cold", CHAINS, jnp.dtype(jnp.float64))
    if cold.shape != x.shape or not np.all(np.isfinite(as_numbers(evaluate(target.action, cold)))):
        yield "a cold start has another shape than a hot one, or an action that is not finite"


def geometry_is_consistent(target: Target, x: Field) -> Problems:
    """There and back along geodesics, the momenta's kinetic energy, and starts that are points of the space."""
    geometry, v = target.geometry, momentum(target, x, seed=6)
    projected = evaluate(geometry.project, x)
    if (error := far(evaluate(target.action, projected), evaluate(target.action, x), 1e-10)) is not None:
        yield f"start gives points that are not in the space: the projection changes their action by {error:.2g}"
    step = 0.1 * v
    there, carried = evaluate(geometry.drift, x, v, step)
    if there.shape != x.shape or there.dtype != x.dtype:
        yield f"drift turns x of {x.dtype}{x.shape} into {there.dtype}{there.shape}"
        return
    way = evaluate(geometry.difference, x, there)
    if (error := far(way, step, 1e-8)) is not None:
        yield f"difference does not undo drift: {error:.2g} off"
    back = evaluate(geometry.drift, there, carried, -as_numbers(way))[0] if not geometry.moves_momentum else x
    if not _same_point(target, x, back):
        yield "drift along the opposite displacement does not lead back"
    if not geometry.moves_momentum and far(carried, v, 1e-14) is not None:
        yield "drift changes the momentum, but moves_momentum says that it does not"
    seen = evaluate(geometry.features, x).shape
    if seen[1:] != (*geometry.elements, CHAINS):
        yield f"features has the shape {seen}, but must have [feature, *{geometry.elements}, chain]"


def _same_point(target: Target, x: Field, y: Field) -> bool:
    return float(np.max(np.abs(as_numbers(evaluate(target.geometry.difference, x, y))), initial=0.0)) < 1e-8


def force_is_the_gradient(target: Target, x: Field) -> Problems:
    """By autodiff, along the tangent vectors of the geometry."""
    wanted = evaluate(target.geometry.gradient, target.action, x)
    if (error := far(evaluate(target.force, x), wanted, 1e-12)) is not None:
        yield f"the force differs from the gradient of the action by {error:.2g}"


def force_agrees_with_finite_differences(target: Target, x: Field) -> Problems:
    """Which know nothing of autodiff, so that a gradient that was stopped or made up is seen."""
    direction = momentum(target, x, seed=2)

    def along(h: float) -> NDArray[np.float64]:
        return as_numbers(evaluate(target.action, evaluate(target.geometry.moved, x, h * direction)))

    h = 2e-3  # eighth-order central differences: truncation and rounding are both below 1e-9
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    slope = np.sum([w * (along(k * h) - along(-k * h)) for k, w in weights.items()], axis=0) / h
    wanted = np.sum(as_numbers(evaluate(target.force, x)) * direction, axis=tuple(range(direction.ndim - 1)))
    if (error := far(slope, wanted, 1e-8)) is not None:
        yield f"along a random direction the action changes by another amount than the force says: {error:.2g} off"


def auxiliary_fields_are_drawn(target: Target, x: Field) -> Problems:
    """Where there are any: what drawing them tells of the action, and its force while they are held fixed."""
    drawn, told = target.refresh(jax.random.key(6), x)
    solved = evaluate(drawn.terms, x).value
    for known, terms in zip(told.value, solved, strict=True):
        if known is not None and (error := far(sum_sites(known), sum_sites(terms), 1e-4)) is not None:
            yield f"refresh tells another action at the place where auxiliary fields were drawn: {error:.2g} off"
    wanted = evaluate(drawn.geometry.gradient, drawn.action, x)
    if (error := far(evaluate(drawn.force, x), wanted, 1e-3)) is not None:
        yield f"with auxiliary fields, the force differs from the gradient of the action by {error:.2g}"


def symmetries_hold(target: Target, x: Field) -> Problems:
    """Action and observables under each symmetry that the target names, and that it does something."""
    before = evaluate(target.observables, x)
    for label, symmetry in target.known.symmetries(target).items():
        y = evaluate(symmetry.apply, jax.random.key(3), x)
        if y.shape != x.shape:
            yield f"the {label} changes the shape"
            continue
        if np.allclose(y, x):
            yield f"the {label} changes nothing"
        if (error := far(evaluate(target.action, y), evaluate(target.action, x), 1e-12)) is not None:
            yield f"the {label} changes the action by {error:.2g}"
        for observable, value in evaluate(target.observables, y).items():
            sign = -1 if observable in symmetry.odd else 1
            if np.max(np.abs(as_numbers(value) - sign * as_numbers(before[observable]))) > 1e-10:
                yield f"the {label} does not make the observable {observable} {'odd' if sign < 0 else 'even'}"


def chains_do_not_touch(target: Target, x: Field) -> Problems:
    """A chain has the action and the force that it has alone."""
    alone = as_numbers(x)[..., 1:2]
    if far(as_numbers(evaluate(target.force, x))[..., 1:2], evaluate(target.force, alone), 1e-13) is not None:
        yield "the force of a chain depends on other chains"
    if far(as_numbers(evaluate(target.action, x))[1:2], evaluate(target.action, alone), 1e-13) is not None:
        yield "the action of a chain depends on other chains"
    together, apart = evaluate(target.observables, x), evaluate(target.observables, alone)
    for name in together:
        if far(as_numbers(together[name])[..., 1:2], apart[name], 1e-10) is not None:
            yield f"the observable {name} of a chain depends on other chains"


def projection_is_not_physical(target: Target, x: Field) -> Problems:
    """The canonical representative has the same action."""
    away = evaluate(target.geometry.moved, x, 30 * momentum(target, x, seed=4))
    projected = evaluate(target.geometry.project, away)
    if (error := far(evaluate(target.action, projected), evaluate(target.action, away), 1e-10)) is not None:
        yield f"the projection changes the action by {error:.2g}"


def gamma_multiplies_the_action(target: Target, x: Field) -> Problems:
    """It anneals."""
    half = with_gamma(target, 0.5 * target.gamma)
    if far(evaluate(half.action, x), 0.5 * as_numbers(evaluate(target.action, x)), 1e-6) is not None:
        yield "half the gamma does not give half the action"


def draws_have_the_exact_moments(target: Target, x: Field) -> Problems:
    """Exact draws and exact values must agree, where there are both."""
    draws, exact = target.exact_draws(), target.exact()
    if draws is None or not exact:
        return
    measured = evaluate(known_functions, target, evaluate(draws.draw, jax.random.key(5), _DRAWS, real_dtype(x)))
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
    "geometry": geometry_is_consistent,
    "force": force_is_the_gradient,
    "finite differences": force_agrees_with_finite_differences,
    "symmetries": symmetries_hold,
    "chains": chains_do_not_touch,
    "projection": projection_is_not_physical,
    "annealing": gamma_multiplies_the_action,
    "exact results": draws_have_the_exact_moments,
    "compilation": couplings_do_not_recompile,
}


def check_target(target: Target) -> Checked:
    """Run the package's conformance tests on a target, with all problems in one `ConformanceError`.

    >>> from dlhmc import Gaussian
    >>> check_target(Gaussian([1.0, 2.0])).skipped
    ()
    """
    skipped = []
    if target.exact_draws() is None or not target.exact():
        skipped.append("exact results: the target has no exact draws or no exact values")
    # Proposals at one stroke are judged without auxiliary fields, and symmetries hold there.
    judge, _ = target.known.guided(target)
    checks = [(name, check, judge) for name, check in TARGET_CHECKS.items()]
    if judge is not target:
        checks.append(("auxiliary fields", auxiliary_fields_are_drawn, target))
    each = {name: functools.partial(_on_example, check, one) for name, check, one in checks}
    return run_checks(target, each, skipped)


def _on_example(check: Callable[[Target, Field], Problems], target: Target) -> Problems:
    return check(target, example(target))


def check_observable(observable: Observable, target: Target, name: str = "the observable") -> Checked:
    """A function of x[…, chain] must give finite numbers for each chain, whatever the other chains are."""

    def problems() -> Problems:
        x = example(target)
        values = observable(x)
        if np.shape(values)[-1:] != (CHAINS,):
            yield f"it gives the shape {np.shape(values)} for {CHAINS} chains, whose last axis is not that of chains"
        elif not np.all(np.isfinite(as_numbers(values))):
            yield "it gives numbers that are not finite"
        elif far(values[..., 1:2], observable(x[..., 1:2]), 1e-8) is not None:
            yield "the number of a chain depends on other chains"

    return run_checks(name, {"observable": problems})

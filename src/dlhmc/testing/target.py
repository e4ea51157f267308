"""Checks of targets and observables."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from dlhmc.geometry.contract import Field, real_dtype, sum_sites
from dlhmc.targets.contract import Observable, Target, known_functions
from dlhmc.testing.checks import (
    CHAINS,
    Checked,
    Problems,
    as_numbers,
    bad_numbers,
    differs,
    evaluate,
    example,
    mixed_chains,
    momentum,
    run_checks,
)

# Chance of a false alarm for each known expectation value of a target: 6e-5.
_SIGMAS = 4.0
_DRAWS = 40_000


def shapes_and_names(target: Target, x: Field) -> Problems:
    """Everything has finite numbers for each chain, and every name is one of an observable."""
    geometry, known = target.geometry, target.known
    wanted = jax.ShapeDtypeStruct((*geometry.shape, CHAINS), geometry.dtype(jnp.dtype(jnp.float64)))
    if (x.shape, x.dtype) != (wanted.shape, wanted.dtype):
        yield f"start gives {x.dtype}{x.shape}, but fields of this geometry are {wanted.dtype}{wanted.shape}"
        return
    cold = evaluate(target.start, jax.random.key(1), "cold", CHAINS, jnp.dtype(jnp.float64))
    yield from bad_numbers("a cold start", cold, x.shape)
    yield from bad_numbers("the action of a cold start", evaluate(target.action, cold), (CHAINS,))
    slow, observables = known.slow(target), evaluate(target.observables, x)
    shapes = {_ACTION: (CHAINS,), _FORCE: (*geometry.momentum_shape, CHAINS)}
    shapes |= {_observable(name): (CHAINS,) for name in slow}
    for name, values in (evaluate(_action_and_force, target, x) | evaluate(_observables, target, x)).items():
        yield from bad_numbers(name, values, shapes.get(name))
    named = {moment.observable for moment in known.moments.values()} | set(slow) | {known.sector} - {None}
    for name in sorted(str(label) for label in named - observables.keys()):
        yield f"moments, slow or sector name '{name}', which is not among the observables {sorted(observables)}"
    for name in sorted(target.exact().keys() - evaluate(known_functions, target, x).keys()):
        yield f"exact gives a value for '{name}', which is not among moments and functions"


_ACTION, _FORCE = "the action", "the force"


def _observable(name: str) -> str:
    return f"the observable {name}"


def _action_and_force(target: Target, x: Field) -> dict[str, Array]:
    return {_ACTION: target.action(x), _FORCE: target.force(x)}


def _observables(target: Target, x: Field) -> dict[str, Array]:
    return {_observable(name): values for name, values in target.observables(x).items()}


def geometry_is_consistent(target: Target, x: Field) -> Problems:
    """There and back along geodesics, tangent spaces, and a projection that leaves points of the space alone."""
    geometry, v = target.geometry, momentum(target, x, seed=6)
    away = evaluate(geometry.moved, x, 30 * v)
    for what, points in (("start gives points that are not in the space: ", x), ("", away)):
        same = evaluate(target.action, evaluate(geometry.project, points))
        yield from differs(f"{what}the projection changes the action", same, evaluate(target.action, points), 1e-10)
    step = 0.1 * v
    there, carried = evaluate(geometry.drift, x, v, step)
    if (there.shape, there.dtype) != (x.shape, x.dtype):
        yield f"drift turns x of {x.dtype}{x.shape} into {there.dtype}{there.shape}"
        return
    _, step_there = evaluate(geometry.drift, x, step, step)
    back, v_back = evaluate(geometry.drift, there, carried, -step_there)
    yield from differs("difference does not undo drift", evaluate(geometry.difference, x, there), step, 1e-8)
    yield from differs("drift does not lead back", evaluate(geometry.difference, back, there), step, 1e-8)
    yield from differs("drift does not bring the momentum back", v_back, v, 1e-8)
    if not geometry.moves_momentum:
        sentence = "drift changes the momentum, but moves_momentum says that it does not"
        yield from differs(sentence, carried, v, 1e-14)
    features = evaluate(geometry.features, x)
    yield from bad_numbers("features", features, (len(features), *geometry.elements, CHAINS))
    momenta = momentum(target, jnp.repeat(x[..., :1], geometry.dimension + 1, axis=-1))
    rank = np.linalg.matrix_rank(momenta.reshape(-1, momenta.shape[-1]))
    if rank != geometry.dimension:
        yield f"momenta have {rank} dimensions, but that of the geometry is {geometry.dimension}"


def force_is_the_gradient(target: Target, x: Field) -> Problems:
    """By autodiff, along the tangent vectors of the geometry."""
    yield from _is_gradient(target, x, "", 1e-12)


def _is_gradient(target: Target, x: Field, where: str, tolerance: float) -> Problems:
    force, gradient = evaluate(target.force, x), evaluate(target.geometry.gradient, target.action, x)
    yield from differs(f"{where}the force differs from the gradient of the action", force, gradient, tolerance)


def force_agrees_with_finite_differences(target: Target, x: Field) -> Problems:
    """Which know nothing of autodiff, so that a gradient that was stopped or made up is seen."""
    direction = momentum(target, x, seed=2)

    def along(h: float) -> NDArray[np.float64]:
        return as_numbers(evaluate(target.action, evaluate(target.geometry.moved, x, h * direction)))

    h = 2e-3  # eighth-order central differences: truncation and rounding are both below 1e-9
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    slope = np.sum([w * (along(k * h) - along(-k * h)) for k, w in weights.items()], axis=0) / h
    wanted = np.sum(as_numbers(evaluate(target.force, x)) * direction, axis=tuple(range(direction.ndim - 1)))
    yield from differs(
        "along a random direction the action changes by another amount than the force says", slope, wanted, 1e-8
    )


def auxiliary_fields_are_drawn(target: Target, x: Field) -> Problems:
    """Where there are any: what drawing them tells of the action, and its force while they are held fixed."""
    drawn, told = target.refresh(jax.random.key(6), x)
    solved = evaluate(drawn.terms, x).value
    for known, terms in zip(told.value, solved, strict=True):
        if known is not None:
            sentence = "refresh tells another action at the place where auxiliary fields were drawn"
            yield from differs(sentence, sum_sites(known), sum_sites(terms), 1e-4)
    yield from _is_gradient(drawn, x, "with auxiliary fields, ", 1e-3)


def symmetries_hold(target: Target, x: Field) -> Problems:
    """Action and observables under each symmetry that the target names, and that it does something."""
    before, action = evaluate(target.observables, x), evaluate(target.action, x)
    for label, symmetry in target.known.symmetries(target).items():
        y = evaluate(symmetry.apply, jax.random.key(3), x)
        if y.shape != x.shape:
            yield f"the {label} changes the shape"
            continue
        if np.allclose(y, x):
            yield f"the {label} changes nothing"
        yield from differs(f"the {label} changes the action", evaluate(target.action, y), action, 1e-12)
        for observable, value in evaluate(target.observables, y).items():
            sign = -1 if observable in symmetry.odd else 1
            if np.max(np.abs(as_numbers(value) - sign * as_numbers(before[observable]))) > 1e-10:
                yield f"the {label} does not make the observable {observable} {'odd' if sign < 0 else 'even'}"


def chains_do_not_touch(target: Target, x: Field) -> Problems:
    """A chain has the action and the force that it has alone."""
    yield from mixed_chains(lambda y: evaluate(_action_and_force, target, y), x, 1e-13)
    yield from mixed_chains(lambda y: evaluate(_observables, target, y), x, 1e-10)


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


TARGET_CHECKS: dict[str, Callable[[Target, Field], Problems]] = {
    "shapes and names": shapes_and_names,
    "geometry": geometry_is_consistent,
    "force": force_is_the_gradient,
    "finite differences": force_agrees_with_finite_differences,
    "symmetries": symmetries_hold,
    "chains": chains_do_not_touch,
    "exact results": draws_have_the_exact_moments,
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
        wrong = list(bad_numbers(name, observable(x)))
        yield from wrong or mixed_chains(lambda y: {name: observable(y)}, x, 1e-8)

    return run_checks(name, {"observable": problems})

"""Checks of layers and position rules: inverses, and log|J| against autodiff."""

import math
from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dlhmc.geometry import Field, FlatSpace, Geometry, Momentum, Torus
from dlhmc.geometry.contract import real_dtype
from dlhmc.layers import PositionRule, Trajectory
from dlhmc.numerics.leaves import in_double
from dlhmc.targets.contract import Target
from dlhmc.testing.checks import Checked, Problems, differs, evaluate, example, momentum, run_checks

T = TypeVar("T")


def with_random_weights(tree: T, scale: float, seed: int = 3) -> T:
    """All trainable numbers moved by normal ones: what training could make of them."""
    leaves, structure = jax.tree.flatten(eqx.filter(tree, eqx.is_inexact_array))
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    noise = [leaf + scale * jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
    moved: T = eqx.combine(jax.tree.unflatten(structure, noise), eqx.filter(tree, eqx.is_inexact_array, inverse=True))
    return moved


def round_trip(trajectory: Trajectory, target: Target, x: Field, v: Momentum, tolerance: float = 1e-12) -> Problems:
    """There and back, in both directions, with opposite log|J|."""
    for there, back, way in (
        (trajectory.forward, trajectory.inverse, "forward then inverse"),
        (trajectory.inverse, trajectory.forward, "inverse then forward"),
    ):
        middle = evaluate(there, target, x, v)
        end = evaluate(back, target, middle.x, middle.v)
        size = max(1.0, float(jnp.abs(middle.v).max()), float(jnp.abs(middle.x).max()))
        errors = {
            "x": evaluate(target.geometry.difference, x, end.x),
            "v": end.v - v,
            "log|J|": 0.1 * (end.log_jacobian + middle.log_jacobian),
        }
        for name, error in errors.items():
            if not float(jnp.abs(error).max()) <= tolerance * size:
                yield f"{way} misses {name} by {float(jnp.abs(error).max()):.2g}"
        if float(jnp.abs(evaluate(target.geometry.difference, x, middle.x)).max()) <= 1e-3:
            yield f"{way} does not move x"


def log_jacobians(trajectory: Trajectory, target: Target, x: Field, v: Momentum, direction: str) -> tuple[float, float]:
    """The log|J| that the trajectory gives for one chain, and the one that autodiff finds."""
    found, expected = _log_jacobians(trajectory, target, x, v, direction)
    return float(found), float(expected)


@eqx.filter_jit
def _log_jacobians(
    trajectory: Trajectory, target: Target, x: Field, v: Momentum, direction: str
) -> tuple[Array, Array]:
    """In orthonormal coordinates of the tangent spaces at the start and the end, in which the measure is flat."""
    geometry = target.geometry
    run = getattr(trajectory, direction)
    end = run(target, x, v)
    at_start, at_end = tangent_vectors(geometry, x), tangent_vectors(geometry, end.x)

    def flat(z: Array) -> Array:
        displacement, change = ((at_start @ part).reshape(v.shape) for part in jnp.split(z, 2))
        phase = run(target, *geometry.drift(x, v + change, displacement))
        away = geometry.difference(end.x, phase.x)
        return jnp.concatenate([at_end.T @ away.ravel(), at_end.T @ phase.v.ravel()])

    jacobian = jax.jacfwd(flat)(jnp.zeros(2 * geometry.dimension, v.dtype))
    return end.log_jacobian[0], jnp.linalg.slogdet(jacobian)[1]


def tangent_vectors(geometry: Geometry, x: Field) -> Float[Array, "momentum dimension"]:
    """An orthonormal basis of the tangent space at the configuration of one chain, from as many momenta."""
    if geometry.dimension == math.prod(geometry.momentum_shape):
        return jnp.eye(geometry.dimension, dtype=real_dtype(x))
    # Not the key that x was drawn with: their tangential part would be 0.
    momenta = geometry.momentum(jax.random.key(1_000_003), jnp.repeat(x, geometry.dimension, axis=-1))
    return jnp.linalg.qr(momenta.reshape(-1, geometry.dimension))[0]


def check_trajectory(trajectory: Trajectory, target: Target) -> Checked:
    """A trajectory must be undone by its inverse and know its log|J|, with the parameters it has and with others."""

    def check(test: Callable[[Trajectory, Target], Problems], scale: float) -> Callable[[], Problems]:
        return lambda: test(with_random_weights(in_double(trajectory), scale), target)

    tests = {"inverse": round_trips, "Jacobian": jacobians_agree}
    scales = {"as it is": 0.0, "with other parameters": 0.3}
    checks = {f"{name}, {label}": check(tests[name], scales[label]) for label in scales for name in tests}
    return run_checks(trajectory, checks)


def round_trips(trajectory: Trajectory, target: Target) -> Problems:
    """There and back, from hot configurations."""
    x = example(target)
    return round_trip(trajectory, target, x, momentum(target, x), 1e-10)


def jacobians_agree(trajectory: Trajectory, target: Target) -> Problems:
    """The log|J| of both directions is that of autodiff."""
    x = example(target, 1)
    v = momentum(target, x)
    for direction in ("forward", "inverse"):
        found, expected = log_jacobians(trajectory, target, x, v, direction)
        if not abs(found - expected) <= 1e-8 * max(1.0, abs(expected)):
            yield f"log|J| of {direction} is {found:.8g}, but autodiff finds {expected:.8g}"


def check_rule(rule: PositionRule, *, compact: bool) -> Checked:
    """A position rule must be undone by its inverse, with the derivative that autodiff finds; on the circle, too."""
    geometry = Torus((41,)) if compact else FlatSpace((41,))

    def points() -> tuple[Array, Array, Array]:
        x = jnp.linspace(-3.1, 3.1, 41)
        return x, 2.5 * jnp.cos(7 * x), 0.5 * jnp.sin(5 * x)

    def inverse() -> Problems:
        x, shift, log_scale = points()
        there, forward = rule.forward(geometry, x, shift, log_scale)
        back, backward = rule.inverse(geometry, geometry.project(there), shift, log_scale)
        where = " after wrapping around the circle" if compact else ""
        near = x + geometry.difference(x, back)
        yield from differs(f"inverse does not undo forward{where}", near, x, 3e-11)
        yield from differs("the log-derivatives of forward and inverse do not cancel", backward, -forward, 1e-10)

    def derivative() -> Problems:
        x, shift, log_scale = points()
        found = rule.forward(geometry, x, shift, log_scale)[1]
        slope = jax.vmap(jax.grad(lambda *point: rule.forward(geometry, *point)[0]))(x, shift, log_scale)
        yield from differs("the log-derivative is not that of autodiff", found, jnp.log(jnp.abs(slope)), 1e-10)

    def suits() -> Problems:
        if not rule.suits(geometry):
            yield f"it says that it does not suit {type(geometry).__name__}"

    return run_checks(rule, {"inverse": inverse, "derivative": derivative, "geometry": suits})

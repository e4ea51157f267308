"""What a learned trajectory computes, read off its program: forces, and the arithmetic beside them."""

import dataclasses
import math
import types
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

from dlhmc.layers import Phase, Trajectory
from dlhmc.targets.contract import Field, Target

_FORCE = "force_to_count"
# One operation for each number that comes out; what moves, compares or converts numbers is free.
# fmt: off
_ARITHMETIC = frozenset((
    "add", "add_any", "sub", "mul", "div", "neg", "exp", "exp2", "expm1", "log", "log1p", "tanh", "logistic", "sin",
    "cos", "tan", "atan2", "sqrt", "rsqrt", "pow", "integer_pow", "square", "erf", "max", "min", "abs", "floor",
    "round", "rem",
))
# fmt: on


class Cost(NamedTuple):
    """Of one trajectory of one chain."""

    forces: int
    flops: int


def trajectory_cost(trajectory: Trajectory, target: Target) -> Cost:
    """Forces of a trajectory, and floating-point operations of all but the target's: networks and updates.

    Only shapes matter: the trajectory may have them in place of arrays.
    """
    x = jax.ShapeDtypeStruct((*target.shape, 1), jnp.result_type(float))
    arrays, static = eqx.partition(trajectory, lambda leaf: hasattr(leaf, "shape"))

    def run(arrays: Trajectory, x: Field, v: Field) -> Phase:
        return eqx.combine(arrays, static).forward(_with_marked_force(target), x, v)

    cost = _cost(jax.make_jaxpr(run)(arrays, x, x).jaxpr)
    return cost._replace(forces=cost.forces + trajectory.own_forces)


def _with_marked_force(target: Target) -> Target:
    """The same target, whose force appears under a name of its own in a program."""
    kind = type(target)

    def force(_: Target, x: Field) -> Field:
        def evaluate(x: Field) -> Field:
            return kind.force(target, x)

        evaluate.__name__ = _FORCE
        return jax.jit(evaluate)(x)

    subclass = types.new_class(kind.__name__, (kind,), exec_body=lambda body: body.update(force=force))
    marked: Target = object.__new__(subclass)
    for field in dataclasses.fields(target):
        object.__setattr__(marked, field.name, getattr(target, field.name))
    return marked


def _cost(program: Jaxpr) -> Cost:
    forces = flops = 0
    for equation in program.eqns:
        parameters, name = equation.params, equation.primitive.name
        if parameters.get("name") == _FORCE:
            forces += 1
            continue
        times = parameters["length"] if name == "scan" else 1
        parts = [_cost(part) for value in parameters.values() for part in _programs(value)]
        forces += times * sum(part.forces for part in parts)
        flops += times * sum(part.flops for part in parts) + _flops(equation)
    return Cost(forces, flops)


def _programs(parameter: Any) -> list[Jaxpr]:
    """The programs inside an operation: the body of a loop, a compiled function."""
    if isinstance(parameter, ClosedJaxpr):
        return [parameter.jaxpr]
    if isinstance(parameter, Jaxpr):
        return [parameter]
    if isinstance(parameter, tuple | list):
        return [program for part in parameter for program in _programs(part)]
    return []


def _flops(equation: Any) -> int:
    name, out = equation.primitive.name, equation.outvars[0].aval
    if not jnp.issubdtype(out.dtype, jnp.floating):
        return 0
    size = math.prod(out.shape)
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        return 2 * size * math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
    if name == "conv_general_dilated":
        kernel = equation.invars[1].aval.shape
        return 2 * size * math.prod(kernel) // kernel[equation.params["dimension_numbers"].rhs_spec[0]]
    if name in ("reduce_sum", "cumsum"):
        return math.prod(equation.invars[0].aval.shape)
    return size if name in _ARITHMETIC else 0

"""What a learned trajectory computes beside its forces."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from dlhmc.kernels import DLHMC


def network_flops(kernel: DLHMC) -> int:
    """Floating-point operations of a trajectory of one chain, as XLA counts them, without those of its forces."""
    target, trajectory = kernel.target, kernel.trajectory
    geometry, real = target.geometry, jnp.dtype(jnp.result_type(float))
    x = jnp.zeros((*geometry.shape, 1), geometry.dtype(real))
    v = jnp.zeros((*geometry.momentum_shape, 1), real)
    forces = trajectory.forces * _flops(lambda target, x: target.force(x), target, x)
    return max(0, round(_flops(lambda f, target, x, v: f.forward(target, x, v), trajectory, target, x, v) - forces))


def _flops(function: Callable[..., Any], *arguments: Any) -> float:
    def unrolled(*arguments: Any) -> Any:
        # XLA counts the body of a loop once; without jit JAX writes a scan out, step by step.
        with jax.disable_jit():
            return function(*arguments)

    program: Any = eqx.filter_jit(unrolled)
    analysis = program.lower(*arguments).lowered.cost_analysis()
    return float((analysis or {}).get("flops", 0.0))

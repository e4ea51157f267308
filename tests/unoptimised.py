"""Programs that only prepare a test, as that of random weights: compiled as for users, they would take most of it."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

# Those of XLA's options in tests/conftest.py that matter most here; they change the last digits of a number at most.
_OPTIONS = {"xla_backend_optimization_level": 0} | (
    {"xla_cpu_use_fusion_emitters": False} if sys.version_info < (3, 12) else {}
)


def unoptimised(function):
    """As `equinox.filter_jit`: one program, and that at once."""
    return eqx.filter_jit(function, compiler_options=_OPTIONS)


def shaken(tree, scale, seed):
    """Normal numbers of this size added to all weights, those of last layers, too, which start at zero.

    They are drawn on the host: a program that draws for each shape takes longer to compile than most tests.
    """
    generator = np.random.default_rng(seed)

    def moved(leaf):
        if not eqx.is_inexact_array(leaf):
            return leaf
        return jnp.asarray(np.asarray(leaf) + scale * generator.normal(size=leaf.shape), leaf.dtype)

    return jax.tree.map(moved, tree)

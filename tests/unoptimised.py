"""Programs that only prepare a test, as that of random weights: compiled as for users, they would take most of it."""

import equinox as eqx
import jax

# Those of XLA's options in tests/conftest.py that matter most here; they change the last digits of a number at most.
_OPTIONS = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


def unoptimised(function):
    """As `equinox.filter_jit`: one program, and that at once."""
    return eqx.filter_jit(function, compiler_options=_OPTIONS)


@unoptimised
def shaken(tree, scale, key):
    """Normal numbers of this size added to all weights, those of last layers, too, which start at zero."""
    dynamic, static = eqx.partition(tree, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(dynamic)
    keys = jax.random.split(key, len(leaves))
    noise = (jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True))
    noisy = [leaf + scale * more for leaf, more in zip(leaves, noise, strict=True)]
    return eqx.combine(jax.tree.unflatten(structure, noisy), static)

"""Objects in words and numbers, for files that outlive them."""

import dataclasses
import hashlib
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dlhmc.kernels import DLHMC, HMC, Exact, Kernel
from dlhmc.kernels.watching import Watching
from dlhmc.numerics.leaves import by_name, digest
from dlhmc.targets import Target
from dlhmc.theories.u1.action import U1
from dlhmc.theories.u1.hits import InstantonHits

_NAMES: dict[type[Kernel], str] = {HMC: "hmc", DLHMC: "dlhmc", Exact: "exact"}


def describe_target(target: Target) -> dict[str, Any]:
    """U(1) by its lattice and coupling, others by the name of their class and whatever is one number.

    >>> describe_target(U1((8, 8), beta=2.0))
    {'lattice': [8, 8], 'beta': 2.0}
    >>> from dlhmc.theories.vectors.funnel import Funnel
    >>> describe_target(Funnel())["target"]
    'Funnel'
    """
    numbers = _numbers(target)
    if numbers.get("gamma") == 1.0:
        del numbers["gamma"]
    return numbers if isinstance(target, U1) else {"target": type(target).__name__} | numbers


def describe_kernel(kernel: Kernel) -> dict[str, Any]:
    """The kernel by name, those of the package as the command line calls them, and its target."""
    if isinstance(kernel, Watching):
        return describe_kernel(kernel.kernel)
    hits: dict[str, Any] = {}
    inner = kernel
    if isinstance(kernel, InstantonHits):
        inner, hits = kernel.kernel, {"hits": kernel.number}
    name = _NAMES.get(type(inner), type(inner).__name__)
    return {"kernel": name} | hits | describe_target(kernel.target)


def _numbers(tree: eqx.Module) -> dict[str, Any]:
    """Fields that are numbers, or tuples of them."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(tree):
        value = getattr(tree, field.name)
        if isinstance(value, jax.Array | np.ndarray | np.generic) and np.size(value) == 1 and np.ndim(value) == 0:
            number = np.asarray(value)
            # The shortest decimal: a float32 such as 0.1 is 0.1 for people.
            found[field.name] = float(str(number)) if number.dtype.kind == "f" else int(number)
        elif isinstance(value, int | float | str):
            found[field.name] = value
        elif isinstance(value, tuple) and all(isinstance(part, int | float) for part in value):
            found[field.name] = list(value)
    return found


def fingerprint(tree: Any) -> str:
    """Of all arrays in a tree: what must not change when a run goes on."""
    arrays = by_name(eqx.filter(tree, eqx.is_array))
    parts = [f"{name} {digest(np.asarray(value))}" for name, value in sorted(arrays.items())]
    return hashlib.sha256("\n".join([type(tree).__qualname__, *parts]).encode()).hexdigest()

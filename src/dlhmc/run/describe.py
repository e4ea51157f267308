"""Objects in words and numbers, for files that outlive them."""

import zlib
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dlhmc.kernels import Kernel
from dlhmc.numerics.leaves import by_name
from dlhmc.settings import fields_of
from dlhmc.targets import Target
from dlhmc.theories import registry
from dlhmc.theories.contract import Theory


def describe_target(target: Target) -> dict[str, Any]:
    """A target that was made in Python, by its actions and whatever is one number.

    >>> from dlhmc import Funnel
    >>> describe_target(Funnel(dim=7))
    {'target': 'FunnelDensity', 'elements': [7], 'sigma': 3.0}
    """
    numbers, several = {}, len(target.actions) > 1
    for action in target.actions:
        prefix = f"{type(action).__name__.lower()}_" if several else ""
        for path, leaf in jax.tree.leaves_with_path(eqx.filter(action, eqx.is_array)):
            if leaf.ndim == 0:
                # The shortest decimal: a float32 such as 0.1 is 0.1 for people.
                numbers[prefix + path[-1].name] = float(str(leaf))
    name = " + ".join(type(action).__name__ for action in target.actions)
    return {"target": name, "elements": list(target.geometry.elements)} | numbers


def describe_kernel(kernel: Kernel, target: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The kernel and its target, which a specification may have described already."""
    return {**kernel.describe(), **(target or describe_target(kernel.target))}


def target_in_words(described: Mapping[str, Any]) -> str:
    """What `describe_target` gave, for people.

    >>> target_in_words({"target": "Funnel", "dim": 7, "sides": [4, 6], "widths": [0.1, 2.0], "others": []})
    'Funnel  4×6  dim = 7  widths = 0.1, 2'
    """
    theory = known_theory(described)
    sizes, others = list[str](), list[str]()
    for key, value in ordinary(described).items():
        values = np.asarray(value)
        if values.dtype.kind in "iu" and values.ndim == 1:
            sizes.append("×".join(map(str, values)))
        elif values.dtype.kind in "iuf" and values.ndim < 2 and values.size:
            others.append(f"{symbol(theory, key)} = {', '.join(f'{number:g}' for number in values.flat)}")
        elif isinstance(value, str | bool) and key not in ("target", "name", "kernel"):
            others.append(f"{symbol(theory, key)} = {value}")
    return "  ".join([str(described.get("target", described.get("name", ""))), *sizes, *others])


def ordinary(described: Mapping[str, Any]) -> dict[str, Any]:
    """Without names, and settings of the theory that few people know, where they have their defaults."""
    theory = known_theory(described)
    defaults = {}
    if theory is not None:
        fields = fields_of(theory.settings)
        defaults = {one.name: one.default for one in fields if isinstance(one.default, str) or one.listed.advanced}
    return {key: value for key, value in described.items() if key not in defaults or value != defaults[key]}


def known_theory(described: Mapping[Any, Any]) -> Theory | None:
    """The theory of what `describe_target` gave; None for a target of one's own."""
    name = described.get("target", described.get("name"))
    return registry.theory(name) if name in registry.names() else None


def symbol(theory: Theory | None, name: str) -> str:
    """A quantity or setting in the notation of the field, or by its name in words."""
    return ({} if theory is None else theory.symbols).get(name, name.replace("_", " "))


def checksum(tree: Any) -> int:
    """Of all arrays in a tree: what must not change when a run goes on."""
    found = 0
    for name, value in sorted(by_name(eqx.filter(tree, eqx.is_array)).items()):
        array = np.asarray(value)
        found = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), found)
        found = zlib.crc32(np.ascontiguousarray(array).tobytes(), found)
    return found

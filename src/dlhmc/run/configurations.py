"""Configurations that come from elsewhere: as fields of a target, and as first configurations of a run."""

import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from dlhmc.errors import UserError
from dlhmc.geometry import Geometry, Torus
from dlhmc.geometry.contract import Field
from dlhmc.targets import Target
from dlhmc.targets.contract import ExactDraws
from dlhmc.theories import registry

# Of numbers of few digits from a geometry whose points are not all numbers, such as unitary matrices.
_TOLERANCE = 1e-4
# More than files that people exchange take for a number of a configuration, and for their texts.
_BYTES_OF_NUMBER, _BYTES_OF_TEXTS = 64, 2**20


class Given(eqx.Module):
    """First configurations that are given: of each chain, or one for all of them. It has the form of exact draws."""

    geometry: Geometry
    x: Field

    def draw(self, key: Key[Array, ""], chains: int, dtype: jnp.dtype) -> Field:
        """They, free of what rounding has added; nothing is random."""
        x = self.geometry.project(self.x.astype(self.geometry.dtype(dtype)))
        return jnp.broadcast_to(x, (*x.shape[:-1], chains))


def as_field(configurations: Any, target: Target) -> Field:
    """Configurations [configuration, …] as x[…, configuration], in the precision that JAX is set to.

    Angles may be given as complex numbers e^{ix}.
    """
    array, geometry = np.asarray(configurations), target.geometry
    if array.dtype.kind not in "fciu":
        raise UserError(f"The configurations are of the type {array.dtype}, but must be numbers.")
    if not np.all(np.isfinite(array)):
        raise UserError("The configurations hold numbers that are not finite: leave those configurations out.")
    if array.dtype.kind == "c" and not geometry.is_complex:
        if not isinstance(geometry, Torus) or np.abs(np.abs(array) - 1).max() > _TOLERANCE:
            raise UserError("Complex numbers must be e^{ix} of absolute value 1: give angles, or divide by it.")
        array = np.angle(array)
    x = jnp.asarray(np.moveaxis(array, 0, -1), geometry.dtype(jnp.result_type(float)))
    off = float(np.max(_distance(geometry, x)))
    if not off < _TOLERANCE:
        raise UserError(f"The configurations are off those that the target can have by {off:.2g}: correct them.")
    return x


@eqx.filter_jit
def _distance(geometry: Geometry, x: Field) -> Field:
    return jnp.abs(geometry.features(geometry.project(x)) - geometry.features(x))


def exact_draws(target: Target) -> ExactDraws:
    """Exact draws, where they are asked for."""
    draws = target.exact_draws()
    if draws is None:
        raise UserError("This target has no exact draws: use another kernel and a hot or cold start.")
    return draws


def first_draws(target: Target, start: Any, chains: int) -> ExactDraws | None:
    """What draws the first configurations: a name, a file, or an array of them; None for hot and cold ones."""
    if not isinstance(start, str):
        return start_from(start, target, chains)
    if start in ("hot", "cold"):
        return None
    if start == "exact":
        return exact_draws(target)
    if start != "near":
        return start_from_file(Path(start), target, chains)
    if (draws := target.known.approximate_draws(target)) is None:
        raise UserError("This target knows no starts near equilibrium: use a hot or cold one.")
    return draws


def start_from(configurations: Any, target: Target, chains: int) -> Given:
    """From one configuration for all chains, or from […, chain]."""
    shape, wanted = np.shape(configurations), target.geometry.shape
    if shape not in (wanted, (*wanted, chains)):  # before anything is read, or room made for it: it may be a bomb
        raise UserError(
            f"First configurations have the shape {list(shape)}, but must have {list(wanted)}, or "
            f"{[*wanted, chains]} with one for each chain."
        )
    array = np.asarray(configurations)
    return Given(target.geometry, as_field(array[None] if shape == wanted else np.moveaxis(array, -1, 0), target))


def start_from_file(path: Path, target: Target, chains: int) -> Given:
    """From a file in which people exchange configurations, for all chains, or from an array in an .npy file."""
    form = registry.format_of(path) if path.is_file() else None
    if form is None:
        return start_from(load_array(path), target, chains)
    size = math.prod(target.geometry.shape)
    if path.stat().st_size > _BYTES_OF_NUMBER * size + _BYTES_OF_TEXTS:
        raise UserError(f"{path} is far larger than a configuration of the target, which has {size} numbers.")
    return start_from(registry.read_configuration(path, form)[1][1], target, chains)


def load_array(path: Path) -> Any:
    """An array in an .npy file, read when it is looked at."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is no array of numbers: {error}.") from None

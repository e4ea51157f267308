"""Configurations that come from elsewhere: as fields of a target, and as first configurations of a run."""

import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from dlhmc.errors import Setting, UserError
from dlhmc.geometry import Geometry, Torus
from dlhmc.geometry.contract import Field
from dlhmc.names import STARTS
from dlhmc.targets import Target
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


def require_start_shape(shape: tuple[int, ...], target: Target, chains: int) -> None:
    """A `UserError` before anything is read, or room made for it: the shape may be that of a bomb."""
    wanted = target.geometry.shape
    if shape not in (wanted, (*wanted, chains)):
        raise UserError(
            f"First configurations have the shape {list(shape)}, but must have {list(wanted)}, or "
            f"{[*wanted, chains]} with one for each chain."
        )


def start_from(configurations: Any, target: Target, chains: int) -> Given:
    """From one configuration for all chains, or from […, chain]."""
    array, wanted = np.asarray(configurations), target.geometry.shape
    require_start_shape(array.shape, target, chains)
    return Given(target.geometry, as_field(array[None] if array.shape == wanted else np.moveaxis(array, -1, 0), target))


def start_from_file(path: Path, target: Target, chains: int) -> Given:
    """From a file in which people exchange configurations, for all chains, or from an array in an .npy file."""
    if not path.is_file():
        names = ", ".join(STARTS)
        raise UserError(f"There is no file {path}: {Setting('start')} is one of {names}, or a file.")
    form = registry.format_of(path)
    if form is None:
        return start_from(load_array(path), target, chains)
    if path.stat().st_size > _BYTES_OF_NUMBER * math.prod(target.geometry.shape) + _BYTES_OF_TEXTS:
        raise UserError(
            f"{path} is far larger than a configuration of the target, which has {list(target.geometry.shape)} numbers."
        )
    settings, (_, x) = registry.read_configuration(path, form)
    if x.shape != target.geometry.shape:
        its = list(target.geometry.shape)
        raise UserError(f"{path} holds a configuration of {registry.told_by(settings)}, and not of the shape {its}.")
    return start_from(x, target, chains)


def load_array(path: Path) -> Any:
    """An array in an .npy file, read when it is looked at."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is no array of numbers: {error}.") from None

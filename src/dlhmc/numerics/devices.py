"""Inside compiled programs: chains, and lattices too large for one device, spread over devices.

Programs are written for the whole arrays: inside `Devices.active` the compiler cuts them to pieces along the axes named
here, and adds what has to be sent between devices; only a training step says itself what is sent (`averaged`). Random
numbers are made for each chain by its index, and what is summed over chains while sampling is summed in integers: the
numbers of a chain do not depend on how many devices share the chains. Without devices to spread over, nothing is done.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import equinox as eqx
import jax
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec
from jaxtyping import Array

if TYPE_CHECKING:  # geometries draw for the chains of a device
    from dlhmc.geometry.contract import Field

T = TypeVar("T")
#: names of the axes of a mesh
CHAINS, SITES = "chains", "sites"
#: fields are [component, …, site, site, chain]: whatever components come first, the third axis from the end is one of
#: sites in every lattice of two dimensions or more
AXIS_OF_SITES = -3


def spread(tree: T) -> T:
    """Cut arrays along chains, their last axis, and fields along sites where lattices are split."""
    split = lattice_is_split()
    spread_out: T = jax.tree.map(lambda a: _cut(a, sites=split and a.ndim > 2), tree)
    return spread_out


def spread_chains(tree: T) -> T:
    """Cut arrays along chains, their last axis."""
    spread_out: T = jax.tree.map(lambda a: _cut(a, sites=False), tree)
    return spread_out


def _cut(array: Array, *, sites: bool) -> Array:
    if jax.sharding.get_abstract_mesh().empty:
        return array
    axes = [None] * (array.ndim - 1) + [CHAINS]
    if sites:
        axes[AXIS_OF_SITES] = SITES
    return jax.lax.with_sharding_constraint(array, PartitionSpec(*axes))


def everywhere(tree: T) -> T:
    """All arrays on each of the devices."""
    if jax.sharding.get_abstract_mesh().empty:
        return tree
    arrays, rest = eqx.partition(tree, eqx.is_array)
    whole = jax.tree.map(lambda a: jax.lax.with_sharding_constraint(a, PartitionSpec()), arrays)
    placed: T = eqx.combine(whole, rest)
    return placed


def lattice_is_split() -> bool:
    """Whether a lattice is on several devices, so that neighbours may be elsewhere."""
    return dict(jax.sharding.get_abstract_mesh().shape).get(SITES, 1) > 1


def averaged(part: Callable[..., tuple[T, "Field"]], x: "Field", *rest: Any) -> tuple[T, "Field"]:
    """`part(x, *rest)`, which gives means over chains and a new field.

    Where chains are spread over devices, each works on its own, and all means are sent as one row of numbers. The
    compiler would send every array for itself, which takes long where messages do, as between processes.
    """
    parts = dict(jax.sharding.get_abstract_mesh().shape).get(CHAINS, 1)
    # Directions are drawn for pairs of chains, which must not be torn apart.
    if parts == 1 or lattice_is_split() or x.shape[-1] % (2 * parts):
        return part(x, *rest)
    arrays, static = eqx.partition(rest, eqx.is_array)
    along_chains = PartitionSpec(*(None,) * (x.ndim - 1), CHAINS)

    def of_device(x: "Field", arrays: Any) -> tuple[T, "Field"]:
        means, new = part(x, *eqx.combine(arrays, static))
        with jax.numpy_dtype_promotion("standard"):  # of different precisions in one row
            numbers, as_before = ravel_pytree(means)
        return as_before(jax.lax.pmean(numbers, CHAINS)), new

    return jax.shard_map(
        of_device,
        in_specs=(along_chains, PartitionSpec()),
        out_specs=(PartitionSpec(), along_chains),
        check_vma=False,  # or gradients would be summed array by array, at once
    )(x, arrays)


def first_chain(number: int) -> Array | int:
    """The index of the first of the `number` chains that a program sees: those of one device, inside `averaged`."""
    if CHAINS not in jax.sharding.get_abstract_mesh().manual_axes:
        return 0
    return jax.lax.axis_index(CHAINS) * number

"""Leapfrog in which the force of each plaquette around one place has a weight that does not depend on the state.

    v′ = e^{a} v − b Σ_P w_P ∂S_P,   x′ = x + e v,   with a, w and e functions of the distance from the origin.

The force is the curl of s′(x_P), so that s′(x_P) is a linear function of it, but for its mean over the lattice: these
layers are linear in the force, and dense networks can take them over. Beyond the window nothing moves. They act at
the origin alone; a symmetry drawn for each trajectory makes that any place. Before training they are HMC.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from dlhmc.layers.linear import LinearTrajectory, Steps
from dlhmc.layers.palindrome import mirrored, mirrored_odd
from dlhmc.targets.contract import Target
from dlhmc.theories.gauge.radial import basis, inverse_sqrt_multiplicity, link_distances, plane_distances
from dlhmc.theories.u1.links import curl
from dlhmc.theories.u1.plaquette_action import PlaquetteAction

# w in these units: it has far to go.
_COARSE = 3.0


class Weighted(LinearTrajectory):
    """A palindrome of `number` layers; every array holds its first half."""

    #: w − 1, the middle included, by its values at `radii`; from the last of them on it is 0
    weight: Float[Array, "half_and_middle radius"]
    #: a, none in the middle of an odd number of layers
    scale: Float[Array, "half radius"]
    #: log ε in units of 1/√stiffness, so that steps suit other couplings too; and log of e/ε
    log_step: Float[Array, " half_and_middle"]
    log_factor: Float[Array, "half_and_middle radius"]
    radii: tuple[float, ...] = eqx.field(static=True)
    number: int = eqx.field(static=True)
    #: links farther away do not move
    window: float = eqx.field(static=True)

    @classmethod
    def start(cls, number: int, step_size: ArrayLike, radii: Sequence[float], window: float) -> "Weighted":
        """HMC with leapfrog steps of this size, in units of 1/√stiffness, inside the window."""
        half, size = (number + 1) // 2, len(radii) - 1
        return cls(
            weight=jnp.zeros((half, size)),
            scale=jnp.zeros((number // 2, size)),
            log_step=jnp.full(half, jnp.log(jnp.asarray(step_size, float))),
            log_factor=jnp.zeros((half, size)),
            radii=tuple(float(r) for r in radii),
            number=number,
            window=float(window),
        )

    def __len__(self) -> int:
        return self.number

    def steps(self, target: Target) -> Steps:
        """W weighs the forces of the plaquettes within the last radius, and R finds them."""
        if not isinstance(target, PlaquetteAction):
            raise TypeError("weighted layers are made for U(1) theories of plaquettes")
        by = jnp.asarray(inverse_sqrt_multiplicity(self.radii)[:-1], float)
        of_links = link_distances(target.lattice, (0, 0))
        on_links = by[:, None, None, None] * basis(self.radii, of_links)[:-1]
        moving = (of_links < self.window).astype(of_links.dtype)

        def field(values: Float[Array, "layer radius"]) -> Float[Array, "layer 2 x t"]:
            return moving * jnp.tensordot(values, on_links, axes=1)

        unit = 1 / jnp.sqrt(target.stiffness().astype(self.log_step.dtype))
        step = unit * mirrored(jnp.exp(self.log_step), self.number)[:, None, None, None]
        scale = field(mirrored_odd(self.scale, self.number))
        kick = 0.5 * step * moving * jnp.exp(0.5 * scale)
        drift = step * moving * jnp.exp(field(mirrored(self.log_factor, self.number)))

        distances = plane_distances(*target.lattice)
        places = np.nonzero(distances < self.radii[-1])
        on_plaquettes = by[:, None] * basis(self.radii, jnp.asarray(distances[places], float))[:-1]
        weight = _COARSE * jnp.tensordot(mirrored(self.weight, self.number), on_plaquettes, axes=1)
        read, curls = _inverse_curl(target.lattice, places)
        write = weight[:, None, None, None, :] * curls
        return Steps(scale[..., None], kick[..., None], drift[..., None], write, read)


def _inverse_curl(lattice: tuple[int, int], places: tuple[Any, ...]) -> tuple[Array, Array]:
    """R such that R·curl(f) = f − its mean at some plaquettes, and the curls of these.

    The transpose of curl takes a field of links to Σ over the links of a plaquette, so that curlᵀcurl = −Laplacian, and
    R = Gᵀcurlᵀ with G its inverse but for constants.
    """
    along = [2 - 2 * np.cos(2 * np.pi * np.fft.fftfreq(side)) for side in lattice]
    eigenvalues = along[0][:, None] + along[1][None, :]
    eigenvalues[0, 0] = np.inf
    unit = np.zeros((*lattice, len(places[0])))
    unit[(*places, np.arange(len(places[0])))] = 1
    green = np.fft.ifft2(np.fft.fft2(unit, axes=(0, 1)) / eigenvalues[..., None], axes=(0, 1)).real
    read, curls = (curl(jnp.asarray(field, float)) for field in (green, unit))
    return jnp.moveaxis(read, -1, 0), curls

"""A lattice scalar field φ⁴ in two dimensions: a target of your own, trained with the magnetisation in the loss.

    S(φ) = Σ_x [ −2κ Σ_μ φ_x φ_{x+μ} + φ_x² + λ (φ_x² − 1)² ]

Around κ_c the magnetisation M has two lobes, ±m, between which HMC crosses less and less often. Run it with

    python examples/phi4.py

It trains a sampler and compares it with HMC; --help lists the sizes.
"""

import argparse
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

import dlhmc
from dlhmc.actions import Action
from dlhmc.geometry import Field, FlatSpace, Geometry, PerChain, sum_sites
from dlhmc.numerics.leaves import leaf
from dlhmc.targets import Known, Moment, Symmetry, Target
from dlhmc.testing import check_loss, check_target


class Phi4(Action):
    """S(φ) of fields φ[i, j, chain] on a periodic lattice."""

    kappa: Float[Array, ""] = eqx.field(converter=leaf)
    lam: Float[Array, ""] = eqx.field(converter=leaf)

    def terms(self, x: Field) -> Field:
        """The terms of each site; each link belongs to the site it starts from."""
        kappa, lam = self.kappa.astype(x.dtype), self.lam.astype(x.dtype)
        neighbours = jnp.roll(x, -1, axis=0) + jnp.roll(x, -1, axis=1)
        square = x * x
        return -2 * kappa * x * neighbours + square + lam * (square - 1) ** 2

    def force(self, geometry: Geometry, x: Field) -> Field:
        """∂S/∂φ, faster than by autodiff."""
        kappa, lam = self.kappa.astype(x.dtype), self.lam.astype(x.dtype)
        neighbours = sum(jnp.roll(x, shift, axis) for axis in (0, 1) for shift in (-1, 1))
        return -2 * kappa * neighbours + 2 * x + 4 * lam * x * (x * x - 1)


def magnetisation(x: Field) -> PerChain:
    """M = (1/V) Σ_x φ_x."""
    return jnp.mean(x, axis=(0, 1))


def observe(x: Field) -> dict[str, PerChain]:
    """Magnetisation, its absolute value, and φ² per site."""
    m = magnetisation(x)
    return {"magnetisation": m, "absolute_magnetisation": jnp.abs(m), "phi_squared": sum_sites(x * x) / x[..., 0].size}


KNOWN = Known(
    moments={
        "magnetisation": Moment("magnetisation"),
        "magnetisation_squared": Moment("magnetisation", 2),
        "phi_squared": Moment("phi_squared"),
    },
    # Not M alone: a sampler that only learns to change its sign would look perfect.
    slow=lambda target: {"magnetisation": 0.0, "absolute_magnetisation": None},
    symmetries=lambda target: {
        "translation": Symmetry(lambda key, x: jnp.roll(x, (1, 1), axis=(0, 1))),
        "reflection": Symmetry(lambda key, x: x[::-1]),
        "change of sign": Symmetry(lambda key, x: -x, frozenset({"magnetisation"})),
    },
)


def phi4(lattice: tuple[int, int], kappa: float, lam: float) -> Target:
    """p(φ) ∝ e^{−S(φ)}."""
    return Target(FlatSpace(lattice), [Phi4(leaf(kappa), leaf(lam))], observe, KNOWN)


def magnetisation_loss(target: Target, transition: dlhmc.Transition) -> PerChain:
    """−A·(M(φ′) − M(φ))²: the paper's loss with the magnetisation in the place of the charge."""
    jump = magnetisation(transition.x_new) - magnetisation(transition.x)
    return -transition.acceptance * jump * jump


class LocalNetwork(dlhmc.Network):
    """The same small network at every site: it sees φ and the vector there, at the neighbours, and their averages.

    The averages over the lattice let a site know in which lobe the field is. s and q are even and t is odd under
    φ → −φ, v → −v, as the action wants it.
    """

    hidden: dlhmc.Linear
    heads: dlhmc.Linear

    def __init__(self, key: Key[Array, ""], width: int) -> None:
        self.hidden = dlhmc.Linear.random(key, 6, width)
        self.heads = dlhmc.Linear.zero(width, 3)

    def __call__(self, zeta: dlhmc.Zeta) -> dlhmc.SQT:
        """(s, q, t) at ζ."""
        seen = self._see(zeta)
        plus, minus = (self._heads(sign * seen, zeta.vector.shape) for sign in (1, -1))
        s, q, t = plus[0] + minus[0], plus[1] + minus[1], plus[2] - minus[2]
        return dlhmc.SQT(jnp.tanh(s), jnp.tanh(q), t)

    def _see(self, zeta: dlhmc.Zeta) -> Float[Array, "6 site_and_chain"]:
        parts = []
        for field in (zeta.position[0], zeta.vector):
            around = sum(jnp.roll(field, shift, axis) for axis in (0, 1) for shift in (-1, 1)) / 4
            mean = jnp.broadcast_to(jnp.mean(field, axis=(0, 1)), field.shape)
            parts += [field, around, mean]
        return jnp.stack(parts).reshape(len(parts), -1)

    def _heads(self, seen: Float[Array, "6 n"], shape: tuple[int, ...]) -> Float[Array, "3 *field"]:
        return self.heads(jnp.tanh(self.hidden(seen))).reshape(3, *shape)


def main(arguments: Sequence[str] | None = None) -> dlhmc.Comparison:
    """Check, train, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=8, help="sites along each direction")
    parser.add_argument("--kappa", type=float, default=0.34, help="hopping parameter")
    parser.add_argument("--lam", type=float, default=0.5, help="coupling of φ⁴")
    parser.add_argument("--layers", type=int, default=4, help="leapfrog layers to train")
    parser.add_argument("--width", type=int, default=8, help="hidden units of the networks")
    parser.add_argument("--steps", type=int, default=1000, help="training steps")
    parser.add_argument("--chains", type=int, default=128, help="Markov chains")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds of the comparison")
    parser.add_argument("--out", default=None, help="new directory for tables and histories")
    options = parser.parse_args(arguments)

    target = phi4((options.side, options.side), options.kappa, options.lam)
    check_target(target)
    check_loss(magnetisation_loss, target)

    def network(key: Key[Array, ""], geometry: Geometry) -> LocalNetwork:
        return LocalNetwork(key, options.width)

    trajectory = dlhmc.build_trajectory(target, network, layers=options.layers, mask="checkerboard", step_size=0.2)
    trained = dlhmc.train(
        target,
        trajectory,
        loss=magnetisation_loss,
        steps=options.steps,
        chains=options.chains,
        learning_rate=3e-3,
        gamma=0.5,
    )
    result = dlhmc.compare(
        target,
        {"trained": trained.kernel},
        lengths=(2.0, 4.0, 8.0),
        acceptances=(0.6, 0.8),
        chains=options.chains,
        budget=options.budget,
        out=options.out,
    )
    result.show()
    return result


if __name__ == "__main__":
    main()

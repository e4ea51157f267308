"""Layers that act in windows: blocks of the lattice, side by side around a random place, each accepted on its own.

A network that sees all of a lattice gets one answer for one proposal; in windows it gets one for each, and whether a
block of links may tunnel hangs on that block alone. So a small network learns in seconds what a large one does not
learn in days. Nothing here knows what tunnels: that comes from the loss.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key
from numpy.typing import NDArray

from dlhmc.geometry.contract import Field, Momentum, real_dtype
from dlhmc.layers.contract import Phase, Trajectory
from dlhmc.layers.palindrome import Impulse, Kick
from dlhmc.networks.mlp import MLP
from dlhmc.targets.contract import Target
from dlhmc.targets.windows import Windowed, Windows, layout_for, stiffness, window_of, windowed

#: numbers of all cells of a window, one after the other → what a kick makes of them
CellNetwork = Callable[[Float[Array, "in chain"]], Float[Array, "out chain"]]


class PlaquetteKick(Kick):
    """One network gives w and t for each cell, and s: f = Σ_c [(1 + w_c) ∂S_c + √κ t_c ∂q_c].

    S_c is the action of the cell, q_c its density of the sector and κ the stiffness. Where q_c is the angle around the
    cell, the push is the curl of t. All of it is gauge covariant.
    """

    network: CellNetwork | MLP

    def __call__(self, target: Target, x: Field) -> Impulse:
        """S, and the force with weights and pushes."""
        window = windowed(target)
        numbers = window.numbers(x)
        _, cells, chains = numbers.shape
        found = self.network(numbers.reshape(-1, chains))
        of_cells = found[:-1].reshape(-1, cells, chains)
        weights, pushes = jnp.split(of_cells, [window.heads()[0]])
        return Impulse(found[-1], window.pushed_force(x, weights, _root(target, x) * pushes))

    def grown(self, old: Windowed, new: Windowed) -> "PlaquetteKick":
        """For a larger window: the new cells are not seen yet, and are pushed as the nearest of the old ones.

        A push that is the same in two cells does nothing to the link between them, so that the links that are free now
        move as in HMC, and the others as before.
        """
        if not isinstance(self.network, MLP):
            raise TypeError("only networks of this package know how to see a larger window")
        nearest, is_old = _nearest(old, new)
        size, heads = len(old.cells()), sum(old.heads())
        numbers = self.network.layers[0].weight.shape[-1] // size

        def each(number: int, cells: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.concatenate([np.where(cells >= 0, cells + k * size, -1) for k in range(number)])

        outputs = np.append(each(heads, nearest), heads * size)
        network = self.network.rewired(each(numbers, np.where(is_old, nearest, -1)), outputs)
        return PlaquetteKick(network)


class LinkKick(Kick):
    """The paper's heads: one network gives s, q and t for each link, f = ∂S·e^{q} + √κ t, eq. (1).

    t acts along the centre of the algebra, which alone is the same in every gauge.
    """

    network: CellNetwork

    def __call__(self, target: Target, x: Field) -> Impulse:
        """S and f of each link."""
        numbers = windowed(target).numbers(x)
        chains = numbers.shape[-1]
        s, q, t = self.network(numbers.reshape(-1, chains)).reshape(3, -1, chains)
        geometry = target.geometry
        force = target.force(x) * geometry.to_scale(jnp.exp(q))
        central = geometry.central(_root(target, x) * t)
        return Impulse(geometry.to_scale(s), force if central is None else force + central)


class Local(Trajectory):
    """A trajectory inside each window of `block` cells a side; parameters serve on every lattice that has room."""

    acts_in_windows: ClassVar[bool] = True

    inside: Trajectory
    block: int = eqx.field(static=True)

    def __len__(self) -> int:
        return len(self.inside)

    @property
    def forces(self) -> int:
        """Those of all windows together are those of one lattice."""
        return self.inside.forces

    def windows(self, key: Key[Array, ""], target: Target, x: Field) -> Windows:
        """Around a random place."""
        return Windows.around(key, target, self.block, x)

    def forward(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F in all windows around the origin."""
        return self._everywhere(self.inside.forward, target, x, v)

    def inverse(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F⁻¹ in all windows around the origin."""
        return self._everywhere(self.inside.inverse, target, x, v)

    def layer_by_layer(self, target: Target, x: Field, v: Momentum) -> Phase:
        """F around the origin, with the phase after each layer."""
        windows = Windows.at_origin(target, self.block, x)
        ends = self._ends(self.inside.layer_by_layer, windows, v)
        return jax.vmap(lambda end: _pasted(windows, v, end))(ends)

    def grown(self, target: Target, block: int) -> "Local":
        """For larger windows, to go on training there."""
        old, new = (windowed(window_of(target, layout_for(target, size))) for size in (self.block, block))
        inside: Any = self.inside
        return Local(eqx.tree_at(lambda it: it.kicks, inside, inside.kicks.grown(old, new)), block)

    def _everywhere(self, run: Any, target: Target, x: Field, v: Momentum) -> Phase:
        windows = Windows.at_origin(target, self.block, x)
        return _pasted(windows, v, self._ends(run, windows, v))

    def _ends(self, run: Any, windows: Windows, v: Momentum) -> Phase:
        return windows.each(lambda window, x, v: run(window, x, v), windows.momenta(v), axis=-2)


def _pasted(windows: Windows, v: Momentum, end: Phase) -> Phase:
    x, v = windows.pasted(windows.x, end.x), windows.pasted(v, end.v)
    return Phase(x, v, jnp.sum(end.log_jacobian, axis=-2))


def _nearest(old: Windowed, new: Windowed) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each cell of the new window the nearest of the old one in its middle, and whether it is that very cell."""
    (before, planes_before), (now, planes) = old.places_of_cells(), new.places_of_cells()
    middle = (new.layout.block - old.layout.block) // 2
    apart = np.sum((now[:, None] - middle - before[None]) ** 2, axis=2)
    apart = np.where(planes[:, None] == planes_before[None], apart, np.iinfo(np.int64).max)
    return np.argmin(apart, axis=1), np.min(apart, axis=1) == 0


def see_cells(target: Target, x: Field, hidden: Bool[Array, " element"] | None) -> Float[Array, "number cell chain"]:
    """What leapfrog layers in a window see: the numbers of all cells but those that see a hidden element."""
    window = windowed(target)
    return window.numbers(x) if hidden is None else window.numbers_without(x, hidden)


def _root(target: Target, x: Field) -> Float[Array, ""]:
    return jnp.sqrt(stiffness(target)).astype(real_dtype(x))  # type: ignore[arg-type]

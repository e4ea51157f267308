"""Layers that act in windows: blocks of the lattice, side by side around a random place, each accepted on its own.

A network that sees all of a lattice gets one answer for one proposal; in windows it gets one for each, and whether a
block of links may tunnel hangs on that block alone. So a small network learns in seconds what a large one does not
learn in days. Nothing here knows about instantons or charges: that comes from the loss.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from dlhmc.geometry.contract import Field, Momentum
from dlhmc.layers.contract import Phase, Trajectory
from dlhmc.layers.palindrome import Impulse, Kick
from dlhmc.targets.contract import Target
from dlhmc.targets.windows import Window, Windows

#: numbers of all cells of a window, one after the other → what a kick makes of them
CellNetwork = Callable[[Float[Array, "in chain"]], Float[Array, "out chain"]]


class PlaquetteKick(Kick):
    """One network gives w and t for each cell, and s: f = Σ_c [(1 + w_c) ∂S_c + √β t_c ∂q_c].

    S_c is the action of the cell and q_c its density of the sector, for U(1) the plaquette angle itself, so that the
    push is the curl of t. All of it is gauge covariant. √β stands for the root of the stiffness.
    """

    network: CellNetwork

    def __call__(self, target: Target, x: Field) -> Impulse:
        """S, and the force with weights and pushes."""
        window = _window(target)
        numbers = window.numbers(x)
        _, cells, chains = numbers.shape
        found = self.network(numbers.reshape(-1, chains))
        of_cells = found[:-1].reshape(-1, cells, chains)
        weights, pushes = jnp.split(of_cells, [window.weights_per_cell])
        return Impulse(found[-1], window.pushed_force(x, weights, _root(window, x) * pushes))


class LinkKick(Kick):
    """The paper's heads: one network gives s, q and t for each link, f = ∂S·e^{q} + √β t, eq. (1).

    t acts along the centre of the algebra, which alone is the same in every gauge.
    """

    network: CellNetwork

    def __call__(self, target: Target, x: Field) -> Impulse:
        """S and f of each link."""
        window = _window(target)
        numbers = window.numbers(x)
        chains = numbers.shape[-1]
        s, q, t = self.network(numbers.reshape(-1, chains)).reshape(3, -1, chains)
        force = target.force(x) * jnp.exp(q)
        central = target.geometry.central(_root(window, x) * t)
        return Impulse(s, force if central is None else force + central)


class Local(Trajectory):
    """A trajectory inside each window of `block` cells a side; parameters serve on every lattice that has room."""

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

    def _everywhere(self, run: Any, target: Target, x: Field, v: Momentum) -> Phase:
        windows = Windows.at_origin(target, self.block, x)
        return _pasted(windows, v, self._ends(run, windows, v))

    def _ends(self, run: Any, windows: Windows, v: Momentum) -> Phase:
        return windows.each(lambda window, x, v: run(window, x, v), windows.momenta(v), axis=-2)


def _pasted(windows: Windows, v: Momentum, end: Phase) -> Phase:
    x, v = windows.pasted(windows.x, end.x), windows.pasted(v, end.v)
    return Phase(x, v, jnp.sum(end.log_jacobian, axis=-2))


def _window(target: Target) -> Window:
    if not isinstance(target, Window):
        raise TypeError("these layers act in windows: put them into Local")
    return target


def _root(window: Window, x: Field) -> Float[Array, ""]:
    return jnp.sqrt(window.stiffness()).astype(jnp.finfo(x.dtype).dtype)

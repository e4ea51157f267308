"""Gauge fields of U(N) and SU(N) in two, three and four dimensions, as targets that are put together."""

from collections.abc import Sequence

from jaxtyping import ArrayLike

from dlhmc.actions.angles import Cosine, PlaquetteFunction
from dlhmc.actions.contract import Action
from dlhmc.actions.fermions import Determinant, Pseudofermions
from dlhmc.actions.loops import Plaquette, Rectangle
from dlhmc.geometry.torus import Torus
from dlhmc.geometry.unitary import UnitaryMatrices
from dlhmc.numerics.leaves import leaf, parameter
from dlhmc.settings import checked
from dlhmc.targets.contract import Known, Target
from dlhmc.theories.gauge.groups import RECTANGLES, Beta, Group, Side, Sides
from dlhmc.theories.gauge.known import CHARGED, FERMIONS, NEUTRAL, observe, observe_angles, observe_charged


def GaugeField(  # noqa: N802 - it stands where a class could
    group: str | Group,
    sides: Sequence[int],
    actions: Sequence[Action],
    gamma: ArrayLike = 1.0,
    *,
    known: Known | None = None,
    matrices: bool = False,
) -> Target:
    """p(U) ∝ e^{−γ Σ S_i(U)} on a periodic lattice of two, three or four dimensions, the slowest action first.

    Links are matrices; for U(1) in two dimensions angles, if all actions are for plaquettes and no `matrices` are
    wanted.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> target = GaugeField("su2", (4, 4), [Plaquette(2.8), Rectangle(-0.1)])
    >>> x = target.start(jax.random.key(0), "cold", chains=2, dtype=jnp.float32)
    >>> x.shape, target.action(x).tolist()
    ((2, 2, 2, 4, 4, 2), [0.0, 0.0])
    """
    colors, special = Group.named(group) if isinstance(group, str) else group
    sides = checked("lattice", tuple(sides), Sides)
    links = (len(sides), *sides)
    if colors == 1 and len(sides) == 2 and not matrices and not any(type(action) is Rectangle for action in actions):
        fermions = any(isinstance(action, Pseudofermions | Determinant) for action in actions)
        return Target(Torus(links), actions, observe_angles, known or (FERMIONS if fermions else CHARGED), gamma)
    if any(isinstance(action, PlaquetteFunction) for action in actions):
        raise TypeError("functions of plaquette angles are for links that are angles: U(1) in two dimensions")
    geometry = UnitaryMatrices(colors, special, links)
    if len(sides) == 2 and not special:
        return Target(geometry, actions, observe_charged, known or CHARGED, gamma)
    return Target(geometry, actions, observe, known or NEUTRAL, gamma)


def wilson(
    group: str, sides: Sequence[int], beta: ArrayLike, gamma: ArrayLike = 1.0, *, matrices: bool = False
) -> Target:
    """The Wilson action, β Σ_P (1 − Re tr P/N)."""
    return GaugeField(group, sides, [Plaquette(parameter("beta", beta, Beta))], gamma, matrices=matrices)


def U1(sides: Sequence[int], beta: ArrayLike, gamma: ArrayLike = 1.0) -> Target:  # noqa: N802
    """U(1) in two dimensions with the Wilson action S_β(x) = β Σ_P (1 − cos x_P) of angles x, eq. (3).

    >>> import jax
    >>> import jax.numpy as jnp
    >>> target = U1((16, 16), beta=7.0)
    >>> x = target.start(jax.random.key(0), "cold", chains=4, dtype=jnp.float32)
    >>> target.action(x).tolist()
    [0.0, 0.0, 0.0, 0.0]
    """
    return wilson("u1", checked("lattice", tuple(sides), tuple[Side, Side]), beta, gamma)


def Mixed(sides: Sequence[int], beta: ArrayLike, beta2: ArrayLike, gamma: ArrayLike = 1.0) -> Target:  # noqa: N802
    """S(x) = β Σ_P (1 − cos x_P) + β₂ Σ_P (1 − cos 2x_P) of U(1) in two dimensions.

    >>> from dlhmc.targets.windows import stiffness
    >>> round(float(stiffness(Mixed((8, 8), beta=2.0, beta2=-0.3))), 6)
    0.8
    """
    return GaugeField("u1", sides, [Plaquette(beta), Cosine(beta2, 2)], gamma)


def improved(group: str, sides: Sequence[int], beta: ArrayLike, c1: str | ArrayLike, gamma: ArrayLike = 1.0) -> Target:
    """β times plaquettes with 1 − 8c₁ and rectangles with c₁, a number or the name of an action (`RECTANGLES`).

    >>> [round(float(action.coefficient), 3) for action in improved("su3", (4, 4, 4, 8), 1.0, "iwasaki").actions]
    [3.648, -0.331]
    """
    return GaugeField(group, sides, with_rectangles(beta, RECTANGLES[c1] if isinstance(c1, str) else c1), gamma)


def with_rectangles(beta: ArrayLike, c1: ArrayLike) -> list[Action]:
    """β(1 − 8c₁) plaquettes and βc₁ rectangles."""
    beta, c1 = parameter("beta", beta, Beta), leaf(c1)
    return [Plaquette(beta * (1 - 8 * c1)), Rectangle(beta * c1)]

"""The Schwinger model: two-dimensional quantum electrodynamics, p(x) ∝ e^{−S_g(x)} det D(x)^{N_f}, N_f even."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from jaxtyping import ArrayLike

from dlhmc.actions.fermions import PRECISE, Precision, Pseudofermions, split_determinant
from dlhmc.actions.loops import Plaquette
from dlhmc.lattice.links import Links
from dlhmc.numerics.leaves import parameter
from dlhmc.targets.contract import Known, Moment, Observed, Target
from dlhmc.theories.gauge.field import GaugeField
from dlhmc.theories.gauge.groups import Beta
from dlhmc.theories.gauge.known import FERMIONS, observe_angles
from dlhmc.theories.schwinger.theory import Mass


def Schwinger(  # noqa: N802 - it stands where a class could
    lattice: Sequence[int],
    beta: ArrayLike,
    mass: ArrayLike | None = None,
    *,
    kappa: float | None = None,
    flavours: int = 2,
    hasenbusch: Sequence[float] = (),
    precision: Precision = PRECISE,
    expected_charge_squared: float | None = None,
) -> Target:
    """Pseudofermions, split by heavier masses m + μ, and the Wilson action on a lattice with even sides.

    `expected_charge_squared` is about ⟨Q²⟩: comparisons also learn it from samplers that tunnel.

    >>> target = Schwinger((4, 4), beta=2.0, kappa=0.25)
    >>> [type(action).__name__ for action in target.actions], round(float(target.actions[0].mass), 6)
    (['Pseudofermions', 'Plaquette'], 0.0)
    """
    if any(side % 2 for side in lattice):
        raise ValueError(f"the lattice is {lattice}, but even and odd sites need even sides")
    if flavours < 2 or flavours % 2:
        raise ValueError(f"flavours is {flavours}, but must be an even number")
    if list(hasenbusch) != sorted({mu for mu in hasenbusch if mu > 0}):
        raise ValueError(f"hasenbusch is {hasenbusch}, but must be positive numbers in ascending order")
    if (mass is None) == (kappa is None):
        raise ValueError("give the mass or kappa = 1/(2·mass + 4), and not both")
    mass = parameter("mass", 0.5 / kappa - 2 if mass is None else mass, Mass)  # type: ignore[operator]
    fermions = split_determinant(mass, flavours, hasenbusch, precision)
    field = GaugeField("u1", lattice, [*fermions, Plaquette(parameter("beta", beta, Beta))])
    return Target(field.geometry, field.actions, observe, _known(expected_charge_squared))


def observe(x: Links) -> dict[str, Observed]:
    """Plaquette, both charges, and Q²/V, whose mean is the topological susceptibility."""
    found = observe_angles(x)
    return found | {"susceptibility": found["charge"] ** 2 / x[0, ..., 0].size}


def described(target: Target) -> dict[str, Any] | None:
    """Couplings and the solver of a target that has pseudofermions and the Wilson action, which are not drawn yet."""
    *fermions, gauge = target.actions
    light = fermions[0]
    if type(gauge) is not Plaquette or not isinstance(light, Pseudofermions) or light.phi is not None:
        return None
    # The shortest decimals: a float32 such as 0.1 is 0.1 for people.
    mass, others = float(str(light.mass)), [float(str(other.mass)) for other in fermions[1:]]  # type: ignore[attr-defined]
    return {
        "beta": float(str(gauge.coefficient)),
        "mass": mass,
        "flavours": light.flavours,
        "residual": light.precision.action,
        "force_residual": light.precision.force,
        "most_iterations": light.precision.most_iterations,
        "hasenbusch": tuple(float(f"{other - mass:.6g}") for other in others),
        "expected_charge_squared": target.known.slow_variance(target, "charge"),
    }


@functools.cache  # the same each time: another one would be compiled again
def _known(expected_charge_squared: float | None) -> Known:
    moments = {**FERMIONS.moments, "susceptibility": Moment("susceptibility")}
    given = {} if expected_charge_squared is None else {"charge": expected_charge_squared}
    return dataclasses.replace(FERMIONS, moments=moments, slow_variance=lambda target, name: given.get(name))

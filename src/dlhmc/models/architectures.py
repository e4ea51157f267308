"""All layers by name: those of the package, and others that are registered. Free of heavy imports."""

from typing import TYPE_CHECKING, Any, cast

from dlhmc.errors import Setting, UserError
from dlhmc.models.architecture import Architecture
from dlhmc.models.dense import DenseArchitecture
from dlhmc.settings import advice
from dlhmc.theories.gauge.architectures import CovariantArchitecture, LocalArchitecture

if TYPE_CHECKING:
    from collections.abc import Callable

    from dlhmc.layers import Trajectory
    from dlhmc.targets import Target

#: the first that suits a target is its default
ARCHITECTURES: dict[str, type[Architecture]] = {
    kind.name: kind for kind in (LocalArchitecture, CovariantArchitecture, DenseArchitecture)
}


def architecture(name: object) -> type[Architecture]:
    """The layers of that name."""
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise UserError(f"There is no network {name!r}: {advice(str(name), ARCHITECTURES)}")
    return ARCHITECTURES[name]


def architecture_for(target: "Target", name: str | None) -> type[Architecture]:
    """The layers of that name, or the first that suit the target; those that cannot be built for it are refused."""
    fitting = [name for name, kind in ARCHITECTURES.items() if kind.suits(target)]
    kind = architecture(fitting[0] if name is None else name)
    if not kind.suits(target):
        raise UserError(
            f"{kind.name} layers ({kind.meaning}) are not for this target: use "
            f"{Setting('network')} {' or '.join(fitting)}."
        )
    return kind


def built(architecture: Architecture, target: "Target", seed: int) -> "Trajectory":
    """New layers; the seed is that of the run."""
    return drawn(lambda key: architecture.build(target, key), seed)


def drawn(build: "Callable[[Any], Trajectory]", seed: int) -> "Trajectory":
    """What a function builds with the key for new layers."""
    import equinox as eqx
    import jax.numpy as jnp
    import numpy as np

    from dlhmc.numerics import rng
    from dlhmc.numerics.leaves import integer

    @eqx.filter_jit
    def built(seed: Any) -> Any:
        return build(rng.step_key(seed, rng.Purpose.MODEL, jnp.zeros((), jnp.uint32)))

    return cast("Trajectory", built(integer(seed, np.uint32)))

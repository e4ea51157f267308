"""The paper's architecture: leapfrog layers with dense networks. Free of heavy imports."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Meta

from dlhmc.errors import Setting, UserError
from dlhmc.models.architecture import Architecture, TrainingDefaults
from dlhmc.names import MaskName, RuleName
from dlhmc.settings import Advanced

if TYPE_CHECKING:
    from jax import Array

    from dlhmc.layers import LayerStack, PositionRule, Trajectory
    from dlhmc.layers.leapfrog import View
    from dlhmc.networks import NetworkFactory
    from dlhmc.targets import Target

Hidden = Annotated[tuple[Annotated[int, Meta(ge=1, le=10**6)], ...], Meta(min_length=1, max_length=100)]


@dataclasses.dataclass(frozen=True)
class DenseArchitecture(Architecture):
    """Dense networks give 0 until they are trained, so that training starts from HMC."""

    name: ClassVar[str] = "dense"
    words: ClassVar[str] = "dense networks"
    meaning: ClassVar[str] = "the paper's networks, for any target"
    training: ClassVar[TrainingDefaults] = TrainingDefaults(steps=5000, learning_rate=1e-3, gamma_start=0.5)

    hidden: Hidden = (256, 256, 256)
    """sizes of the hidden layers of the networks"""
    rule: Advanced[RuleName | None] = None
    """position update: circle (for angles), affine (the paper's, for vectors) or shift (for all)"""
    mask: Advanced[MaskName] = "random"
    """which half of x is updated first: a random half for each layer, or a checkerboard"""

    @classmethod
    def builds(cls, trajectory: "Trajectory") -> bool:
        """Stacks of layers with networks."""
        from dlhmc.layers import LayerStack

        return isinstance(trajectory, LayerStack)

    def completed(self, target: "Target") -> Self:
        """Steps of 0.1, and the rule that suits the geometry."""
        from dlhmc.layers.position import default_rule

        rule = self.rule or default_rule(target.geometry)
        return dataclasses.replace(self, step_size=self.step_size or 0.1, rule=rule)

    def build(self, target: "Target", key: Any) -> "Trajectory":
        """New layers; `completed` has been called."""
        return self.layers(target, key)

    def layers(
        self,
        target: "Target",
        key: Any,
        network: "NetworkFactory | None" = None,
        rule: "PositionRule | None" = None,
        mask: "Array | None" = None,
        view: "View | None" = None,
    ) -> "LayerStack":
        """New layers, with networks, a position rule or a mask of one's own where they are given."""
        import equinox as eqx
        import jax
        import jax.numpy as jnp

        from dlhmc.layers import LayerStack, LeapfrogLayer
        from dlhmc.layers.leapfrog import see_elements
        from dlhmc.layers.masks import checkerboard_mask, random_mask
        from dlhmc.layers.position import RULES, default_rule
        from dlhmc.networks import Dense

        geometry = target.geometry
        if geometry.moves_momentum:
            raise UserError(
                "Leapfrog layers need a geometry whose drift leaves the momentum as it is; this one's does not."
            )
        position_rule = rule or RULES[self.rule or default_rule(geometry)]()
        if not position_rule.suits(geometry):
            fitting = [name for name, kind in RULES.items() if kind().suits(geometry)]
            raise UserError(
                f"The rule {type(position_rule).__name__} is no bijection of this target's fields, so no accept/reject "
                f"could make it exact: use {Setting('rule')} {' or '.join(fitting)}."
            )
        make_network = network or (lambda key, geometry: Dense(key, geometry, self.hidden))
        log_step = jnp.log(jnp.asarray(self.step_size or 0.1, float))
        elements = geometry.elements
        half = checkerboard_mask(elements) if mask is None and self.mask == "checkerboard" else mask

        def layer(key_and_parity: Any) -> LeapfrogLayer:
            key, parity = key_and_parity
            v_key, x_key, mask_key = jax.random.split(key, 3)
            moved_first = random_mask(mask_key, elements) if half is None else half ^ parity
            networks = (make_network(v_key, geometry), make_network(x_key, geometry))
            return LeapfrogLayer(*networks, moved_first, log_step, log_step, position_rule, view or see_elements)

        number = self.leapfrog_steps
        return LayerStack(eqx.filter_vmap(layer)((jax.random.split(key, number), jnp.arange(number) % 2 == 0)))

"""Deep Learning Hamiltonian Monte Carlo for lattice gauge theory.

Names are imported when they are first used, so that `import dlhmc` takes no time. It adds an option to XLA_FLAGS.
"""

import importlib
from typing import TYPE_CHECKING, Any

from dlhmc.machine.xla import compile_without_ynnpack
from dlhmc.theories import EXPORTS

if TYPE_CHECKING:
    from dlhmc import actions, geometry, kernels, layers, networks, statistics, targets, testing, training
    from dlhmc.actions import Action, Cosine, Determinant, Plaquette, PlaquetteFunction, Pseudofermions, Rectangle
    from dlhmc.api.building import build_trajectory
    from dlhmc.api.comparing import Comparison, compare
    from dlhmc.api.loading import load, load_kernel
    from dlhmc.api.sampling import sample
    from dlhmc.api.training import Trained, train
    from dlhmc.errors import UserError
    from dlhmc.kernels import DLHMC, HMC, Alternating, Exact, Info, Kernel, State
    from dlhmc.layers import Affine, Circle, Layer, LayerStack, LeapfrogLayer, Phase, PositionRule, Shift, Trajectory
    from dlhmc.networks import SQT, Dense, Linear, Network, Zeta
    from dlhmc.run.interoperability import to_arviz, to_blackjax, to_pyerrors
    from dlhmc.run.measuring import measure
    from dlhmc.run.samples import Measurements, Samples
    from dlhmc.targets import Known, Moment, Symmetry, Target
    from dlhmc.theories.catalogue import *  # noqa: F403
    from dlhmc.training import Knots, Schedule, Transition, charge_loss, jump_loss

__version__ = "0.2.0"

compile_without_ynnpack()

#: where each name is
_HOME = {
    "actions": ("Action", "Cosine", "Determinant", "Plaquette", "PlaquetteFunction", "Pseudofermions", "Rectangle"),
    "api.building": ("build_trajectory",),
    "api.comparing": ("Comparison", "compare"),
    "api.loading": ("load", "load_kernel"),
    "api.sampling": ("sample",),
    "api.training": ("Trained", "train"),
    "errors": ("UserError",),
    "kernels": ("DLHMC", "HMC", "Alternating", "Exact", "Info", "Kernel", "State"),
    "layers": (
        *("Affine", "Circle", "Layer", "LayerStack", "LeapfrogLayer", "Phase", "PositionRule", "Shift", "Trajectory"),
    ),
    "networks": ("SQT", "Dense", "Linear", "Network", "Zeta"),
    "run.interoperability": ("to_arviz", "to_blackjax", "to_pyerrors"),
    "run.measuring": ("measure",),
    "run.samples": ("Measurements", "Samples"),
    "targets": ("Known", "Moment", "Symmetry", "Target"),
    "training": ("Knots", "Schedule", "Transition", "charge_loss", "jump_loss"),
}
_MODULES = ("actions", "geometry", "kernels", "layers", "networks", "statistics", "targets", "testing", "training")
_MODULE_OF = EXPORTS | {name: f"dlhmc.{module}" for module, names in _HOME.items() for name in names}

__all__ = [
    "DLHMC",
    "HMC",
    "SQT",
    "Action",
    "Affine",
    "Alternating",
    "Circle",
    "Comparison",
    "Cosine",
    "Dense",
    "Determinant",
    "Exact",
    "Info",
    "Kernel",
    "Knots",
    "Known",
    "Layer",
    "LayerStack",
    "LeapfrogLayer",
    "Linear",
    "Measurements",
    "Moment",
    "Network",
    "Phase",
    "Plaquette",
    "PlaquetteFunction",
    "PositionRule",
    "Pseudofermions",
    "Rectangle",
    "Samples",
    "Schedule",
    "Shift",
    "State",
    "Symmetry",
    "Target",
    "Trained",
    "Trajectory",
    "Transition",
    "UserError",
    "Zeta",
    "__version__",
    "actions",
    "build_trajectory",
    "charge_loss",
    "compare",
    "geometry",
    "jump_loss",
    "kernels",
    "layers",
    "load",
    "load_kernel",
    "measure",
    "networks",
    "sample",
    "statistics",
    "targets",
    "testing",
    "to_arviz",
    "to_blackjax",
    "to_pyerrors",
    "train",
    "training",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name in _MODULES:
        return importlib.import_module(f"dlhmc.{name}")
    if name in _MODULE_OF:
        return getattr(importlib.import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'dlhmc' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, *EXPORTS]

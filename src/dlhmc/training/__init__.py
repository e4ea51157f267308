"""Training: Algorithm 1 of the paper, its losses and schedules."""

from dlhmc.training.loop import Inputs, LaterStage, advance, placed, train
from dlhmc.training.loss import Loss, Transition, action_loss, charge_loss, jump_loss, leaving_loss
from dlhmc.training.schedule import Knots, Schedule, learning_rate
from dlhmc.training.step import Algorithm, TrainState

__all__ = [
    "Algorithm",
    "Inputs",
    "Knots",
    "LaterStage",
    "Loss",
    "Schedule",
    "TrainState",
    "Transition",
    "action_loss",
    "advance",
    "charge_loss",
    "jump_loss",
    "learning_rate",
    "leaving_loss",
    "placed",
    "train",
]

"""How much of the machine's matrix products a sampling step and a training step of dense networks use."""

import itertools
import math
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.chunks import sampling_chunk
from benchmarks.stopwatch import Contestant, fastest
from dlhmc import tables
from dlhmc.kernels import DLHMC
from dlhmc.numerics.leaves import integer, on_host
from dlhmc.run import training
from dlhmc.run.sampling import Sampler
from dlhmc.run.settings import SampleAmounts
from dlhmc.spec.training import TrainSpec
from dlhmc.training import Inputs, advance


class Networks(NamedTuple):
    """What is measured: dense networks on a lattice, and how many chains."""

    lattice: tuple[int, int]
    hidden: tuple[int, ...]
    leapfrog_steps: int
    chains: int

    def plan(self) -> TrainSpec:
        """Their training run."""
        return TrainSpec.of(
            self._asdict() | {"target": "u1", "network": "dense", "beta": 7.0, "burn_in": 0, "start": "hot"}
        )


# The shape of the paper.
PAPER = Networks(lattice=(16, 16), hidden=(256, 256, 256), leapfrog_steps=10, chains=128)
_SQUARE = 2048
_TRAJECTORIES, _TRAINING_STEPS = 4, 3


class Rates(NamedTuple):
    """Flops a second: of large and of narrow products, and of the products in either step; seconds to compile."""

    square: float
    narrow: float
    sampling: float
    training: float
    compilation: float


def flops_of_sampling(networks: Networks) -> int:
    """Those of the products in one trajectory of all chains: four evaluations of a network in each layer.

    Input (cos x, sin x, vector), hidden layers, three heads. Training counts three times as much: one product
    forward and two backward.
    """
    size, hidden = 2 * math.prod(networks.lattice), networks.hidden
    weights = 3 * size * hidden[0] + sum(a * b for a, b in itertools.pairwise(hidden))
    weights += hidden[-1] * 3 * size
    return 2 * weights * networks.chains * 4 * networks.leapfrog_steps


def measure(networks: Networks, rounds: int, square: int = _SQUARE) -> Rates:
    """Everything in turn, so that a busy machine is busy for all."""
    plan = networks.plan()
    algorithm, trajectory, *_ = plan.build()
    amounts = SampleAmounts(chains=networks.chains, chunk=_TRAJECTORIES, start="hot")
    sample = sampling_chunk(Sampler(DLHMC(algorithm.target, trajectory)), amounts)
    _, state = training.prepare(algorithm, trajectory, plan.amounts)
    inputs = Inputs(on_host(algorithm), integer(0, np.uint32), integer(1), integer(_TRAINING_STEPS))
    started = time.perf_counter()
    train = advance.lower(inputs, state, _TRAINING_STEPS).compile()  # type: ignore[attr-defined]
    compilation = time.perf_counter() - started
    latest = [state]  # training uses a state up

    def train_on() -> Any:
        latest[0], records = train(inputs, latest[0], _TRAINING_STEPS)
        return records

    matrix = jnp.ones((square, square), jnp.float32)
    # The heads, for the chains that go in one direction.
    weight = jnp.ones((6 * math.prod(networks.lattice), networks.hidden[-1]), jnp.float32)
    units = jnp.ones((networks.hidden[-1], networks.chains // 2), jnp.float32)
    product = jax.jit(jnp.matmul)
    seconds = fastest(
        {
            "square": Contestant(lambda: product(matrix, matrix), 1),
            "narrow": Contestant(lambda: product(weight, units), 1),
            "sampling": Contestant(sample, _TRAJECTORIES),
            "training": Contestant(train_on, _TRAINING_STEPS),
        },
        rounds,
    )
    work = flops_of_sampling(networks)
    return Rates(
        square=2 * square**3 / seconds["square"],
        narrow=2 * weight.size * units.shape[1] / seconds["narrow"],
        sampling=work / seconds["sampling"],
        training=3 * work / seconds["training"],
        compilation=compilation,
    )


def report(networks: Networks, rates: Rates, rounds: int) -> str:
    """A section for the report of `dlhmc bench`."""
    work, lattice = flops_of_sampling(networks), networks.lattice
    rows = [
        ["product of large matrices", "", f"{rates.square / 1e9:.0f}", "1"],
        ["product of one network's heads, half of the chains", "", f"{rates.narrow / 1e9:.0f}", _part(rates, "narrow")],
        ["sampling", f"{work / rates.sampling:.3f}", f"{rates.sampling / 1e9:.0f}", _part(rates, "sampling")],
        ["training", f"{3 * work / rates.training:.3f}", f"{rates.training / 1e9:.0f}", _part(rates, "training")],
    ]
    header = ["", "seconds a step", "Gflop/s", "part of the machine's rate"]
    # Large products are the fastest there are, unless other programs took the processor from them.
    disturbed = max(rates.narrow, rates.sampling, rates.training) > rates.square
    warning = "\n**The machine was busy with other work: the last column means nothing.**\n" if disturbed else ""
    return f"""## Networks

A trajectory with dense networks of {list(networks.hidden)} hidden units at N_LF = {networks.leapfrog_steps}, and a
step of training it, {networks.chains} chains of {lattice[0]}×{lattice[1]} U(1), float32, against what the machine
reaches with large matrices ({_SQUARE}²) in the same {rounds} rounds. Only the products of the networks count as work,
{work / 1e9:.2f} Gflop a trajectory and three times as many for training; the rest of a step (force, trigonometry,
Jacobian, accept/reject, Adam, guards) takes time and counts nothing.
The training step compiled in {rates.compilation:.0f} s.

{tables.markdown(header, rows)}
{warning}"""


def _part(rates: Rates, name: str) -> str:
    return f"{getattr(rates, name) / rates.square:.2f}"

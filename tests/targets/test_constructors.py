"""What the command line refuses, Python refuses in the same words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc import HMC, U1, Schwinger, UserError, wilson
from dlhmc.theories.registry import theory

TARGET = U1((4, 4), 2.0)


@pytest.mark.parametrize("beta", [np.nan, -1.0, 0.0, np.inf, 20_000.0, jnp.float32(-1)])
@pytest.mark.parametrize("name", ["u1", "su3", "schwinger"])
def test_couplings_are_checked(name, beta):
    makers = {
        "u1": lambda: U1((4, 4), beta),
        "su3": lambda: wilson("su3", (4, 4), beta),
        "schwinger": lambda: Schwinger((4, 4), beta, 0.1),
    }
    with pytest.raises(UserError) as of_command_line:
        theory(name).settings(lattice=(4, 4), beta=float(beta))
    with pytest.raises(UserError) as of_python:
        makers[name]()
    assert str(of_python.value) == str(of_command_line.value)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: U1((4, 4, 4), 2.0), "lattice is 4 4 4, but must be 2 whole numbers from 2 to 10000."),
        (lambda: U1((4, 1), 2.0), "lattice is 4 1, but must be 2 whole numbers from 2 to 10000."),
        (lambda: wilson("su3", (4,), 2.0), "lattice is 4, but must be a list of whole numbers from 2 to 10000"),
        (lambda: U1((4, 4), 2.0, gamma=np.nan), "gamma is nan, but must be a number above 0."),
        (lambda: Schwinger((4, 4), 2.0, np.nan), "mass is nan, but must be a number above -2"),
        (lambda: HMC(TARGET, -0.3, 10), "step_size is -0.3, but must be a number above 0."),
        (lambda: HMC(TARGET, np.nan, 10), "step_size is nan, but must be a number above 0."),
        (lambda: HMC(TARGET, 0.3, 0), "steps is 0, but must be a whole number from 1 to 1000000000."),
        (lambda: HMC(TARGET, 0.3, length=-1.0), "length is -1.0, but must be a number above 0."),
    ],
)
def test_what_makes_no_sense_is_one_sentence(make, sentence):
    with pytest.raises(UserError) as error:
        make()
    assert str(error.value).startswith(sentence)


def test_what_is_traced_is_taken_as_it_is():
    """Nobody knows its value; and what was checked before keeps its value."""

    @jax.jit
    def coupling(beta, step_size, steps):
        kernel = HMC(U1((4, 4), beta), step_size, steps)
        return kernel.target.actions[0].coefficient, kernel.step_size, kernel.steps

    assert [float(value) for value in coupling(-1.0, -0.5, 0)] == [-1.0, -0.5, 0]

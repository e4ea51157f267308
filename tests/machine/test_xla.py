"""Sums are right: by the version of jaxlib, or by an option of XLA where the last one for this Python is not."""

import os
import subprocess
import sys

import pytest

# Sums by YNNPACK, as they are without the option.
WRONG = "--xla_cpu_experimental_ynn_fusion_type=reduce,dot"
needs_the_option = pytest.mark.skipif(sys.version_info >= (3, 12), reason="jaxlib adds rightly without an option")


def run(*lines, flags=""):
    """A process of its own, where JAX has not started."""
    return subprocess.run(
        [sys.executable, "-c", "\n".join(("import jax, jax.numpy as jnp", *lines))],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )


def test_this_machine_adds_rightly():
    """With the options that users have."""
    done = run("import dlhmc", "from dlhmc.machine.sums import wrong_sums", "print(wrong_sums())")
    assert (done.stdout, done.stderr) == ("0\n", "")


@needs_the_option
def test_the_canary_sees_wrong_sums():
    """The second of its two sums is wrong in every call, whatever else the machine does."""
    done = run("import dlhmc", "from dlhmc.machine.sums import wrong_sums", "print(wrong_sums(5))", flags=WRONG)
    assert int(done.stdout) >= 5


@needs_the_option
@pytest.mark.parametrize("flags", ["", "--xla_cpu_enable_fast_min_max=false"])
def test_importing_the_package_sets_the_option(flags):
    done = run("import dlhmc, os", "print(os.environ['XLA_FLAGS'])", flags=flags)
    assert done.stdout == f"{flags} --xla_cpu_experimental_ynn_fusion_type=".lstrip() + "\n"
    assert not done.stderr


def test_a_choice_of_the_user_stays():
    done = run("import dlhmc, os", "jnp.ones(2)", "print(os.environ['XLA_FLAGS'])", flags=WRONG)
    assert done.stdout == f"{WRONG}\n"
    assert not done.stderr


@pytest.mark.skipif(sys.version_info < (3, 12), reason="jaxlib needs the option")
def test_nothing_is_set_where_nothing_is_needed():
    assert run("import dlhmc, os", "print(os.environ['XLA_FLAGS'])").stdout == "\n"


@needs_the_option
def test_it_is_too_late_once_jax_has_computed_something():
    """Whether a program then has such sums is up to the processor."""
    assert "import dlhmc first" in run("jnp.ones(2)", "import dlhmc").stderr

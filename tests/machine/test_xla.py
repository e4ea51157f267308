"""XLA computes sums itself: those of YNNPACK are wrong now and then where there are several threads."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import dlhmc  # noqa: F401  before JAX starts

PROGRAM = "jax.jit(lambda x: jnp.sum(x * x, axis=0)).lower(jnp.ones((32, 4000))).compile().as_text()"


def run(*lines, flags=""):
    """A process of its own, where JAX has not started."""
    return subprocess.run(
        [sys.executable, "-c", "\n".join(("import jax, jax.numpy as jnp", *lines))],
        env={"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )


def test_tests_of_this_package_have_it():
    assert (
        "__ynn_fusion" not in jax.jit(lambda x: jnp.sum(x * x, axis=0)).lower(jnp.ones((32, 4000))).compile().as_text()
    )


@pytest.mark.parametrize("flags", ["", "--xla_cpu_enable_fast_min_max=false"])
def test_importing_the_package_suffices(flags):
    done = run("import dlhmc, os", f"print('__ynn_fusion' in {PROGRAM}, os.environ['XLA_FLAGS'])", flags=flags)
    assert done.stdout.startswith(f"False {flags}")
    assert not done.stderr


def test_a_choice_of_the_user_stays():
    flags = "--xla_cpu_experimental_ynn_fusion_type=reduce"
    done = run("import dlhmc, os", "jnp.ones(2)", "print(os.environ['XLA_FLAGS'])", flags=flags)
    assert done.stdout == f"{flags}\n"
    assert not done.stderr


def test_it_is_too_late_once_jax_has_computed_something():
    """Whether a program then has such sums is up to the processor."""
    assert "import dlhmc first" in run("jnp.ones(2)", "import dlhmc").stderr

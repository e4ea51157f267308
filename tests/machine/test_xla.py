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
    done = run(
        "import dlhmc", f"print('__ynn_fusion' in {PROGRAM})", flags="--xla_cpu_experimental_ynn_fusion_type=reduce"
    )
    assert done.stdout == "True\n"
    assert not done.stderr


def test_it_is_too_late_once_jax_has_computed_something():
    done = run("jnp.ones(2)", "import dlhmc", f"print('__ynn_fusion' in {PROGRAM})")
    assert done.stdout == "True\n"
    assert "import dlhmc first" in done.stderr

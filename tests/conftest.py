"""Shared by all tests: strict dtypes, and double precision where a test asks for it."""

import jax
import pytest

# A float32 that meets a float64 is a mistake, not a promotion.
jax.config.update("jax_numpy_dtype_promotion", "strict")


@pytest.fixture
def x64():
    """Double precision for one test."""
    with jax.enable_x64(True):
        yield

"""Runs compile twice each: what one test has compiled, others and their subprocesses find on disk."""

import os

import jax
import pytest

SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory):
    """The environment that makes a subprocess share the cache."""
    settings = SETTINGS | {"jax_compilation_cache_dir": str(tmp_path_factory.mktemp("compiled"))}
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    yield os.environ | {name.upper(): str(value) for name, value in settings.items()}
    for name, value in before.items():
        jax.config.update(name, value)

"""Shared by all tests: strict dtypes, double precision where a test asks for it, and one cache of compiled code."""

import os

# Most of the time goes into compiling programs that run for a moment: no optimisation, no threads and the older code
# generator, which is the faster one, save most of it. It must be set before JAX starts, and subprocesses inherit it.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1 --xla_cpu_multi_thread_eigen=false "
    "--xla_cpu_use_fusion_emitters=false",
)

import jax
import pytest

# A browser is not everywhere: `make test-browser` names one here, and without it nothing there is even imported.
collect_ignore = [] if "DLHMC_CHROMIUM" in os.environ else ["browser"]

# A float32 that meets a float64 is a mistake, not a promotion.
jax.config.update("jax_numpy_dtype_promotion", "strict")


@pytest.fixture(scope="module", autouse=True)
def programs_of_one_module():
    """A worker does not keep the programs of all tests: they would take gigabytes, and what is needed is on disk."""
    yield
    jax.clear_caches()


@pytest.fixture
def x64():
    """Double precision for one test."""
    with jax.enable_x64(True):
        yield


# What one test has compiled, others and their subprocesses find on disk.
SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory):
    """The environment that makes a subprocess share the cache: every one does, and none touches the user's."""
    # Of pytest-xdist, every worker has a folder below one that they share.
    folder = tmp_path_factory.getbasetemp() / (".." if "PYTEST_XDIST_WORKER" in os.environ else "") / "compiled"
    settings = SETTINGS | {"jax_compilation_cache_dir": str(folder.resolve())}
    before = {name: getattr(jax.config, name) for name in settings}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            jax.config.update(name, value)
            patch.setenv(name.upper(), str(value))
        yield dict(os.environ)
    for name, value in before.items():
        jax.config.update(name, value)

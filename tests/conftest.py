"""Shared by all tests: strict dtypes, double precision where a test asks for it, and one cache of compiled code."""

import gc
import os
import sys
from pathlib import Path

# Most tests ask what a program does, and their time goes into compiling programs that run for a moment: no
# optimisation, no threads and the older, faster code generator save most of it. Where numbers are held against exact
# results, rounding should be that of users: `make test` runs what is marked `statistical` in processes of its own, with
# XLA_FLAGS empty. They must be set before JAX starts, and subprocesses inherit them.
# jaxlib 0.12 no longer has the older generator, and an option that XLA does not know ends the process.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1 --xla_cpu_multi_thread_eigen=false"
    + (" --xla_cpu_use_fusion_emitters=false" if sys.version_info < (3, 12) else ""),
)

import jax
import pytest

import dlhmc  # noqa: F401 - before anything is computed

# Another program that reads gauge files is not everywhere: `make test-readers` installs it.
collect_ignore = [] if "DLHMC_READERS" in os.environ else ["readers"]

# A float32 that meets a float64 is a mistake, not a promotion.
jax.config.update("jax_numpy_dtype_promotion", "strict")


# Compiled programs take gigabytes: a worker that has grown by so many bytes keeps those of no earlier test.
ENOUGH = 1e9
PAGES = Path("/proc/self/statm")
# What it held after it last forgot them: that grows as well, and must not make it forget them after every test.
floor = {"bytes": 0}


def resident():
    """Bytes of this process, where the system tells."""
    return int(PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if PAGES.exists() else 0


def forget_programs(*, thoroughly=False):
    """What is needed again is on disk."""
    jax.clear_caches()
    if thoroughly:
        gc.collect()
    floor["bytes"] = resident()


def pytest_collection_finish():
    """Modules and compiled programs stay: looking through all of them again and again takes a twentieth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 100)


@pytest.fixture(scope="module", autouse=True)
def programs_of_one_module():
    """A worker keeps the programs of one module only."""
    yield
    forget_programs()


@pytest.fixture(autouse=True)
def programs_of_a_few_tests():
    """Nor all of them, where a module has many."""
    yield
    if resident() > floor["bytes"] + ENOUGH:
        forget_programs(thoroughly=True)


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

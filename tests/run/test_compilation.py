"""Compiled programs that are kept: faster the second time, the same numbers, and never a word about it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# One program, compiled with the cache that a command would use; it prints its result and whether it was found.
CODE = """
import sys
from pathlib import Path
import jax, jax.numpy as jnp
from jax import monitoring
from dlhmc.run import compilation
compilation._SHORTEST = 0.0
found = []
monitoring.register_event_listener(lambda event, **_: found.append(event) if event.endswith("cache_hits") else None)
usable = compilation.use_cache(Path(sys.argv[1]))
print(usable, jax.jit(lambda x: jnp.sin(x).sum())(jnp.arange(8.0)), bool(found))
"""


def compiled_in(directory: Path) -> str:
    """What the program prints in a process of its own; on stderr there must be nothing."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    result = subprocess.run(
        [sys.executable, "-c", CODE, str(directory)], capture_output=True, text=True, check=True, env=environment
    )
    assert result.stderr == ""
    return result.stdout.strip()


def test_what_is_damaged_or_cut_off_is_compiled_again_in_silence(tmp_path):
    directory = tmp_path / "compiled"
    first = compiled_in(directory)
    assert first.startswith("True")
    assert first.endswith("False")
    assert directory.stat().st_mode & 0o077 == 0
    again = first.replace("False", "True")
    assert compiled_in(directory) == again

    # Half a file, with its time of last use: JAX finds that the checksum is missing.
    programs = sorted(directory.glob("*-cache"))
    whole = [program.read_bytes() for program in programs]
    for program, content in zip(programs, whole, strict=True):
        program.write_bytes(content[: len(content) // 2])
    assert compiled_in(directory) == first

    # A process that died while it wrote leaves no time of last use: the file goes, and a good one takes its place.
    for program in programs:
        program.with_name(program.name.removesuffix("-cache") + "-atime").unlink()
    assert compiled_in(directory) == first
    assert compiled_in(directory) == again
    assert sorted(directory.glob("*-cache")) == programs


@pytest.mark.parametrize("place", ["file/compiled", "/proc/compiled", "open"])
def test_without_a_place_of_ones_own_nothing_is_kept_and_nothing_said(place, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert compiled_in(tmp_path / place).startswith("False")
    assert list((tmp_path / "open").iterdir()) == []

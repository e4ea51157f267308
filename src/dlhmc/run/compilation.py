"""Compiled programs kept on disk, so that a second start takes seconds."""

import os
import tempfile
import warnings
from pathlib import Path

import jax
import platformdirs
from filelock import FileLock, Timeout

#: bytes that all programs together may take; those unused for longest go first
LARGEST = 2**30
# Programs that compile faster than this are not worth a file.
_SHORTEST = 0.1
# JAX holds this lock while it reads and writes, because it is told a largest size.
_LOCK = ".lockfile"


def cache_directory() -> Path:
    """Where programs are kept if JAX_COMPILATION_CACHE_DIR names no other place.

    >>> cache_directory().parts[-2:]
    ('dlhmc', 'compiled')
    """
    return platformdirs.user_cache_path("dlhmc") / "compiled"


def kept_in() -> str | None:
    """The directory that is in use, if any."""
    directory, enabled = (
        getattr(jax.config, f"jax_{name}") for name in ("compilation_cache_dir", "enable_compilation_cache")
    )
    return directory if enabled else None


def use_cache(directory: Path | None = None) -> bool:
    """Keep compiled programs in a directory, and say whether that is possible; a cache set by other means stays.

    What cannot be read is compiled again, without a word: entries carry checksums, and none is worth a warning.
    """
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")
    if kept_in() is not None:
        return True
    directory = cache_directory() if directory is None else directory
    if not _prepare(directory):
        return False
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _SHORTEST)
    jax.config.update("jax_compilation_cache_max_size", LARGEST)
    jax.config.update("jax_compilation_cache_dir", str(directory))
    return True


def use_no_cache() -> None:
    """Compile everything anew."""
    jax.config.update("jax_enable_compilation_cache", False)


def _prepare(directory: Path) -> bool:
    """Make a directory for nobody else, as programs in it are trusted; remove what a process that died has left."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
        if os.name == "posix" and (found.st_uid != os.getuid() or found.st_mode & 0o022):
            return False  # others could put programs there
        with tempfile.TemporaryFile(dir=directory):
            pass
        with FileLock(directory / _LOCK, timeout=1):
            # JAX writes the time of last use after the program: without it the program may be cut off, and JAX fails
            # to make room for new ones.
            for program in directory.glob("*-cache"):
                if not (directory / f"{program.name.removesuffix('-cache')}-atime").exists():
                    program.unlink()
    except Timeout:
        return True  # others are at work here
    except (OSError, NotImplementedError):  # the latter where a file system has no locks
        return False
    return True

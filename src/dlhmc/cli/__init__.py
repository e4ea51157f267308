"""The command line. JAX is imported only by the commands that need it."""

from dlhmc.cli.entry import main, run

__all__ = ["main", "run"]

"""Files in which people exchange gauge configurations: NERSC, ILDG and openQCD; NumPy only."""

from dlhmc.io.configuration import Configuration
from dlhmc.io.exchange import FORMATS, read, write

__all__ = ["FORMATS", "Configuration", "read", "write"]

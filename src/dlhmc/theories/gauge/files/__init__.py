"""Files in which people exchange gauge configurations: NERSC, ILDG and openQCD; NumPy only."""

from dlhmc.theories.gauge.files.configuration import Configuration
from dlhmc.theories.gauge.files.exchange import FORMATS, read, write

__all__ = ["FORMATS", "Configuration", "read", "write"]

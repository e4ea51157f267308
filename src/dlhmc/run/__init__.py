"""Runs: compiled chunks on the device; progress, files and signals on the host between them."""

"""How fast it is. Outside the library: run from a checkout with `python -m benchmarks`."""

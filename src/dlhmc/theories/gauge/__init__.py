"""Gauge theories of U(N) and SU(N) in two, three and four dimensions."""

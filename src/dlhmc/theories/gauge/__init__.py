"""Gauge theory of U(N) and SU(N)."""

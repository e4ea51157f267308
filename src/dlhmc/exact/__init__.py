"""Exact results of two-dimensional gauge theory with the Wilson action on the torus, and independent draws."""

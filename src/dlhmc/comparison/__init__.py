"""Comparisons of samplers."""

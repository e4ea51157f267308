"""Targets in flat space."""

"""Trained trajectories in files."""

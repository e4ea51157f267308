"""Trained trajectories: architectures that they are built from, and files. Free of heavy imports."""

"""Deep Learning Hamiltonian Monte Carlo for lattice gauge theory."""

__version__ = "0.1.0"

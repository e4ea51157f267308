"""The Schwinger model: 2D U(1) gauge theory with dynamical Wilson fermions."""

"""Two-dimensional U(1) gauge theory."""

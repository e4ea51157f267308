"""Fields on the links of periodic lattices."""

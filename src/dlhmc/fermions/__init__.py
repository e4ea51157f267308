"""Wilson fermions in two dimensions."""

"""CP^{N−1} models in two dimensions."""

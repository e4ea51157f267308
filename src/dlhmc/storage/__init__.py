"""Files that are there as a whole or not at all, and that may come from a stranger."""

"""The paper's results section from start to end: train along β, compare at each β, report."""

"""Training, sampling and comparing from Python, with objects in place of names.

What runs is what the command line runs: the same compiled chunks in the same loop, with the same random numbers.
Without `out` a run has a temporary directory that goes away when it is done.
"""

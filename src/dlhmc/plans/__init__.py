"""Plans: runs as the command line and files spell them, and the objects that they stand for.

A plan is made of settings, each class of them with a home of its own: the theory's, the architecture's, the run's. One
flat table holds them all. Free of heavy imports, but for what builds the objects.
"""

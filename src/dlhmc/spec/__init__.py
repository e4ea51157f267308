"""Specifications: what runs, as tables of one TOML file, options of the command line, and objects to be built."""

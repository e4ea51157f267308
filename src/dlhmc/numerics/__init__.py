"""Arithmetic that everything stands on: random numbers, trigonometry, leaves of pytrees."""

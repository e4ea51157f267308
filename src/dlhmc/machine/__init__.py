"""Devices, processes, compiled programs and memory of the machine."""

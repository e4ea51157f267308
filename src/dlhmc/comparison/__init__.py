"""Samplers side by side: what an independent configuration costs with each of them."""

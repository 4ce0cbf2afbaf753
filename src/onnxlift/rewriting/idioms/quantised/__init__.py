"""Layers whose weights are stored as integers, as quantisers leave them."""

"""Layers whose weights are stored in integers, as quantisers leave them."""

"""Indexing, slicing, splitting and joining as PyTorch writes them."""

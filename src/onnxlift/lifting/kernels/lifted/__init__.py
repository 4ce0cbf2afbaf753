"""Layers that idioms recognise and PyTorch does not have."""

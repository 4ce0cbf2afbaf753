"""Activations that exporters write in their parts."""

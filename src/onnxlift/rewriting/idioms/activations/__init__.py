"""Activations that exporters write as several nodes."""

"""Infer the type and the symbolic sizes of every value, and the elements that can be computed before the model runs."""

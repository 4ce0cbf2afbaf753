"""Name variables and classes."""

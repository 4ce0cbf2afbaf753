"""Rewrite the graph in four stages: normal form, restoring, simplifying, idioms. Each step is a file; `stages.py` has
the tables."""

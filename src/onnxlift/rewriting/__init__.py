"""Graph to graph: normal form, restoring, simplifying, idioms. A step is a file; `stages.py` has the tables."""

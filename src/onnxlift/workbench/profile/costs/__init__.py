"""What operators cost: a function each, by family. A new one is found by its decorator (see ../registry.py)."""

"""Reduce the normal form to the simplest graph that means the same. Each step is optional. Inputs and outputs stay."""

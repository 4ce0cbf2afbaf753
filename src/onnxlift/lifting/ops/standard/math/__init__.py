"""Arithmetic, logic, activations, reductions, matrices, losses, random numbers."""

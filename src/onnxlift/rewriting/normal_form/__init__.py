"""Bring any valid graph into the one form that all later stages expect.

In normal form a graph has no calls of functions, no Identity nodes and no dead nodes. All constants are initialisers,
all operators are ones that we know, and all types are inferred. Inputs and outputs stay.
"""

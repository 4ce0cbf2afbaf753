"""Nodes lowered into modules, and modules restructured: loops, lists, shared classes."""

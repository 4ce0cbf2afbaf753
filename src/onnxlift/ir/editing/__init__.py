"""Editing a graph, finding patterns in it, and saying why one nearly matched."""

"""Arrange the statements of a forward: which there are, which stand in one line, and in which order they come."""

"""The lines of a forward: which there are, what stands in one line, and in which order they come."""

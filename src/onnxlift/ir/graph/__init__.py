"""Questions about a graph, and how to edit it."""

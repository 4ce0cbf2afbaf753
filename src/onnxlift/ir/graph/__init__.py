"""Questions about a graph: its nodes, values, constants, shapes and axes."""

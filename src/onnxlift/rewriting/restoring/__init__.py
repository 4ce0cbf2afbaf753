"""What exporters folded, merged or dropped is undone, so that the original's parameters come back. For source only."""

"""From bytes to a typed graph: loading what a stranger wrote, types, schemas and inference. Never imports torch."""

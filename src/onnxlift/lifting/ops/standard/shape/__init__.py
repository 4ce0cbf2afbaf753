"""Making, shaping, joining, indexing and sorting tensors."""

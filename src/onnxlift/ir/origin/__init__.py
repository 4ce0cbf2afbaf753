"""Find out which program exported a model, and what the file tells of the original's modules and parameters."""

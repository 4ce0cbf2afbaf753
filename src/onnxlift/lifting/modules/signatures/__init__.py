"""Shape the signatures of modules: their arguments and results."""

"""Control flow, sequences, optionals, and training."""

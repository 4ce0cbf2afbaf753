"""Turn statements and calls that repeat into loops."""

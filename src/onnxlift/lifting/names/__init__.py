"""Names of variables and classes."""

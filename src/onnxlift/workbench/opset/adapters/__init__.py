"""The adapters, in a file for each family of operators. See step.py for the language."""

"""The operations of an editor, a file each. The table of `operation.py` finds them here."""

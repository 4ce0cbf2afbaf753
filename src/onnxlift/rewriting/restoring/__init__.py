"""Undo what exporters folded, merged or dropped, so that the source has the original's parameters again."""

"""`draw` shows a model as a picture: its modules, or its nodes."""

from .verb import Drawing, draw

__all__ = ["Drawing", "draw"]

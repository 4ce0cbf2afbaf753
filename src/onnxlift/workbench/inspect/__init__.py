"""`inspect`: what is in a model, without running or changing it."""

from .report import Inspection
from .verb import inspect

__all__ = ["Inspection", "inspect"]

"""`profile`: what a model costs, by node, operator and module, as formulas over its open sizes or as numbers."""

from .report import Profile
from .verb import profile

__all__ = ["Profile", "profile"]

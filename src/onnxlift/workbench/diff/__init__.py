"""`diff`: what changed between two models, semantically."""

from __future__ import annotations

from .report import ASPECTS, DiffReport
from .verb import diff

__all__ = ["ASPECTS", "DiffReport", "diff"]

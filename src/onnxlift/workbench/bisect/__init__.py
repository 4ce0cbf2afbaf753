"""`bisect`: where two models, or two ways to run one, first differ."""

from .report import BisectReport, Culprit
from .verb import bisect

__all__ = ["BisectReport", "Culprit", "bisect"]

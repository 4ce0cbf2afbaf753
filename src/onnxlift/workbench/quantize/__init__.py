"""`quantize`: the same model with fewer bits, and what that costs, layer by layer. docs/workbench/quantize.md."""

from __future__ import annotations

from .report import Layer, Quality, QuantizeReport, Speed
from .verb import quantize

__all__ = ["Layer", "Quality", "QuantizeReport", "Speed", "quantize"]

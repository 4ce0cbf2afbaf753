"""`quantize`: the same model with fewer bits, and what that costs, layer by layer. docs/workbench/quantize.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .report import Layer, Quality, QuantizeReport, Speed
    from .verb import quantize

__all__ = ["Layer", "Quality", "QuantizeReport", "Speed", "quantize"]


def __getattr__(name: str) -> Any:
    # The children that quantise and measure are files of this package, and would import all of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = ".verb" if name == "quantize" else ".report"
    return getattr(import_module(home, __name__), name)

"""`opset`: the same model at another opset, up or down. docs/workbench/opset.md."""

from __future__ import annotations

from .convert import NEWEST, align_versions, convert_opsets
from .errors import OpsetError, StuckNode
from .verb import OpsetReport, opset

__all__ = [
    "NEWEST",
    "OpsetError",
    "OpsetReport",
    "StuckNode",
    "align_versions",
    "convert_opsets",
    "opset",
]

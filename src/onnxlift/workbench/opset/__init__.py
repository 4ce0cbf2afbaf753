"""`opset`: the same model at another opset, up or down."""

from __future__ import annotations

from .convert import NEWEST, align_versions, convert_opsets
from .errors import OpsetError, StuckNode

__all__ = ["NEWEST", "OpsetError", "StuckNode", "align_versions", "convert_opsets"]

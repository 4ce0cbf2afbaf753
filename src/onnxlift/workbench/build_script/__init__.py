"""`build-script`: the Python of `onnxlift.build` that makes a model again. docs/workbench/build-script.md."""

from __future__ import annotations

from .report import BuildScriptReport
from .verb import build_script

__all__ = ["BuildScriptReport", "build_script"]

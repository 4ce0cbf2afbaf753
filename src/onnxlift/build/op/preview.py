"""The operators that ONNX tries out (ai.onnx.preview), as functions."""

from __future__ import annotations

from typing import Any

from onnxlift.build.operators import operator
from onnxlift.build.schemas import operators_of
from onnxlift.build.state import PREVIEW


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return operator(PREVIEW, name)


def __dir__() -> list[str]:
    return [*operators_of(PREVIEW)]

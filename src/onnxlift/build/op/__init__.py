"""Every operator of ONNX as a function: `op.Conv(x, w, strides=[2, 2])`.

Calls are bound by the schema of the opset that is in force (`build.opset`). `op.microsoft`, `op.ml`, `op.preview` and
`op.training` have the operators of ONNX Runtime, of classical models, of what ONNX tries out, and of training.
"""

from __future__ import annotations

from typing import Any

from onnxlift.build.operators import operator
from onnxlift.build.schemas import operators_of

from . import microsoft, ml, preview, training

__all__ = ["microsoft", "ml", "preview", "training"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return operator("", name)


def __dir__() -> list[str]:
    return [*__all__, *operators_of("")]

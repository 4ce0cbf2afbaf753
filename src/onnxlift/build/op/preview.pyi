"""The operators that ONNX tries out (ai.onnx.preview), as functions. Written by tools/operator_stubs.py."""

from typing import Any

from onnxlift.build.types import Operand
from onnxlift.build.value import Value

def FlexAttention(
    Q: Operand,
    K: Operand,
    V: Operand,
    *,
    prob_mod: Any | None = None,
    scale: float | None = None,
    score_mod: Any | None = None,
    softmax_precision: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes scaled dot-product attention over rank-4 (batched, multi-head) inputs, with optional user-provided
    customization subgraphs at two stages:
    """

"""The names with which you write an operator function of your own; see docs/extending.md.

    from onnxlift.extend import F, Node, Tensor, op, torch

`torch` and `F` are not the real ones. A call on them, like `torch.relu(x)`, computes nothing while a model is lifted:
it is written into the source.
"""

from __future__ import annotations

from onnxlift.lifting.code.expr import F, torch
from onnxlift.lifting.ops.kinds import LayerKind, signature
from onnxlift.lifting.ops.node import Node, Unpack
from onnxlift.lifting.ops.operand import Constant, Dims, Operand, Scalar, Tensor
from onnxlift.lifting.ops.registry import op

__all__ = [
    "Constant",
    "Dims",
    "F",
    "LayerKind",
    "Node",
    "Operand",
    "Scalar",
    "Tensor",
    "Unpack",
    "op",
    "signature",
    "torch",
]

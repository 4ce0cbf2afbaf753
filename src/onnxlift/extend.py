"""What an operator function of your own is written with: see docs/extending.md.

    from onnxlift.extend import F, Node, Tensor, op, torch

`torch` and `F` are not the real ones: what is called on them is written into the source, and nothing is computed while
a model is lifted.
"""

from __future__ import annotations

from .code.expr import F, torch
from .ops.node import Node, Unpack
from .ops.operand import Constant, Dims, Operand, Scalar, Tensor
from .ops.registry import op

__all__ = ["Constant", "Dims", "F", "Node", "Operand", "Scalar", "Tensor", "Unpack", "op", "torch"]

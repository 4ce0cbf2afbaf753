"""Spell a norm over the last axes: LayerNormalization and RMSNormalization have the same signature."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.graph.shapes import shape_of

from .spelling import Recognised, Standard


def normalised(found: Recognised, op_type: str) -> Standard | None:
    """Return the operator for a norm whose attributes are `axis` (negative) and `epsilon`."""
    x, weight = found.input(0), found.input(1)
    axis, shape = found.option("axis"), shape_of(x)
    if x is None or x.dtype == ir.DataType.DOUBLE or axis is None:
        return None
    if weight is None:
        weight = None if shape is None else found.filled(1, shape[axis:], x)
    if weight is None or weight.dtype != x.dtype:
        return None
    attributes = {"axis": axis, "epsilon": found.option("epsilon")}
    return Standard(op_type, [x, weight, *found.node.inputs[2:]], attributes)

"""Write sums of squares and of absolute values, and the root of the former, as one reduction each.

    ReduceSum(x * x)         ->   ReduceSumSquare(x)
    Sqrt(ReduceSum(x * x))   ->   ReduceL2(x)
    ReduceSum(Abs(x))        ->   ReduceL1(x)

x is of floating point, and its square may be a Pow. The axes are constant: they are an input of these operators since
opset 18, of ReduceSum since 13. Not if another node reads a value in between.

Log(ReduceSum(Exp(x))) and Log(Softmax(x)) stay, although ONNX has ReduceLogSumExp and LogSoftmax: where the nodes
overflow or underflow, these operators do not.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import drop_unused, is_private, made_by, polynomial
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.types import is_float
from onnxlift.stages import step


@step("standard-reductions")
def run(model: ir.Model) -> int:
    """Write reductions of squares and absolute values as one operator; return how many."""
    return sweep(model, {"Sqrt": _root}) + sweep(model, {"ReduceSum": _sum})


def _root(edit: Edit, node: ir.Node) -> None:
    total = made_by(edit, node.inputs[0], "ReduceSum")
    if total is None or not is_private(edit, node.inputs[0]):
        return
    squared = _before_square(edit, total)
    if squared is not None:
        _replace(edit, node, total, "ReduceL2", *squared)


def _sum(edit: Edit, node: ir.Node) -> None:
    size = made_by(edit, node.inputs[0], "Abs")
    x = None if size is None else size.inputs[0]
    if size is not None and x is not None and is_float(x) and is_private(edit, node.inputs[0]):
        _replace(edit, node, node, "ReduceL1", x, [size])
        return
    squared = _before_square(edit, node)
    if squared is not None:
        _replace(edit, node, node, "ReduceSumSquare", *squared)


def _before_square(edit: Edit, total: ir.Node) -> tuple[ir.Value, list[ir.Node]] | None:
    """Return x and the nodes of `x * x`, if a ReduceSum is of that."""
    square = polynomial(edit, total.inputs[0]) if is_private(edit, total.inputs[0]) else None
    factors = {factor for term in square.terms for factor in term} if square is not None else set()
    if square is None or len(factors) != 1 or not square.nodes:
        return None
    (x,) = factors
    return (x, list(square.nodes)) if is_float(x) and square.equals({(x, x): 1.0}, x.dtype) else None


def _replace(edit: Edit, last: ir.Node, total: ir.Node, op_type: str, x: ir.Value, nodes: list[ir.Node]) -> None:
    given = axes_of(total)
    if given is None or (not given and attribute(total, "noop_with_empty_axes", 0) != 0):
        return
    inputs: list[ir.Value | None] = [x]
    attributes: list[ir.Attr] = [ir.AttrInt64("keepdims", attribute(total, "keepdims", 1))]
    if given and edit.opset(last) >= 18:
        inputs.append(edit.constant(f"{last.outputs[0].name}.axes", np.array(given, np.int64)))
    elif given:
        attributes.append(ir.AttrInt64s("axes", list(given)))
    edit.replace(last, op_type, inputs, attributes)
    drop_unused(edit, [total, *nodes] if total is not last else nodes)

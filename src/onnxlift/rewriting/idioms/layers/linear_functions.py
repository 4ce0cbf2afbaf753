"""A product with the transpose of a matrix that is computed from parameters is an `F.linear`.

    MatMul(x, Transpose(W))        ->   BareLinear(x, W)
    Gemm(x, W, b), with transB     ->   BareLinear(x, W, b)
    Add(BareLinear(x, W), b)       ->   BareLinear(x, W, b)

W has two axes and is computed from parameters alone. b has one axis, and is a parameter or computed from parameters.
The author wrote `F.linear(x, self.fc.weight[:5], self.fc.bias[:5])`. A matrix that depends on an input is not a weight:
then `x @ y.T` stays. Not if `alpha`, `beta` or `transA` of a Gemm is set, or if another node reads the product before b
is added. (A matrix that is a parameter itself is a layer's, see linear.py.)

This comes after the attentions, whose projections may be slices of one matrix.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, both_orders, drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.walk import subgraphs
from onnxlift.ir.origin.tensors import may_be_trained
from onnxlift.stages import step

MOST_STEPS = 16  # from parameters to a matrix


@step(
    "linear-functions",
    after={
        "multihead-attention": "the projections of an attention may be cut out of one matrix",
        "bare-weights": "it adds biases to the functions that were found there",
    },
)
def run(model: ir.Model) -> int:
    """Recognise products with computed weights as `F.linear`; return how many rewrites that took."""
    return sweep(model, {"MatMul": _matmul, "Gemm": _gemm, "Add": _bias})


def _matmul(edit: Edit, node: ir.Node) -> None:
    x, matrix = node.inputs
    transpose = made_by(edit, matrix, "Transpose")
    order = permutation(transpose) if transpose is not None else None
    if transpose is not None and order is not None and [*order] == [1, 0] and _is_weight(transpose.inputs[0]):
        edit.replace(node, "BareLinear", [x, transpose.inputs[0]], domain=DOMAIN)
        drop_unused(edit, [transpose])


def _gemm(edit: Edit, node: ir.Node) -> None:
    plain = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
    defaults = {**plain, "transB": 0}
    weight, *bias = node.inputs[1:]
    is_plain = all(attribute(node, name, defaults[name]) == number for name, number in plain.items())
    if is_plain and _is_weight(weight) and all(_is_bias(value, weight) for value in bias):
        edit.replace(node, "BareLinear", node.inputs, domain=DOMAIN)


def _bias(edit: Edit, node: ir.Node) -> None:
    for value, bias in both_orders(node):
        function = made_by(edit, value, "BareLinear", domain=DOMAIN)
        if function is None or len(function.inputs) > 2 or not is_private(edit, value):
            continue
        if _is_bias(bias, function.inputs[1]):
            edit.replace(node, "BareLinear", [*function.inputs, bias], domain=DOMAIN, named_by=function)
            drop_unused(edit, [function])
            return


def _is_weight(value: ir.Value | None) -> bool:
    return value is not None and not may_be_trained(value) and _is_of_parameters(value)


def _is_bias(value: ir.Value | None, weight: ir.Value | None) -> bool:
    shape, matrix = shape_of(value), shape_of(weight)
    if value is None or shape is None or matrix is None or shape != matrix[:1]:
        return False
    return _is_of_parameters(value)


def _is_of_parameters(value: ir.Value) -> bool:
    """Tell whether a value is computed from at least one parameter, and otherwise from constants only."""
    found, seen, open_ends = False, {value}, [value]
    while open_ends and len(seen) <= MOST_STEPS:
        end = open_ends.pop()
        maker = end.producer()
        if maker is None:
            if end.const_value is None:
                return False
            found |= may_be_trained(end)
            continue
        if subgraphs(maker):
            return False
        sources = [source for source in maker.inputs if source is not None and source not in seen]  # for speed
        seen.update(sources)
        open_ends.extend(sources)
    return found and not open_ends

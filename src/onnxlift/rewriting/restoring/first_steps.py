"""Put back the product of a recurrent cell with its initial state of zeros, which an exporter has computed ahead of
time.

    Add(K, Gemm(x, cell.weight_ih, cell.bias_ih)), K = bias_hh in each row      ->   Add(Gemm(zeros, cell.weight_hh,
                                                                                        cell.bias_hh), Gemm(..))
    Split(K), whose parts are added to those of Split(Gemm(x, cell.weight_ih))  ->   Split(Gemm(zeros, ..))

PyTorch's newer exporter computes what does not depend on the input. So in a loop over an `nn.LSTMCell`, or another
cell, the first step looks different from the rest.

It applies if the file has both matrices under the names of one cell, and every row of the constant K equals `bias_hh`,
or is zeros if the cell has no biases. Sound because a product with zeros is zeros. It must come before anything is
folded; the idiom `recurrent_cells` then finds the cell.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.stages import step

_IH, _HH, _BIAS_HH = ".weight_ih", ".weight_hh", ".bias_hh"
_MOST_ELEMENTS = 1 << 20


@step("first-steps", after={"merged-parameters": "cells with equal parameters have their own, by which it knows them"})
def run(model: ir.Model) -> int:
    """Put these products back; return how many."""
    return sweep(model, {"Gemm": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    weight = node.inputs[1]
    name = weight.name or "" if weight is not None else ""
    if not name.endswith(_IH) or not attribute(node, "transB", 0):
        return
    owner, parameters = name.removesuffix(_IH), edit.graph.initializers
    matrix, bias = parameters.get(owner + _HH), parameters.get(owner + _BIAS_HH)
    if constant(matrix) is None or (bias is None) != (len(node.inputs) < 3 or node.inputs[2] is None):
        return
    for user, place in _partners(edit, node.outputs[0]):
        value = user.inputs[place]
        if value is not None and matrix is not None and _is_product_of_zeros(value, matrix, bias):
            _put_back(edit, node, user, place, matrix, bias)


def _partners(edit: Edit, product: ir.Value) -> Iterator[tuple[ir.Node, int]]:
    """Yield the nodes that add the product with the state to `product`, and the index of the input where they read
    it."""
    for user, place in product.uses():
        if user.graph is not edit.graph:
            continue
        if is_standard(user, "Add"):
            yield user, 1 - place
        elif is_standard(user, "Split"):
            for total, index in user.outputs[0].uses():
                other = total.inputs[1 - index] if is_standard(total, "Add") else None
                split = None if other is None else other.producer()
                if split is not None and is_standard(split, "Split") and split.graph is edit.graph:
                    yield split, 0


def _is_product_of_zeros(value: ir.Value, matrix: ir.Value, bias: ir.Value | None) -> bool:
    tensor, numbers = constant(value), constant(bias)
    shape, sizes = shape_of(value), shape_of(matrix)
    if tensor is None or shape is None or sizes is None or tensor.size > _MOST_ELEMENTS or value is bias:
        return False
    if len(shape) != 2 or len(sizes) != 2 or shape[1] != sizes[0] or value.dtype != matrix.dtype:
        return False
    if bias is not None and (numbers is None or shape_of(bias) != shape[1:]):
        return False
    if int(shape[0]) * int(sizes[1]) > _MOST_ELEMENTS:
        return False  # the zeros of the state would be too many
    return bool((tensor.numpy() == (0.0 if numbers is None else numbers.numpy())).all())


def _put_back(edit: Edit, beside: ir.Node, user: ir.Node, place: int, matrix: ir.Value, bias: ir.Value | None) -> None:
    value = user.inputs[place]
    sizes, array = shape_of(matrix), constant(matrix)
    assert value is not None and sizes is not None and array is not None
    rows = (shape_of(value) or (0,))[0]
    zeros = edit.constant("zeros", np.zeros((int(rows), int(sizes[1])), array.dtype.numpy()))
    inputs = [zeros, matrix] if bias is None else [zeros, matrix, bias]
    options, shape = [ir.AttrInt64("transB", 1)], shape_of(value) or ()
    name = f"{matrix.name}.zeros"
    product = edit.insert(user, "Gemm", inputs, options, like=value, shape=shape, name=name, beside=beside)
    user.replace_input_with(place, product)
    edit.changes += 1

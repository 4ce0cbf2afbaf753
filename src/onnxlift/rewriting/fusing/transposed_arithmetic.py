"""Remove transposes round arithmetic that treats all axes alike.

    Transpose(Relu(Transpose(x, p)), q)          ->   Relu(x)                if q undoes p
    Transpose(Mul(Transpose(x, p), c), q)        ->   Mul(x, c transposed)   likewise
    Transpose(Add(Transpose(x, p), c), q)        ->   Transpose(Add(x, c transposed), p[q])

Between the two may be any number of such nodes, each read by the next one alone, and c is a constant of at most 1 MiB
with no more axes than x. In the last form one transpose stays, so it applies only if nobody else reads the first one.
A model whose norms want channels last has many of these. Sound because each element of the result comes from the same
element of x and of c, wherever it stands.

For runtimes only: in source, c is a weight whose shape the original's state dict has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.stages import step

LARGEST = 1 << 20
UNARY = tuple(
    "Abs Cast Ceil Celu Clip Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Mish Neg Not Reciprocal "
    "Relu Round Selu Sigmoid Sign Sin Softplus Softsign Sqrt Swish Tanh ThresholdedRelu".split()
)
"""One operand with axes, and perhaps numbers (Clip)."""
BINARY = tuple("Add Div Max Min Mul PRelu Pow Sub".split())


@step(
    "transposed-arithmetic",
    after={"channel-arithmetic": "a constant behind a convolution is folded into its weight, and needs no other form"},
    repeats=True,
)
def run(model: ir.Model) -> int:
    """Remove transposes round arithmetic; return how many were found."""
    return sweep(model, {"Transpose": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    second = permutation(node)
    if second is None or edit.opset(node) < 7:  # older operators do not repeat their second operand as numpy does
        return
    between: list[tuple[ir.Node, int]] = []  # from the last to the first, with the place of what is transposed
    value = node.inputs[0]
    while value is not None and is_private(edit, value):
        arithmetic = made_by(edit, value, *UNARY, *BINARY)
        place = None if arithmetic is None else _place(arithmetic, len(second))
        if arithmetic is None or place is None:
            break
        between.append((arithmetic, place))
        value = arithmetic.inputs[place]
    transpose = made_by(edit, value, "Transpose")
    first = None if transpose is None else permutation(transpose)
    if not between or transpose is None or first is None or len(first) != len(second):
        return
    order = [first[axis] for axis in second]
    is_undone = order == sorted(order)
    if is_undone or is_private(edit, value):
        _move(edit, node, transpose, between, order)


def _place(node: ir.Node, axes: int) -> int | None:
    """Return which input a node works on, if its others are constants that fit in; None if there is no such input."""
    if node.op_type in UNARY:
        return 0
    if len(node.inputs) != 2:
        return None
    fits = [_fits(value, axes) for value in node.inputs]
    if fits[0] == fits[1]:
        return None
    place = fits.index(False)
    return None if node.op_type == "PRelu" and place else place


def _fits(value: ir.Value | None, axes: int) -> bool:
    tensor = constant(value)
    return tensor is not None and tensor.nbytes <= LARGEST and len(tensor.shape) <= axes


def _move(
    edit: Edit, node: ir.Node, transpose: ir.Node, between: Sequence[tuple[ir.Node, int]], order: Sequence[int]
) -> None:
    """Compute on what the first transpose reads, and put the result in the place of the second one."""
    first = permutation(transpose)
    result = transpose.inputs[0]
    assert first is not None and result is not None
    back = [int(axis) for axis in np.argsort(first)]
    for arithmetic, place in reversed(between):
        inputs = [each if i == place else _moved(edit, each, back) for i, each in enumerate(arithmetic.inputs)]
        inputs[place] = result
        old = arithmetic.outputs[0]
        shape = shape_of(old)
        result = edit.insert(
            arithmetic,
            arithmetic.op_type,
            inputs,
            arithmetic.attributes.values(),
            like=old,
            shape=[None] * len(first) if shape is None else [shape[axis] for axis in back],
            name=f"{old.name}.moved",
        )
    if order != sorted(order):
        edit.replace(node, "Transpose", [result], [ir.AttrInt64s("perm", order)])
    else:
        edit.bypass(node, result)
    drop_unused(edit, [*(arithmetic for arithmetic, _ in between), transpose])


def _moved(edit: Edit, value: ir.Value | None, order: Sequence[int]) -> ir.Value | None:
    """Return a constant with its axes in another order; a single number is the same in any."""
    tensor = constant(value)
    if value is None or tensor is None or tensor.size <= 1:
        return value
    array = tensor.numpy()
    whole = array.reshape((1,) * (len(order) - array.ndim) + array.shape)
    return edit.constant(f"{value.name}.transposed", np.ascontiguousarray(whole.transpose(order)))

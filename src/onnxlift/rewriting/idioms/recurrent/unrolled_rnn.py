"""An `nn.RNN` that was exported step by step is one layer.

    p = x @ W + b                                the whole sequence, (steps, batch, features)
    h1 = Tanh(h0 @ R + c + p[0])                 ->   RNN(x, h0, W, R, b and c), which gives y and the last h
    h2 = Tanh(h1 @ R + c + p[1]), ...
    y = Concat(h1, h2, ...)

PyTorch's newer exporter has no operator for this layer, and writes as many steps as the example had. If the sizes are
fixed and h0 is zeros, it folds h0 @ R + c into a constant, which is c in each row. y may be missing. If p is reversed
before the steps, and y joins the states from the last to the first, the layer runs backwards; recurrent_directions.py
joins it to the one that runs forwards.

It applies under these conditions. All steps are the same except for their place; they are in the order of the sequence,
and reach its end. They have one activation (Tanh or Relu). The weights are constants, both with a bias or both without.
Nothing is broadcast, so that all states have one shape. Nobody reads a value in between, nor any state but the last.
Sound because this is the definition. Layers on top of each other, and batches in front, are left to the idiom
`recurrent`, which runs next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import both_orders, drop_unused, is_private, is_zeros, made_by
from onnxlift.ir.graph.axes import static_slice
from onnxlift.ir.graph.constants import constant, contiguous
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.ir.graph.types import DataType
from onnxlift.rewriting.idioms.parts.pieces import Piece, piece
from onnxlift.rewriting.idioms.parts.recurrent_layers import insert_layer, take_over
from onnxlift.stages import step


@dataclass(frozen=True)
class _Affine:
    """The computation `x @ weight + bias`, with the nodes that compute it, the last one first."""

    x: ir.Value
    weight: ir.Value
    matrix: ir.TensorProtocol
    bias: ir.Value | None
    nodes: list[ir.Node]


@dataclass(frozen=True)
class _Step:
    """One step, `activation(hidden + source[place])`, with the nodes between the new state and its sources.

    In the first step, `hidden` may be a constant.
    """

    activation: ir.Node
    hidden: _Affine | ir.Value
    source: ir.Value
    place: int
    nodes: list[ir.Node]


@step("unrolled-rnn")
def run(model: ir.Model) -> int:
    """Recognise recurrent layers that were unrolled; return how many."""
    return sweep(model, {("Tanh", "Relu"): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if node.outputs[0].dtype != DataType.FLOAT:
        return
    steps = _steps(edit, node)
    if not steps:
        return
    flip = _flip(edit, steps[0].source)
    whole = _affine(edit, steps[0].source if flip is None else flip.inputs[0])
    hidden = steps[-1].hidden
    if whole is None or not isinstance(hidden, _Affine):
        return
    states = [one.activation.outputs[0] for one in steps]
    joined = _joined(states if flip is None else states[::-1])
    is_start, start = _start(edit, steps[0], hidden)
    if not is_start or not all(is_private(edit, state, 1 + (joined is not None)) for state in states[:-1]):
        return
    if {shape_of(state) for state in (*states, start) if state is not None} != {_state_shape(whole.x, hidden)}:
        return
    weights = _weights(edit, node, whole, hidden)
    if weights is None:
        return
    options: dict[str, int | str] = {
        "hidden_size": hidden.matrix.shape.numpy()[0],
        "bias": int(whole.bias is not None),
        "nonlinearity": node.op_type.lower(),
        "backwards": int(flip is not None),
    }
    layer = insert_layer(edit, node, [whole.x, start, None, *weights], options, like=node, kind="RNN")
    for old, new in zip((None if joined is None else joined.outputs[0], states[-1]), layer.outputs, strict=True):
        if old is not None:
            new.shape = old.shape
            take_over(edit, old, new)
    drop_unused(edit, [] if joined is None else [joined])
    for one in reversed(steps):
        drop_unused(edit, [one.activation, *one.nodes])
    drop_unused(edit, [*([] if flip is None else [flip]), *whole.nodes])
    edit.changes += 1


def _steps(edit: Edit, last: ir.Node) -> list[_Step]:
    """Return the steps that end with this one, the first one first; an empty list if they are not one layer's."""
    end = _step(edit, last)
    shape = shape_of(end.source) if end is not None else None
    if end is None or not isinstance(end.hidden, _Affine) or shape is None:
        return []
    steps = [end]
    if end.place < 1 or shape[0] != end.place + 1 or len(end.source.uses()) != end.place + 1:
        return []
    for place in range(end.place - 1, -1, -1):
        hidden = steps[-1].hidden
        state = hidden.x if isinstance(hidden, _Affine) else None
        activation = made_by(edit, state, last.op_type)
        one = _step(edit, activation) if activation is not None else None
        if one is None or one.source is not end.source or one.place != place:
            return []
        if place > 0 and not _is_same(one.hidden, end.hidden):
            return []
        steps.append(one)
    return steps[::-1]


def _flip(edit: Edit, value: ir.Value | None) -> ir.Node | None:
    """Return the node that reverses a whole sequence."""
    node = made_by(edit, value, "Slice")
    cut = static_slice(node) if node is not None else None
    if node is None or cut is None or cut[1:] != ((0,), (-1,)) or not is_private(edit, node.inputs[0]):
        return None
    shape = shape_of(value)
    return node if shape is not None and shape == shape_of(node.inputs[0]) else None


def _is_same(hidden: _Affine | ir.Value, other: _Affine) -> bool:
    return isinstance(hidden, _Affine) and hidden.weight is other.weight and hidden.bias is other.bias


def _start(edit: Edit, first: _Step, other: _Affine) -> tuple[bool, ir.Value | None]:
    """Tell whether the first step is like the others, and return the state that it begins with (None for zeros)."""
    hidden = first.hidden
    if isinstance(hidden, _Affine):
        return _is_same(hidden, other), None if is_zeros(edit, hidden.x) else hidden.x
    computed, bias = constant(hidden), constant(other.bias)
    expected = 0.0 if bias is None else bias.numpy()
    return computed is not None and bool((computed.numpy() == expected).all()), None


def _state_shape(x: ir.Value, hidden: _Affine) -> tuple[int | str, ...]:
    """Return the shape that all states have if nothing is broadcast."""
    shape = shape_of(x)
    return () if shape is None else (1, shape[1], hidden.matrix.shape.numpy()[0])


def _joined(states: Sequence[ir.Value]) -> ir.Node | None:
    """Return the node that joins all states to the result of the layer."""
    for user, _ in states[0].uses():
        if is_standard(user, "Concat") and list(user.inputs) == list(states) and attribute(user, "axis", None) == 0:
            return user
    return None


def _step(edit: Edit, activation: ir.Node) -> _Step | None:
    value = activation.inputs[0]
    total = made_by(edit, value, "Add")
    if total is None or not is_private(edit, value):
        return None
    for summand, part in both_orders(total):
        cut = _cut(edit, part)
        hidden = summand if constant(summand) is not None else _affine(edit, summand)
        if cut is None or hidden is None or not (isinstance(hidden, ir.Value) or is_private(edit, summand)):
            continue
        nodes = [total, *(hidden.nodes if isinstance(hidden, _Affine) else ()), *cut[1]]
        return _Step(activation, hidden, cut[0].x, cut[0].start, nodes)
    return None


def _cut(edit: Edit, part: ir.Value) -> tuple[Piece, list[ir.Node]] | None:
    """Return one element of a sequence, and the nodes that take it."""
    moved = made_by(edit, part, "Squeeze")
    inner = part if moved is None else moved.inputs[0]
    cut = piece(edit, inner)
    producer = None if inner is None else inner.producer()
    if cut is None or cut.axis != 0 or not is_private(edit, part):
        return None
    return cut, [node for node in (moved, producer) if node is not None]


def _affine(edit: Edit, value: ir.Value | None) -> _Affine | None:
    total = made_by(edit, value, "Add")
    for inner, bias in both_orders(total) if total is not None else ((value, None),):
        product = made_by(edit, inner, "MatMul")
        if product is None or (total is not None and (rank(bias) != 1 or not is_private(edit, inner))):
            continue
        x, weight = product.inputs
        matrix = constant(weight)
        if x is not None and weight is not None and matrix is not None and (rank(x), rank(weight)) == (3, 2):
            return _Affine(x, weight, matrix, bias, [node for node in (total, product) if node is not None])
    return None


def _weights(edit: Edit, node: ir.Node, whole: _Affine, hidden: _Affine) -> list[ir.Value | None] | None:
    """Return the matrices and biases as ONNX packs them."""
    size = whole.matrix.shape.numpy()[1]
    biases = [constant(part.bias) for part in (whole, hidden) if part.bias is not None]
    vectors = [tensor.numpy() for tensor in biases if tensor is not None and tensor.size == size]
    if hidden.matrix.shape.numpy() != (size, size) or len(vectors) != len(biases) or len(vectors) == 1:
        return None
    name = f"onnx::RNN_{node.outputs[0].name}"  # a made-up name, so that the layer is called like its module
    packed: list[ir.Value | None] = [
        edit.constant(f"{name}_{letter}", contiguous(part.matrix.numpy().T)[None])
        for letter, part in (("W", whole), ("R", hidden))
    ]
    bias = edit.constant(f"{name}_B", np.concatenate(vectors)[None]) if vectors else None
    return [*packed, bias]

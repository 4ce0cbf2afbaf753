"""The two directions of a recurrent layer that an exporter wrote one by one are one layer.

    f, hf = RNN(x, h0[0:1], W1, R1, B1)
    b, hb = RNN(x, h0[1:2], W2, R2, B2), backwards
    y = Concat(f, b) along the features              ->   y, h = RNN(x, h0, W, R, B), in both directions
    Concat(.., hf, hb, ..) along the layers          ->   Concat(.., h, ..), or h if there is nothing else
    hf, hb anywhere else                             ->   h[0:1], h[1:2]

Both start from zeros, or from neighbouring rows of one tensor. y may be missing if something joins the states. Not if
another node reads f or b. Sound because this is what PyTorch's layer computes. Layers on top of each other are left to
the idiom `recurrent`, which runs next.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, LiftedOperator, sweep
from onnxlift.ir.editing.match import DOMAIN, is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.rewriting.idioms.parts.pieces import piece
from onnxlift.rewriting.idioms.parts.recurrent_layers import insert_layer, take_over
from onnxlift.stages import step

_START, _WEIGHTS = 1, 3  # positions among the inputs of a lifted layer
_LAYERS, _FEATURES = (0, -3), (2, -1)  # axes of (layers, batch, features) and (steps, batch, features)


@step("recurrent-directions", after={"unrolled-rnn": "each direction is a layer by then"})
def run(model: ir.Model) -> int:
    """Join two directions to one layer; return how many."""
    passed: set[ir.Node] = set()
    return sweep(model, {LiftedOperator("RNN"): partial(_visit, passed=passed)})


def _visit(edit: Edit, node: ir.Node, passed: set[ir.Node]) -> None:
    passed.add(node)
    other = _backwards(edit, node)
    if other is None:
        return
    place = other if other in passed else node  # the first of both, as their readers come after it
    whole, is_start = _start(edit, place, node, other)
    if not is_start:
        return
    options = {name: each.value for name, each in node.attributes.items()} | {"bidirectional": 1}
    weights = _both(edit, node, other)
    layer = insert_layer(edit, place, [node.inputs[0], whole, None, *weights], options, like=node)
    y, h = layer.outputs
    joined = _joined(edit, node, other)
    if joined is not None:
        y.shape = joined.outputs[0].shape
        take_over(edit, joined.outputs[0], y)
        edit.drop(joined)
    h.shape = ir.Shape(_rows(node.outputs[1], 2))
    _hand_out(edit, h, node.outputs[1], other.outputs[1])
    edit.drop(node)
    edit.drop(other)
    edit.changes += 1


def _backwards(edit: Edit, node: ir.Node) -> ir.Node | None:
    """Return the layer that is the other direction of `node`."""
    options = dict(node.attributes)
    if "backwards" in options:
        return None
    y, h = node.outputs
    for join, place in _joins(edit, y, _FEATURES) if _is_read(edit, y) else _joins(edit, h, _LAYERS):
        other = made_by(edit, join.inputs[place + 1], node.op_type, domain=DOMAIN)
        if other is None or other.inputs[0] is not node.inputs[0]:
            continue
        is_alone = _joined(edit, node, other) is not None or not _is_read(edit, other.outputs[0])
        if is_alone and {**options, "backwards": ir.AttrInt64("backwards", 1)} == dict(other.attributes):
            return other
    return None


def _is_read(edit: Edit, value: ir.Value) -> bool:
    return bool(value.uses()) or edit.is_output(value)


def _joins(edit: Edit, value: ir.Value, axes: Collection[int]) -> list[tuple[ir.Node, int]]:
    """Return the nodes that join something to the end of `value` along one of these axes, with its place in their
    inputs.
    """
    return [
        (user, place)
        for user, place in value.uses()
        if is_standard(user, "Concat")
        and user.graph is edit.graph
        and attribute(user, "axis", None) in axes
        and place + 1 < len(user.inputs)
    ]


def _joined(edit: Edit, node: ir.Node, other: ir.Node) -> ir.Node | None:
    """Return the node that joins the results of both directions and nothing else, if it is their only reader."""
    values = [each.outputs[0] for each in (node, other)]
    if not all(is_private(edit, value) for value in values):
        return None
    ((join, _),) = values[0].uses()
    return join if list(join.inputs) == values else None


def _start(edit: Edit, place: ir.Node, node: ir.Node, other: ir.Node) -> tuple[ir.Value | None, bool]:
    """Return the states that both begin with (None for zeros), and whether there are common states at all."""
    states = [each.inputs[_START] for each in (node, other)]
    if states == [None, None]:
        return None, True
    first, second = (piece(edit, state) for state in states)
    if first is None or second is None or first.x is not second.x:
        return None, False
    if first.axis != 0 or second.start != first.start + 1:
        return None, False
    if first.size == 2:
        return first.x, True
    rows = [edit.constant("rows", np.array([row])) for row in (first.start, first.start + 2, 0)]
    shape = _rows(first.x, 2)
    return edit.insert(place, "Slice", [first.x, *rows], like=first.x, shape=shape, name="states"), True


def _rows(value: ir.Value, count: int) -> list[int | str | None]:
    """Return the shape of `value` with so many rows."""
    shape = shape_of(value)
    return [count, *((None, None) if shape is None else shape[1:])]


def _both(edit: Edit, node: ir.Node, other: ir.Node) -> list[ir.Value | None]:
    """Return the weights of both directions as ONNX packs them; the biases may be missing."""
    packed: list[ir.Value | None] = []
    for own, others in zip(node.inputs[_WEIGHTS:], other.inputs[_WEIGHTS:], strict=True):
        first, second = constant(own), constant(others)
        if own is None or first is None or second is None:
            packed.append(None)
        else:
            packed.append(edit.constant(str(own.name), np.concatenate([first.numpy(), second.numpy()])))
    return packed


def _hand_out(edit: Edit, h: ir.Value, forward: ir.Value, backward: ir.Value) -> None:
    """Let all readers of the last state of one direction read that of both."""
    for join, place in _joins(edit, forward, _LAYERS):
        if join.inputs[place + 1] is not backward:
            continue
        inputs = [*join.inputs[:place], h, *join.inputs[place + 2 :]]
        if len(inputs) > 1:
            edit.replace(join, "Concat", inputs, list(join.attributes.values()))
        elif edit.can_redirect(join.outputs[0], h):
            take_over(edit, join.outputs[0], h)
            edit.drop(join)
    layer = h.producer()
    assert layer is not None
    for row, state in enumerate((forward, backward)):
        if _is_read(edit, state):
            rows = [edit.constant("rows", np.array([each])) for each in (row, row + 1, 0)]
            cut = edit.insert(layer, "Slice", [h, *rows], like=state, shape=_rows(state, 1), name="state")
            take_over(edit, state, cut)
    if not h.name:
        h.name = edit.names.fresh("h_n")

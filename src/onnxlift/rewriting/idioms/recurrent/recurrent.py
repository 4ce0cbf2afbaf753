"""LSTM, GRU and RNN become PyTorch's layers of these names, stacked and batch-first as they were.

    LSTM(x, W, R, B, h0, c0)                             ->  lifted LSTM(x, h0, c0, W, R, B)
    Squeeze, or Transpose and Reshape, of its Y          ->  gone: the lifted LSTM gives (sequence, batch, features)
    other readers of its Y                               ->  they read that with an axis of directions cut out of it
    zeros for h0 and c0                                  ->  gone: PyTorch starts from zeros
    LSTM after LSTM of one module, Concat of their h, c  ->  one lifted LSTM of two layers
    Transpose before and after                           ->  gone: `batch_first`

A lifted node has the inputs x, h0, c0, then the weights of each layer. These are W, R and B as ONNX packs them, or, if
`unpacked` is set, the parameters of PyTorch's layer (see parts/packed_weights.py). If `lengths` is set, the last input
is the lengths of the sequences. The outputs are y, h, c. All are as PyTorch has them.

Not if PyTorch's layer computes something else or lacks an option: a GRU that resets before the product (ONNX's
default), peepholes, other activations, `clip`, `input_forget`, `layout`, or lengths of sequences (unless all are full).
In a model from PyTorch, lengths are allowed: they are those of a packed sequence, and none is 0. PyTorch's layer gives
the same for these, with zeros after the end, and refuses others. Nodes that are not a layer stay, and so do those whose
weights are not constants.

Layers are stacked only if they belong to one module by the exporter's names. If the names say nothing, they must share
the tensors of their states. Nobody may read the values between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, LiftedOperator, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, is_zeros, made_by
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_lifted, is_standard
from onnxlift.ir.graph.shapes import Shape, shape_of, static_elements
from onnxlift.ir.graph.types import DataType
from onnxlift.ir.origin.exporter import exporter_of
from onnxlift.ir.origin.module_paths import module_of
from onnxlift.rewriting.idioms.parts.pieces import piece
from onnxlift.rewriting.idioms.parts.recurrent_layers import insert_layer, take_over
from onnxlift.rewriting.idioms.recurrent.parts.packed_weights import parameters
from onnxlift.rewriting.simplifying import reshapes, transposed_axes, transposes
from onnxlift.stages import step

_STANDARD = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}
_LIFTED = tuple(map(LiftedOperator, _STANDARD))
_H, _C, _WEIGHTS = 1, 2, 3  # positions among the inputs of a lifted node; the first two among its outputs too


@step("recurrent", after={"recurrent-directions": "layers are stacked with both of their directions"})
def run(model: ir.Model) -> int:
    """Make layers of recurrent nodes; return how many rewrites that took."""
    lift = partial(_lift, packs=exporter_of(model).is_pytorch)
    count = sweep(model, {tuple(_STANDARD): lift}) + sweep(model, {_LIFTED: _stack})
    if count:  # with the axis of directions gone, transposes and reshapes may cancel out
        for tidy in (transposes, transposed_axes, reshapes):
            tidy.run(model)
    return count + sweep(model, {_LIFTED: _batch_first})


# One node becomes one layer


def _lift(edit: Edit, node: ir.Node, packs: bool) -> None:
    if not _is_layer(node):
        return
    x, w, r, b, lengths, h, c = (*node.inputs, *[None] * 7)[:7]
    lengths = None if lengths is None or _are_full(lengths, x) else lengths
    if lengths is not None and (not packs or _direction(node) == "reverse"):
        near_miss(node, "sequences of several lengths, which nn.LSTM takes packed, and not backwards")
        return
    weights: Sequence[ir.Value | None] | None = [w, r, b]
    is_packed = all(constant(value) is not None for value in (w, r, b) if value is not None)
    if not is_packed:
        weights = parameters(edit, node.op_type, _directions(node), w, r, b)
    if weights is None:
        return
    states = [None if is_zeros(edit, state) else state for state in (h, c)]
    readers = _readers(edit, node)
    options: dict[str, int | str] = {
        "hidden_size": int(str(_sizes(r)[-1])),
        "bias": int(b is not None),
        "unpacked": int(not is_packed),
        "bidirectional": int(_direction(node) == "bidirectional"),
        "backwards": int(_direction(node) == "reverse"),
        "nonlinearity": _activations(node)[0] if node.op_type == "RNN" else "",
        "lengths": int(lengths is not None),
    }
    more = [] if lengths is None else [_as_integers(edit, node, lengths)]
    layer = insert_layer(edit, node, [x, *states, *weights, *more], options, like=node)
    y, *rest = layer.outputs
    y.shape = None if (shape := _shape_of_y(node)) is None else ir.Shape(shape)
    if readers is None:
        take_over(edit, node.outputs[0], _with_directions(edit, node, y))
    else:
        for reader in readers:
            take_over(edit, reader.outputs[0], y)
            edit.drop(reader)
    for old, new in zip(node.outputs[1:], rest, strict=False):
        take_over(edit, old, new)
    drop_unused(edit, [user for user, _ in node.outputs[0].uses()])
    edit.drop(node)
    edit.changes += 1


def _is_layer(node: ir.Node) -> bool:
    """Tell whether PyTorch's layer computes the same."""
    x, w, r, _, _, _, _, peepholes = (*node.inputs, *[None] * 8)[:8]
    if peepholes is not None or 0 in (*_sizes(x), *_sizes(w), *_sizes(r)):
        near_miss(node, "it has peepholes, or a size of 0")
        return False
    if attribute(node, "clip", 0.0) or attribute(node, "input_forget", 0) or attribute(node, "layout", 0):
        near_miss(node, "PyTorch's layer has no clip, no input_forget and no layout 1")
        return False
    if node.op_type == "GRU" and not attribute(node, "linear_before_reset", 0):
        near_miss(node, "PyTorch's GRU resets after the linear part (linear_before_reset=1)")
        return False
    directions = _directions(node)
    usual = _STANDARD[node.op_type] * directions
    activations = _activations(node)[: len(usual)]
    if activations != usual and not (node.op_type == "RNN" and activations == ("relu",) * directions):
        near_miss(node, "PyTorch's layer has other activations than {}", ", ".join(activations))
        return False
    return _sizes(r)[:1] == (directions,) and isinstance(_sizes(r)[-1], int)


def _direction(node: ir.Node) -> str:
    return str(attribute(node, "direction", "forward")).lower()


def _directions(node: ir.Node) -> int:
    return 2 if _direction(node) == "bidirectional" else 1


def _activations(node: ir.Node) -> tuple[str, ...]:
    given = attribute(node, "activations", ())
    return tuple(str(name).lower() for name in given) if given else _STANDARD[node.op_type] * 2


def _sizes(value: ir.Value | None) -> Shape:
    """Return the shape; () if it is not known."""
    shape = shape_of(value)
    return () if shape is None else shape


def _are_full(lengths: ir.Value, x: ir.Value | None) -> bool:
    """Tell whether all sequences are known to be as long as the input."""
    steps = _sizes(x)[:1]
    known = static_elements(lengths)
    return known is not None and all((length,) == steps for length in known)


def _as_integers(edit: Edit, node: ir.Node, lengths: ir.Value) -> ir.Value:
    """Return the lengths as 64-bit integers, which PyTorch takes.

    Mostly they had that type before ONNX asked for 32 bits: then the Cast to int32 is skipped.
    """
    cast = made_by(edit, lengths, "Cast")
    if cast is not None and cast.inputs[0] is not None and cast.inputs[0].dtype == DataType.INT64:
        return cast.inputs[0]
    options, integers = [ir.AttrInt64("to", DataType.INT64)], ir.Value(type=ir.TensorType(DataType.INT64))
    shape = shape_of(lengths)
    sizes = (None,) if shape is None else shape
    name = f"{lengths.name}.lengths"
    return edit.insert(node, "Cast", [lengths], options, like=integers, shape=sizes, name=name)


def _shape_of_y(node: ir.Node) -> tuple[int | str, ...] | None:
    """Return Y's shape in PyTorch: (sequence, batch, directions * hidden)."""
    match shape_of(node.outputs[0]):
        case (sequence, int(directions), batch, int(hidden)):
            return sequence, batch, directions * hidden
    return None


def _readers(edit: Edit, node: ir.Node) -> list[ir.Node] | None:
    """Return the nodes that give Y the form that it has in PyTorch; None if anything else reads it."""
    y, shape = node.outputs[0], _shape_of_y(node)
    readers: list[ir.Node] = []
    for user, _ in y.uses():
        order = permutation(user)
        if order is not None and list(order) == [0, 2, 1, 3] and not edit.is_output(user.outputs[0]):
            readers += [last for last, _ in user.outputs[0].uses()]
        elif _direction(node) != "bidirectional":  # without the axis of directions the order of elements is the same
            readers.append(user)
        else:
            return None
    same = all(is_standard(r, "Reshape", "Squeeze") and shape_of(r.outputs[0]) == shape is not None for r in readers)
    here = all(reader.graph is edit.graph for reader in readers)
    outputs = sum(edit.is_output(reader.outputs[0]) for reader in readers)
    return readers if same and here and outputs <= 1 and not edit.is_output(y) else None


def _with_directions(edit: Edit, node: ir.Node, y: ir.Value) -> ir.Value:
    """Return the output of the lifted node in the form of ONNX's Y: (sequence, directions, batch, hidden)."""
    known = _sizes(node.outputs[0])
    shape = known if len(known) == 4 else (None,) * 4
    sequence, directions, batch, hidden = shape
    name = str(node.outputs[0].name)
    y.name = edit.names.fresh(f"{name}.layer_output_0")
    if _direction(node) != "bidirectional":
        inputs, attributes = edit.axes(node, [1])
        return edit.insert(node, "Unsqueeze", [y, *inputs], attributes, like=y, shape=shape, name=name)
    sizes = edit.constant(f"{name}.directions", np.array([0, 0, 2, int(str(_sizes(node.inputs[2])[-1]))], np.int64))
    cut = edit.insert(
        node, "Reshape", [y, sizes], like=y, shape=(sequence, batch, directions, hidden), name=f"{name}.cut"
    )
    order = [ir.AttrInt64s("perm", [0, 2, 1, 3])]
    return edit.insert(node, "Transpose", [cut], order, like=y, shape=shape, name=name)


# Layers become one layer


def _stack(edit: Edit, node: ir.Node) -> None:
    chain = [node]
    if _before(edit, node) is not None:
        return
    while (following := _after(edit, chain[-1])) is not None:
        chain.append(following)
    if len(chain) < 2:
        return
    starts = [[each.inputs[slot] for each in chain] for slot in (_H, _C)]
    ends = [[each.outputs[slot] for each in chain] for slot in (_H, _C) if slot < len(node.outputs)]
    if any(None in start and any(start) for start in starts):
        return  # some layers start from zeros and others do not
    sources = [_whole(edit, start) for start in starts]
    joins = [_join(edit, end) for end in ends]
    if any(join is None and any(_is_used(edit, state) for state in end) for join, end in zip(joins, ends, strict=True)):
        return
    place = chain[-1]
    states = [
        source if source is not None or start[0] is None else _concat(edit, place, start)
        for source, start in zip(sources, starts, strict=True)
    ]
    weights = [value for each in chain for value in each.inputs[_WEIGHTS : len(each.inputs) - len(_lengths(each))]]
    inputs = [node.inputs[0], *states, *weights, *_lengths(node)]
    layer = insert_layer(edit, place, inputs, _options(node), like=node)
    layer.outputs[0].shape = place.outputs[0].shape
    take_over(edit, place.outputs[0], layer.outputs[0])
    for join, new in zip(joins, layer.outputs[1:], strict=True):
        if join is not None:
            take_over(edit, join.outputs[0], new)
            edit.drop(join)
    for each in chain:
        edit.drop(each)
    edit.changes += 1


def _options(node: ir.Node) -> dict[str, int | str]:
    return {name: each.value for name, each in node.attributes.items()}


def _lengths(node: ir.Node) -> tuple[ir.Value | None, ...]:
    """Return the lengths of the sequences, the last input of a lifted node, if it has them."""
    return tuple(node.inputs[-1:]) if attribute(node, "lengths", 0) else ()


def _before(edit: Edit, node: ir.Node) -> ir.Node | None:
    """Return the layer that `node` is to be stacked on."""
    below = made_by(edit, node.inputs[0], *_STANDARD, domain=DOMAIN)
    return below if below is not None and _after(edit, below) is node else None


def _after(edit: Edit, node: ir.Node) -> ir.Node | None:
    """Return the layer that reads the whole output of `node`, if nobody else does and it is of the same kind."""
    y = node.outputs[0]
    if not is_private(edit, y):
        return None
    ((reader, position),) = y.uses()
    if position != 0 or not is_lifted(reader, node.op_type) or reader.graph is not edit.graph:
        return None
    options = _options(node)
    is_equal = options == _options(reader) and _lengths(node) == _lengths(reader)
    return reader if not options.get("backwards") and is_equal and _is_one_module(edit, node, reader) else None


def _is_one_module(edit: Edit, node: ir.Node, reader: ir.Node) -> bool:
    """Tell whether two layers belong to one module by the exporter's names.

    If the names say nothing, tell whether they share the tensors of their states.
    """
    modules = module_of(node), module_of(reader)
    if all(modules):
        return modules[0] == modules[1]
    sources, joins = [], []
    for each in (node, reader):
        cuts = [made_by(edit, state, "Slice") for state in each.inputs[_H:_WEIGHTS]]
        sources.append({cut.inputs[0] for cut in cuts if cut is not None})
        joins.append({user for state in each.outputs[1:] for user, _ in state.uses()})
    return bool(sources[0] & sources[1] or joins[0] & joins[1])


def _is_used(edit: Edit, value: ir.Value) -> bool:
    return bool(value.uses()) or edit.is_output(value)


def _join(edit: Edit, states: Sequence[ir.Value]) -> ir.Node | None:
    """Return the Concat that joins the states of all layers, and nothing else, along the axis of layers."""
    if not all(is_private(edit, state) for state in states):
        return None
    ((join, _),) = states[0].uses()
    is_join = is_standard(join, "Concat") and join.graph is edit.graph and attribute(join, "axis", None) in (0, -3)
    return join if is_join and tuple(join.inputs) == tuple(states) else None


def _whole(edit: Edit, parts: Sequence[ir.Value | None]) -> ir.Value | None:
    """Return the tensor that `parts` are consecutive pieces of, from the first row to the last."""
    source: ir.Value | None = None
    end = rows = 0
    for part in parts:
        cut = piece(edit, part)
        if cut is None or source not in (None, cut.x) or cut.axis != 0 or cut.start != end:
            return None
        source, end, rows = cut.x, end + cut.length, cut.size
    return source if end == rows else None


def _concat(edit: Edit, place: ir.Node, parts: Sequence[ir.Value | None]) -> ir.Value:
    first = parts[0]
    assert first is not None
    rows = len(parts) * (2 if attribute(place, "bidirectional", 0) else 1)
    sizes = _sizes(first)
    shape = [rows, *(sizes[1:] if len(sizes) == 3 else (None, None))]
    axis = [ir.AttrInt64("axis", 0)]
    return edit.insert(place, "Concat", parts, axis, like=first, shape=shape, name=f"{first.name}.layers")


# The batch comes first


def _batch_first(edit: Edit, node: ir.Node) -> None:
    before = made_by(edit, node.inputs[0], "Transpose")
    y = node.outputs[0]
    after = [user for user, _ in y.uses()]
    if before is None or edit.is_output(y):
        return
    swaps = [permutation(each) for each in (before, *after)]
    here = all(user.graph is edit.graph for user in after)
    outputs = sum(edit.is_output(user.outputs[0]) for user in after)
    if not here or outputs > 1 or any(order is None or list(order) != [1, 0, 2] for order in swaps):
        return
    layer = insert_layer(
        edit, node, [before.inputs[0], *node.inputs[1:]], {**_options(node), "batch_first": 1}, like=node
    )
    for reader in after:
        layer.outputs[0].shape = reader.outputs[0].shape
        take_over(edit, reader.outputs[0], layer.outputs[0])
        edit.drop(reader)
    for old, new in zip(node.outputs[1:], layer.outputs[1:], strict=True):
        take_over(edit, old, new)
    edit.drop(node)
    drop_unused(edit, [before])
    edit.changes += 1

"""Attention between linear layers as `nn.MultiheadAttention` writes it.

    p = Linear(x, W, b)                        the packed projection to queries, keys and values
    q, k, v = three parts of p, in heads       Reshape, Transpose, Gather, Split, ... in any spelling
    Linear(heads joined(Attention(q, k, v, mask)), W2, b2)   ->   MultiheadAttention(x, x, x, W, b, W2, b2, mask)

and the Transposes to the layout with the sequence in front and back again, if all are there: `batch_first`. Where the
queries are projected from one value and the keys and values from others, each with its rows of W and b
(projections.py), these are what the layer is called with. What the nodes in between do is compared axis by axis
(moved_axes.py).

It applies if the parameters are named as in that class (`in_proj_weight`, `in_proj_bias`), or if the sequence is the
first axis, as that class alone has it: others keep their own projections. The mask has one row for each query, or one
for each batch (`key_padding_mask`), or is causal. Not with another scale than PyTorch's default, with grouped heads,
with a bias in only one of the projections, or if somebody else reads a value in between. A bias of the last projection
that is missing although `in_proj_bias` is there was zero, and left out by the exporter: it is zero again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ..ir.node_view import Shape, shape_of
from ..passes import dead_code
from ..passes.common_subexpressions import module_of
from ..passes.edit import Edit, attribute, sweep
from ..passes.transposes import permutation
from .match import DOMAIN, drop_unused, is_private, made_by, number, rank
from .moved_axes import MOVES, Axis, Moved, moves_to
from .projections import Projection, find_projection

_MAX_MOVES = 12
_MAX_READERS = 32
_OPTIONS = frozenset({"is_causal", "dropout", "trains"})
_SIZES = frozenset({*MOVES, "Shape", "Cast", "Concat", "Mul", "Div"})
_BIAS = "in_proj_bias"


def run(model: ir.Model) -> int:
    """Recognise multi-head attention layers; gives how many."""
    dead_code.run(model)  # what made a causal mask still reads the sizes of the queries
    return sweep(model, _visit)


@dataclass
class _Layer:
    """The nodes of a layer, its three projections, and whether the batch is the first axis of these."""

    projections: list[Projection]
    attention: ir.Node
    output: ir.Node
    last: ir.Node
    moves: list[ir.Node]
    heads: int
    is_batch_first: bool

    @property
    def projecting(self) -> list[ir.Node]:
        """The nodes of the projections, each once."""
        return list(dict.fromkeys(node for projection in self.projections for node in projection.nodes))

    @property
    def named_by(self) -> ir.Node:
        return self.projections[0].nodes[-1]


def _visit(edit: Edit, node: ir.Node) -> None:
    if node.op_type != "Attention" or node.domain != DOMAIN or not node.attributes.keys() <= _OPTIONS:
        return
    if attribute(node, "trains", 0) or node.outputs[0].dtype == ir.DataType.FLOAT16:
        return  # half precision is computed in float32 (ops/attention.py), which the layer does not do
    layer = _find(edit, node)
    if layer is None or not _is_named_so(layer) or not _is_closed(edit, layer):
        return
    packed = layer.projections[0]
    sources = [projection.x for projection in layer.projections]
    last, batch_first = layer.last, layer.is_batch_first
    before, after = [made_by(edit, x, "Transpose") for x in sources], _only_reader(edit, last)
    if not batch_first and after is not None and all(turn is not None and _swaps(turn) for turn in (*before, after)):
        sources = [turn.inputs[0] for turn in before if turn is not None and turn.inputs[0] is not None]
        last, batch_first = after, True
    attributes = [
        ir.AttrInt64("num_heads", layer.heads),
        ir.AttrInt64("batch_first", int(batch_first)),
        ir.AttrInt64("transposed", int(packed.is_transposed)),
        ir.AttrInt64("output_transposed", attribute(layer.output, "transposed", 0)),
    ]
    attributes += [option for option in node.attributes.values() if option.name != "trains"]
    weight_2, bias_2 = (*layer.output.inputs[1:], None)[:2]
    if packed.bias is not None and bias_2 is None:
        bias_2 = _zeros(edit, packed.bias)
    (mask, inverted), (padding, padding_inverted) = (_hidden(edit, value) for value in _masks(edit, node))
    if inverted or padding_inverted:
        attributes.append(ir.AttrInt64("inverted", 1))
    inputs = [*sources, packed.weight, packed.bias, weight_2, bias_2, mask, padding]
    edit.replace(last, "MultiheadAttention", inputs, attributes, domain=DOMAIN, named_by=layer.named_by)
    drop_unused(edit, [layer.last, layer.output, *reversed(layer.moves)])
    turns = [turn for turn in dict.fromkeys(before) if turn is not None]
    drop_unused(edit, [node, *reversed(layer.moves), *layer.projecting, *turns])


def _zeros(edit: Edit, bias: ir.Value) -> ir.Value:
    """The bias of the last projection of the layer that has this `in_proj_bias`."""
    tensor = bias.const_value
    assert tensor is not None
    name = (bias.name or "").removesuffix(_BIAS) + "out_proj.bias"
    return edit.constant(name, np.zeros(tensor.size // 3, tensor.dtype.numpy()))


def _find(edit: Edit, attention: ir.Node) -> _Layer | None:
    """The layer around an attention, if all axes go where they should."""
    chains = [moves_to(edit, value) for value in attention.inputs[:3]]
    found = [find_projection(edit, chain[0].inputs[0]) if chain else None for chain in chains]
    projections = [projection for projection in found if projection is not None]
    of_q = shape_of(attention.inputs[0])
    if len(projections) != 3 or of_q is None or not isinstance(of_q[-1], int):
        return None
    width, features = projections[0].columns, of_q[-1]
    if not features or width % features or not _is_packed(projections, width):
        return None
    shapes = [shape_of(chain[0].inputs[0]) for chain in chains]
    packed = [_packed(shape, p, width, features) for shape, p in zip(shapes, projections, strict=True)]
    parts = [
        None if start is None or value is None else start.after(chain, value)
        for start, chain, value in zip(packed, chains, attention.inputs[:3], strict=True)
    ]
    for batch, seq in (("first", "second"), ("second", "first")):
        axes: tuple[Axis, ...] = ((batch,), ("head",), (seq,), ("feature",))
        if len(of_q) == 3:
            axes = ((batch, "head"), (seq,), ("feature",))
        moved = [part for part in parts if part is not None and part.axes == axes]
        places = [p.start // width + part.taken.get("part", 0) for p, part in zip(projections, moved, strict=False)]
        if places != [0, 1, 2] or len({part.sizes[batch] for part in moved}) != 1:
            continue
        if "is_causal" in attention.attributes and moved[0].sizes[seq] != moved[1].sizes[seq]:
            continue
        output = _output(edit, attention, Moved(axes, moved[0].sizes), width)
        if output is not None and _has_biases(projections[0], output[0]):
            moves = list({node: None for chain in chains for node in chain})
            return _Layer(
                projections,
                attention,
                output[0],
                output[1],
                [*moves, *output[2]],
                heads=width // features,
                is_batch_first=batch == "first",
            )
    return None


def _is_packed(projections: list[Projection], width: int) -> bool:
    """Whether the projections are whole thirds of one weight and bias, from `width` features each."""
    first = projections[0]
    if sorted(shape_of(first.weight) or ()) != sorted([width, 3 * width]):
        return False
    return all(
        p.weight is first.weight
        and p.bias is first.bias
        and p.columns == width
        and p.is_transposed == first.is_transposed
        and p.start % width == p.rows % width == 0
        for p in projections
    )


def _packed(shape: Shape | None, projection: Projection, width: int, features: int) -> Moved | None:
    """The axes of what is projected: two, and the parts, heads and features in one."""
    if shape is None or len(shape) != 3:
        return None
    parts = projection.rows // width
    sizes = {"first": shape[0], "second": shape[1], "part": parts, "head": width // features, "feature": features}
    packed: Axis = ("head", "feature") if parts == 1 else ("part", "head", "feature")
    return Moved((("first",), ("second",), packed), sizes)


def _has_biases(projection: Projection, output: ir.Node) -> bool:
    """Whether both projections have a bias or none has; or the last one only lost it."""
    there = len(output.inputs) > 2 and output.inputs[2] is not None
    if projection.bias is None:
        return not there
    return there or (projection.bias.name or "").endswith(_BIAS)


def _output(edit: Edit, attention: ir.Node, moved: Moved, width: int) -> tuple[ir.Node, ir.Node, list[ir.Node]] | None:
    """The linear layer after the attention, which gets the heads joined again, the last node (if the layer works on
    rows, a Reshape to the axes that these were), and the nodes that join them."""
    nodes: list[ir.Node] = []
    reader = _only_reader(edit, attention)
    while reader is not None and reader.op_type in MOVES and len(nodes) < _MAX_MOVES:
        nodes.append(reader)
        reader = _only_reader(edit, reader)
    if reader is None or reader.op_type != "Linear" or reader.domain != DOMAIN or not nodes:
        return None
    joined = moved.after(nodes, nodes[-1].outputs[0])
    if joined is None or joined.taken or shape_of(reader.inputs[1]) != (width, width):
        return None
    if joined.axes == (("first",), ("second",), ("head", "feature")):
        return reader, reader, nodes
    split = _only_reader(edit, reader)
    if joined.axes != (("first", "second"), ("head", "feature")) or split is None or split.op_type != "Reshape":
        return None
    shape = (moved.sizes["first"], moved.sizes["second"], width)
    return (reader, split, nodes) if shape_of(split.outputs[0]) == shape else None


def _only_reader(edit: Edit, node: ir.Node) -> ir.Node | None:
    if len(node.outputs) != 1 or not is_private(edit, node.outputs[0]):
        return None
    ((reader, index),) = node.outputs[0].uses()
    return reader if index == 0 and reader.graph is edit.graph else None


def _is_named_so(layer: _Layer) -> bool:
    packed = layer.projections[0]
    names = [value.name or "" for value in (packed.weight, packed.bias) if value is not None]
    return not layer.is_batch_first or any(name.endswith(("in_proj_weight", _BIAS)) for name in names)


def _is_closed(edit: Edit, layer: _Layer) -> bool:
    """Whether nobody else reads what the layer computes on the way, and its mask is one that it takes."""
    mask, padding = _masks(edit, layer.attention)
    value, _ = _hidden(edit, mask if padding is None else padding)
    producer = None if value is None else value.producer()
    if producer is not None and module_of(producer) == module_of(layer.named_by) != "":
        return False  # the layer would have to compute its own mask
    if mask is not None and rank(mask) != 2:
        return False
    inside = {layer.attention, layer.output, *layer.moves, *layer.projecting}
    pending = [*layer.projecting, layer.attention, *layer.moves]
    seen: set[ir.Node] = set()
    while pending:  # readers that are not of the layer may compute sizes for it, and nothing else
        node = pending.pop()
        users = {user for value in node.outputs for user, _ in value.uses()}
        if len(seen) > _MAX_READERS or any(edit.is_output(value) for value in node.outputs):
            return False
        outside = users - inside - seen
        if any(user.graph is not edit.graph or user.op_type not in _SIZES for user in outside):
            return False
        seen |= outside
        pending += outside
    return True


def _masks(edit: Edit, attention: ir.Node) -> tuple[ir.Value | None, ir.Value | None]:
    """The mask by queries and keys, and the one by batches and keys; at most one of them is there."""
    mask = attention.inputs[3] if len(attention.inputs) > 3 else None
    shape = shape_of(mask)
    if mask is None or shape is None or len(shape) != 4 or shape[1:3] != (1, 1):
        return mask, None
    new = made_by(edit, mask, "Unsqueeze", "Reshape")
    source = None if new is None else new.inputs[0]
    return (None, source) if shape_of(source) == (shape[0], shape[3]) else (mask, None)


def _hidden(edit: Edit, mask: ir.Value | None) -> tuple[ir.Value | None, bool]:
    """The mask as the layer takes it, numbers to add or true where a score does not count; and whether it is still to
    be inverted for that."""
    inverted, choice = made_by(edit, mask, "Not"), made_by(edit, mask, "Where")
    if inverted is not None:
        return inverted.inputs[0], False
    if choice is not None and shape_of(choice.inputs[0]) == shape_of(mask) is not None:
        hidden, then, otherwise = choice.inputs
        if number(then) == -math.inf and number(otherwise) == 0:
            return hidden, False
    return mask, mask is not None and mask.dtype == ir.DataType.BOOL


def _swaps(node: ir.Node) -> bool:
    return node.op_type == "Transpose" and list(permutation(node) or ()) == [1, 0, 2]

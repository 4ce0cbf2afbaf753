"""Attention between two linear layers as `nn.MultiheadAttention` writes it.

    p = Linear(x, W, b)                        the packed projection to queries, keys and values
    q, k, v = three parts of p, in heads       Reshape, Transpose, Gather, Split, ... in any spelling
    Linear(heads joined(Attention(q, k, v, mask)), W2, b2)   ->   MultiheadAttention(x, W, b, W2, b2, mask)

and the Transposes to the layout with the sequence in front and back again, if both are there: `batch_first`. What the
nodes in between do is compared axis by axis (moved_axes.py).

It applies if the parameters are named as in that class (`in_proj_weight`, `in_proj_bias`), or if the sequence is the
first axis, as that class alone has it: others keep their own projections. The mask has one row for each query, or one
for each batch (`key_padding_mask`), or is causal. Not with another scale than PyTorch's default, with grouped heads,
with a bias in only one of the projections, or if somebody else reads a value in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from ..ir.node_view import shape_of
from ..passes import dead_code
from ..passes.common_subexpressions import module_of
from ..passes.edit import Edit, attribute, sweep
from ..passes.transposes import permutation
from .match import DOMAIN, drop_unused, is_private, made_by, number, rank
from .moved_axes import MOVES, Axis, Moved, moves_to

_MAX_MOVES = 12
_MAX_READERS = 32
_OPTIONS = frozenset({"is_causal", "dropout", "trains"})
_SIZES = frozenset({*MOVES, "Shape", "Cast", "Concat", "Mul", "Div"})


def run(model: ir.Model) -> int:
    """Recognise multi-head attention layers; gives how many."""
    dead_code.run(model)  # what made a causal mask still reads the sizes of the queries
    return sweep(model, _visit)


@dataclass
class _Layer:
    """The nodes of a layer, and whether the batch is the first axis of the projections."""

    projection: ir.Node
    attention: ir.Node
    output: ir.Node
    last: ir.Node
    moves: list[ir.Node]
    heads: int
    is_batch_first: bool


def _visit(edit: Edit, node: ir.Node) -> None:
    if node.op_type != "Attention" or node.domain != DOMAIN or not node.attributes.keys() <= _OPTIONS:
        return
    if attribute(node, "trains", 0) or node.outputs[0].dtype == ir.DataType.FLOAT16:
        return  # half precision is computed in float32 (ops/attention.py), which the layer does not do
    layer = _find(edit, node)
    if layer is None or not _is_named_so(layer) or not _is_closed(edit, layer):
        return
    x, weight, bias = (*layer.projection.inputs, None)[:3]
    last, batch_first = layer.last, layer.is_batch_first
    before, after = made_by(edit, x, "Transpose"), _only_reader(edit, last)
    if not batch_first and before is not None and after is not None and _swaps(before) and _swaps(after):
        x, last, batch_first = before.inputs[0], after, True
    attributes = [
        ir.AttrInt64("num_heads", layer.heads),
        ir.AttrInt64("batch_first", int(batch_first)),
        ir.AttrInt64("transposed", attribute(layer.projection, "transposed", 0)),
        ir.AttrInt64("output_transposed", attribute(layer.output, "transposed", 0)),
    ]
    attributes += [option for option in node.attributes.values() if option.name != "trains"]
    weight_2, bias_2 = (*layer.output.inputs[1:], None)[:2]
    (mask, inverted), (padding, padding_inverted) = (_hidden(edit, value) for value in _masks(edit, node))
    if inverted or padding_inverted:
        attributes.append(ir.AttrInt64("inverted", 1))
    inputs = [x, weight, bias, weight_2, bias_2, mask, padding]
    edit.replace(last, "MultiheadAttention", inputs, attributes, domain=DOMAIN, named_by=layer.projection)
    drop_unused(edit, [layer.last, layer.output, *reversed(layer.moves)])
    drop_unused(edit, [node, *reversed(layer.moves), layer.projection, *([before] if before is not None else [])])


def _find(edit: Edit, attention: ir.Node) -> _Layer | None:
    """The layer around an attention, if all axes go where they should."""
    chains = [moves_to(edit, value) for value in attention.inputs[:3]]
    if not all(chains):
        return None
    projection = made_by(edit, chains[0][0].inputs[0], "Linear", domain=DOMAIN)
    if projection is None or any(chain[0].inputs[0] is not projection.outputs[0] for chain in chains):
        return None
    shape, of_q = shape_of(projection.outputs[0]), shape_of(attention.inputs[0])
    if shape is None or of_q is None or len(shape) != 3:
        return None
    width, features = shape[-1], of_q[-1]
    if not isinstance(width, int) or not isinstance(features, int) or not features or width % (3 * features):
        return None
    if sorted(shape_of(projection.inputs[1]) or ()) != [width // 3, width]:
        return None
    heads = width // 3 // features
    sizes = {"first": shape[0], "second": shape[1], "part": 3, "head": heads, "feature": features}
    packed = Moved((("first",), ("second",), ("part", "head", "feature")), sizes)
    parts = [packed.after(chain, value) for chain, value in zip(chains, attention.inputs[:3], strict=True) if value]
    for batch, seq in (("first", "second"), ("second", "first")):
        axes: tuple[Axis, ...] = ((batch,), ("head",), (seq,), ("feature",))
        if len(of_q) == 3:
            axes = ((batch, "head"), (seq,), ("feature",))
        if parts != [Moved(axes, sizes, {"part": part}) for part in range(3)]:
            continue
        found = _output(edit, attention, Moved(axes, sizes), width // 3)
        if found is not None and (len(projection.inputs) > 2) == (len(found[0].inputs) > 2):
            moves = list({node: None for chain in chains for node in chain})
            output, last, joining = found
            return _Layer(projection, attention, output, last, [*moves, *joining], heads, batch == "first")
    return None


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
    names = [value.name or "" for value in layer.projection.inputs[1:] if value is not None]
    return not layer.is_batch_first or any(name.endswith(("in_proj_weight", "in_proj_bias")) for name in names)


def _is_closed(edit: Edit, layer: _Layer) -> bool:
    """Whether nobody else reads what the layer computes on the way, and its mask is one that it takes."""
    mask, padding = _masks(edit, layer.attention)
    value, _ = _hidden(edit, mask if padding is None else padding)
    producer = None if value is None else value.producer()
    if producer is not None and module_of(producer) == module_of(layer.projection) != "":
        return False  # the layer would have to compute its own mask
    if mask is not None and rank(mask) != 2:
        return False
    inside = {layer.attention, layer.output, *layer.moves}
    pending = [layer.projection, layer.attention, *layer.moves]
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

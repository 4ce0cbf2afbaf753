"""Attention between linear layers as `nn.MultiheadAttention` writes it.

    p = Linear(x, W, b)                        the packed projection to queries, keys and values
    q, k, v = three parts of p, in heads       Reshape, Transpose, Gather, Split, ... in any spelling
    Linear(heads joined(Attention(q, k, v, mask)), W2, b2)   ->   MultiheadAttention(x, x, x, W, b, W2, b2, mask)

and the Transposes to the layout with the sequence in front and back again, if all are there: `batch_first`. Where the
queries are projected from one value and the keys and values from others, each with its rows of W and b
(projections.py) or what the exporter made of these (projection_weights.py), these are what the layer is called with.
What the nodes in between do is compared axis by axis (moved_axes.py).

It applies if the parameters are named as in that class (`in_proj_weight`, `in_proj_bias`), or if the sequence is the
first axis, as that class alone has it: others keep their own projections. Projections with a weight each are only that
class's if, besides, it computes them and the attention itself, and no module inside it does. The masks are such as the
class takes (multihead_masks.py).

Not with another scale than PyTorch's default, with grouped heads, with a bias in only one of the projections, or if
somebody else reads a value in between. A bias of the last projection that is missing although `in_proj_bias` is there
was zero, and left out by the exporter: it is zero again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ..ir.node_view import Shape, shape_of
from ..passes import dead_code
from ..passes.common_subexpressions import module_of
from ..passes.edit import Edit, attribute, sweep
from ..passes.transposes import permutation
from .match import DOMAIN, drop_unused, is_private, made_by
from .moved_axes import MOVES, Axis, Moved, moves_to
from .multihead_masks import find_masks
from .projection_weights import IN_BIAS, arranged, is_packed, weights_of
from .projections import Projection, find_projection

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
    masks = find_masks(edit, node, layer.heads, module_of(layer.named_by))
    if masks is None:
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
    if masks.inverted:
        attributes.append(ir.AttrInt64("inverted", 1))
    weight_2, bias_2 = (*layer.output.inputs[1:], None)[:2]
    weights = weights_of(edit, layer.projections, _owner(weight_2, bias_2))
    if weights.bias is not None and bias_2 is None:
        bias_2 = _zeros(edit, weights.bias)
    inputs = [*sources, weights.weight, weights.bias, weight_2, bias_2, masks.by_query, masks.padding]
    inputs += [weights.key_weight, weights.value_weight]
    edit.replace(last, "MultiheadAttention", inputs, attributes, domain=DOMAIN, named_by=layer.named_by)
    drop_unused(edit, [layer.last, layer.output, *reversed(layer.moves)])
    turns = [turn for turn in dict.fromkeys(before) if turn is not None]
    drop_unused(edit, [node, *reversed(layer.moves), *layer.projecting, *turns])


def _owner(*values: ir.Value | None) -> str:
    """What the names of the layer's parameters begin with, by those of its last projection."""
    names = ((value.name or "").rpartition("out_proj.") for value in values if value is not None)
    return next((owner for owner, found, _ in names if found), "")


def _zeros(edit: Edit, bias: ir.Value) -> ir.Value:
    """The bias of the last projection of the layer that has this `in_proj_bias`."""
    tensor = bias.const_value
    assert tensor is not None
    name = (bias.name or "").removesuffix(IN_BIAS) + "out_proj.bias"
    return edit.constant(name, np.zeros(tensor.size // 3, tensor.dtype.numpy()))


def _find(edit: Edit, attention: ir.Node) -> _Layer | None:
    """The layer around an attention, if all axes go where they should."""
    chains = [moves_to(edit, value) for value in attention.inputs[:3]]
    found = [find_projection(edit, chain[0].inputs[0]) if chain else None for chain in chains]
    of_q = shape_of(attention.inputs[0])
    projections = arranged([projection for projection in found if projection is not None])
    if projections is None or of_q is None or not isinstance(of_q[-1], int):
        return None
    width, features = projections[0].columns, of_q[-1]
    if not features or width % features:
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
    return there or (projection.bias.name or "").endswith(IN_BIAS)


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
    if not is_packed(layer.projections):
        modules = {module_of(node) for node in (*layer.projecting, layer.attention, layer.output)}
        return not layer.is_batch_first and len(modules) == 1 and modules != {""}
    names = [value.name or "" for value in (packed.weight, packed.bias) if value is not None]
    return not layer.is_batch_first or any(name.endswith(("in_proj_weight", IN_BIAS)) for name in names)


def _is_closed(edit: Edit, layer: _Layer) -> bool:
    """Whether nobody else reads what the layer computes on the way."""
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


def _swaps(node: ir.Node) -> bool:
    return node.op_type == "Transpose" and list(permutation(node) or ()) == [1, 0, 2]

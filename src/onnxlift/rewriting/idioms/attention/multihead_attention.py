"""Attention between linear layers as `nn.MultiheadAttention` writes it is that layer.

    p = Linear(x, W, b)                        the packed projection to queries, keys and values
    q, k, v = three parts of p, in heads       Reshape, Transpose, Gather, Split, ... in any spelling
    Linear(heads joined(Attention(q, k, v, mask)), W2, b2)   ->   MultiheadAttention(x, x, x, W, b, W2, b2, mask)

The folder multihead has a file for each other option of the class: the weights that it returns (core.py), a sequence
without a batch and `batch_first` (layouts.py), masks (masks.py), and rows that it appends to keys and values (keys.py).
Queries, keys and values may be projected from different values. Each then has its rows of W and b (projections.py), or
constants that the exporter made of these (projection_weights.py), and the layer is called with the different values.
The nodes in between are compared axis by axis (parts/moved_axes.py).

It applies if the parameters are named as in that class (`in_proj_weight`, `in_proj_bias`), or if the sequence is the
first axis, which only that class does: other classes keep their own projections. Projections with a weight each need a
further condition: one and the same module computes them and the attention, and not the modules inside it.

Not with another scale than PyTorch's default, with grouped heads, with a bias in only one of the projections, or if
another node reads a value in between. If `in_proj_bias` is there but the last projection has no bias, the bias was zero
and the exporter left it out: it becomes zero again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.nodes import attribute, is_lifted
from onnxlift.ir.graph.shapes import Shape, shape_of
from onnxlift.ir.origin.module_paths import module_of
from onnxlift.rewriting.idioms.attention.multihead.core import Core, Returned, find_core, find_returned
from onnxlift.rewriting.idioms.attention.multihead.keys import Rows, bias_of, find_rows
from onnxlift.rewriting.idioms.attention.multihead.layouts import Layout, find_layouts, only_reader
from onnxlift.rewriting.idioms.attention.multihead.masks import AttentionSizes, Masks, find_masks
from onnxlift.rewriting.idioms.attention.multihead.projection_weights import arranged, is_named, is_packed, weights_of
from onnxlift.rewriting.idioms.attention.multihead.projections import Projection, find_projection
from onnxlift.rewriting.idioms.parts.moved_axes import MOVES, Axis, Moved, moves_to
from onnxlift.rewriting.idioms.parts.parameter_names import IN_BIAS, IN_WEIGHT
from onnxlift.rewriting.normal_form import dead_code
from onnxlift.stages import step

_MAX_REGION = 400
_MANY = 32
_ORDERS: tuple[tuple[str, str], ...] = (("seq", "batch"), ("batch", "seq"))


@step("multihead-attention", after={"attention": "it looks for an attention as one node"})
def run(model: ir.Model) -> int:
    """Recognise multi-head attention layers; return how many."""
    dead_code.run(model)  # unused nodes of a causal mask still read the sizes of the queries
    seen: set[ir.Node] = set()

    def visit(edit: Edit, node: ir.Node) -> None:
        seen.add(node)
        _visit(edit, node, seen)

    return sweep(model, visit)


@dataclass(frozen=True)
class _Layer:
    """A layer around an attention.

    `projected` are the results of the three projections, `parts` the same in heads. `output` is the last linear layer,
    and `joined` its input. `rows` are the rows that are appended to keys and values.
    """

    core: Core
    projections: list[Projection]
    projected: list[Moved]
    parts: list[Moved]
    rows: tuple[Rows, Rows]
    output: ir.Node
    joined: Moved
    heads: int
    is_batch_first: bool

    @property
    def named_by(self) -> ir.Node:
        return self.projections[0].nodes[-1]

    @property
    def modules(self) -> set[str]:
        """The modules in which the layer is computed."""
        nodes = [node for projection in self.projections for node in projection.nodes]
        return {module_of(node) for node in (*nodes, self.core.node, self.output)}

    @property
    def order(self) -> tuple[str, str]:
        return ("batch", "seq") if self.is_batch_first else ("seq", "batch")


@dataclass(frozen=True)
class _Call:
    """One call of a layer: its layout, its masks, and the weights that it returns."""

    layout: Layout
    masks: Masks
    returned: Returned | None

    @property
    def ends(self) -> list[ir.Node]:
        """The nodes that make the results of the layer."""
        return [self.layout.last, *([] if self.returned is None else [self.returned.node])]


def _visit(edit: Edit, node: ir.Node, seen: set[ir.Node]) -> None:
    core = find_core(edit, node)
    layer = None if core is None else _find(edit, core)
    if layer is None:
        return
    if not _is_named_so(layer):
        near_miss(node, "the parameters are not named as in nn.MultiheadAttention, nor is the sequence the first axis")
        return
    for layout in find_layouts(edit, _sources(layer), layer.output, layer.joined):
        call = _call(edit, layer, layout)
        inside = None if call is None else _inside(edit, layer, call)
        if call is not None and inside is not None and _is_read_later(edit, call.returned, seen, inside):
            seen.add(_write(edit, layer, call))
            drop_unused(edit, [*inside, *inside])  # twice, as nodes inside may read sizes of values inside
            return
    near_miss(node, "a mask does not fit the layer, or others read a value inside of it")


def _find(edit: Edit, core: Core) -> _Layer | None:
    """Return the layer around an attention, if all axes go where they should."""
    values = (core.q, core.k, core.v)
    chains = [moves_to(edit, value, "Concat") for value in values]
    found = [find_projection(edit, chain[0].inputs[0]) if chain else None for chain in chains]
    of_q = shape_of(core.q)
    projections = arranged([projection for projection in found if projection is not None])
    if projections is None or of_q is None or not isinstance(of_q[-1], int):
        return None
    width, features = projections[0].columns, of_q[-1]  # not 0 features, or the scale would not be PyTorch's
    shapes = [shape_of(chain[0].inputs[0]) for chain in chains]
    axes: tuple[Axis, ...] = (("batch",), ("head",), ("seq",), ("feature",))
    if len(of_q) == 3:
        axes = (("batch", "head"), ("seq",), ("feature",))
    turned = (*axes[:-2], axes[-1], axes[-2]) if core.has_keys_turned else axes
    for order in _ORDERS:
        packed = [_packed(shape, p, order, width, features) for shape, p in zip(shapes, projections, strict=True)]
        parts = [
            part
            for start, chain, value, at in zip(packed, chains, values, (axes, turned, axes), strict=True)
            if start is not None and (part := start.after(chain, value)) is not None and part.is_at(at)
        ]
        places = [p.start // width + part.taken.get("part", 0) for p, part in zip(projections, parts, strict=False)]
        starts = [start for start in packed if start is not None]
        if places != [0, 1, 2] or len({start.sizes["batch"] for start in starts}) != 1 or parts[0].appended:
            continue
        rows = [find_rows(edit, part) for part in parts[1:]]
        output = _output(edit, core.node, Moved(axes, parts[0].sizes), width)
        if None in rows or output is None or not _has_biases(projections[0], output[0]):
            continue
        of_k, of_v = (row for row in rows if row is not None)
        if (of_k.bias is None) != (of_v.bias is None) or of_k.has_zeros != of_v.has_zeros:
            continue
        return _Layer(core, projections, starts, parts, (of_k, of_v), *output, width // features, order[0] == "batch")
    near_miss(core.node, "the projections do not become heads, or these the result, as in nn.MultiheadAttention")
    return None


def _packed(
    shape: Shape | None, projection: Projection, order: tuple[str, str], width: int, features: int
) -> Moved | None:
    """Return the axes of a projected value: sequence and batch, then parts, heads and features in one."""
    if shape is None or len(shape) != 3:
        return None
    parts = projection.rows // width
    sizes = dict(
        zip((*order, "part", "head", "feature"), (*shape[:2], parts, width // features, features), strict=True)
    )
    packed: Axis = ("head", "feature") if parts == 1 else ("part", "head", "feature")
    return Moved(((order[0],), (order[1],), packed), sizes)


def _sources(layer: _Layer) -> list[tuple[ir.Value, Moved]]:
    """Return the values that are projected, with their axes."""
    axes = tuple((atom,) for atom in (*layer.order, "in"))
    pairs = zip(layer.projections, layer.projected, strict=True)
    return [(p.x, Moved(axes, {**moved.sizes, "in": p.columns})) for p, moved in pairs]


def _has_biases(projection: Projection, output: ir.Node) -> bool:
    """Tell whether all projections have a bias or none has; the last one may have lost it."""
    there = len(output.inputs) > 2
    if projection.bias is None:
        return not there
    return there or is_named(projection.bias, IN_BIAS)


def _output(edit: Edit, core: ir.Node, moved: Moved, width: int) -> tuple[ir.Node, Moved] | None:
    """Return the linear layer after the attention, and its input: the heads, joined again."""
    nodes: list[ir.Node] = []
    reader = only_reader(edit, core)
    while reader is not None and reader.op_type in MOVES:
        nodes.append(reader)
        reader = only_reader(edit, reader)
    if reader is None or not is_lifted(reader, "Linear") or not nodes:
        return None
    joined = moved.after(nodes, nodes[-1].outputs[0])
    shapes = [shape_of(value) for value in reader.inputs[1:]]
    if joined is None or shapes not in ([(width, width)], [(width, width), (width,)]):
        return None
    outer = tuple(atom for axis in joined.axes[:-1] for atom in axis)
    leaves = Moved((outer, joined.axes[-1]), {**joined.sizes, "out": width})
    fits = any(leaves.is_at((order, ("head", "feature"))) for order in _ORDERS)
    return (reader, Moved(joined.axes, leaves.sizes)) if fits else None


def _is_named_so(layer: _Layer) -> bool:
    packed = layer.projections[0]
    if not is_packed(layer.projections):
        is_told = layer.modules != {""} or str(layer.named_by.name).startswith("/")  # `/MatMul` is the model's own
        return not layer.is_batch_first and len(layer.modules) == 1 and is_told
    return not layer.is_batch_first or any(
        is_named(value, IN_WEIGHT, IN_BIAS) for value in (packed.weight, packed.bias)
    )


def _call(edit: Edit, layer: _Layer, layout: Layout) -> _Call | None:
    """Return the call of a layer in this layout; None if its masks or returned weights do not fit the layout."""
    core, rows = layer.core, layer.rows[0].count
    batch, queries, keys = layer.projected[0].sizes["batch"], *(moved.sizes["seq"] for moved in layer.projected[:2])
    sizes = AttentionSizes(batch, layer.heads, queries, keys, rows, layout.is_batched)
    masks = find_masks(edit, core, sizes, module_of(layer.named_by))
    if masks is None or (core.is_causal and queries != keys):
        return None
    if core.probabilities is None:
        return _Call(layout, masks, None)
    if core.is_causal and rows:
        return None  # only an attention that returns no weights counts these rows as later keys
    leading = (("batch",), ("head",)) if len(layer.parts[0].axes) == 4 else (("batch", "head"),)
    known = {"batch": layer.parts[0].sizes["batch"], "head": layer.heads}
    known |= {"query": layer.parts[0].sizes["seq"], "key": layer.parts[1].sizes["seq"]}
    axes: tuple[Axis, ...] = ((("batch",),) if layout.is_batched else ()) + (("query",), ("key",))
    returned = find_returned(edit, core, Moved((*leading, ("query",), ("key",)), known), axes)
    return None if returned is None else _Call(layout, masks, returned)


def _inside(edit: Edit, layer: _Layer, call: _Call) -> dict[ir.Node, None] | None:
    """Return the nodes that only serve to compute the results of the layer, each before those that make its inputs.

    Return None if a node of the layer is not among them, because another node reads its result. Sizes may be read
    elsewhere.
    """
    given = (*call.layout.sources, call.masks.by_query, call.masks.padding)
    outside = {value.producer() for value in given if value is not None}
    inside = dict.fromkeys(call.ends)
    pending = list(inside)
    while pending and len(inside) < _MAX_REGION:
        for value in pending.pop().inputs:
            node = None if value is None else value.producer()
            if node is None or node in inside:  # for speed
                continue
            if node in outside or node.graph is not edit.graph:
                continue
            if all(_is_read_by(edit, output, inside) for output in node.outputs):
                inside[node] = None
                pending.append(node)
    own = {node for projection in layer.projections for node in projection.nodes} | {layer.core.node, layer.output}
    return inside if own <= inside.keys() else None


def _is_read_by(edit: Edit, value: ir.Value, nodes: Collection[ir.Node]) -> bool:
    """Tell whether only these nodes read a value; others may read its size."""
    if value in edit.shared:  # for speed
        return False
    if edit.is_output(value):
        return False
    users = [user for user, _ in value.uses()]
    if len(users) > _MANY:
        edit.shared.add(value)
        return False
    return all(user in nodes or user.op_type == "Shape" for user in users)


def _is_read_later(
    edit: Edit, returned: Returned | None, seen: Collection[ir.Node], inside: Collection[ir.Node]
) -> bool:
    """Tell whether all readers of the returned weights come after the attention, where the layer will stand.

    It follows that the inputs of the layer do not depend on its weights either.
    """
    users = [] if returned is None else [user for user, _ in returned.value.uses() if user not in inside]
    return all(user.graph is edit.graph and user not in seen for user in users)


def _write(edit: Edit, layer: _Layer, call: _Call) -> ir.Node:
    core, layout, masks = layer.core, call.layout, call.masks
    flags = {
        "num_heads": layer.heads,
        "batch_first": layout.is_batch_first,
        "transposed": layer.projections[0].is_transposed,
        "output_transposed": attribute(layer.output, "transposed", 0),
        "is_causal": core.is_causal,
        "causal_mask": core.is_causal or masks.is_causal,
        "inverted": masks.inverted,
        "add_zero_attn": layer.rows[0].has_zeros,
        "need_weights": call.returned is not None,
        "average_attn_weights": call.returned is None or call.returned.is_averaged,
    }
    attributes = [ir.AttrInt64(name, int(flag)) for name, flag in flags.items()]
    if core.dropout is not None:
        attributes.append(core.dropout)
    weight_2, bias_2 = (*layer.output.inputs[1:], None)[:2]
    owner = _owner(weight_2, bias_2)
    weights = weights_of(edit, layer.projections, owner)
    if weights.bias is not None and bias_2 is None:
        bias_2 = _zeros(edit, weights.bias)
    by_query = None if masks.is_causal else masks.by_query
    inputs = [*layout.sources, weights.weight, weights.bias, weight_2, bias_2, by_query, masks.padding]
    inputs += [weights.key_weight, weights.value_weight]
    inputs += [bias_of(edit, rows, f"{owner}bias_{name}") for rows, name in zip(layer.rows, "kv", strict=True)]
    return edit.join(
        call.ends,
        "MultiheadAttention",
        inputs,
        attributes,
        before=core.node,
        domain=DOMAIN,
        named_by=layer.named_by,
    )


def _owner(*values: ir.Value | None) -> str:
    """Return the prefix of the names of the layer's parameters, found from those of its last projection."""
    names = (str(value.name).rpartition("out_proj.") for value in values if value is not None)
    return next((owner for owner, found, _ in names if found), "")


def _zeros(edit: Edit, bias: ir.Value) -> ir.Value:
    """Return a zero bias for the last projection of the layer with this `in_proj_bias`."""
    tensor = bias.const_value
    assert tensor is not None
    name = str(bias.name).removesuffix(IN_BIAS) + "out_proj.bias"
    return edit.constant(name, np.zeros(tensor.size // 3, tensor.dtype.numpy()))

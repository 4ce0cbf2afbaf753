"""Sizes that are needed outside a block are not read inside it.

    y = layer.0.norm(x); bias = table[: y.shape[1]]   ->   bias = table[: x.shape[1]]    if both are called `seq`

Exporters compute a bias or mask that all layers share in the first of them, from the sizes of whatever is to hand
there. Then neither could the layer be called before the bias is there, nor the bias be made before the layer is called.
A size that is read inside a block and used outside is therefore taken from a value that is there before, if inference
gave both the same name (equal names are equal sizes); what cannot be taken so stays, and the block is dissolved.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from ..ir.node_view import elements_of, shape_of
from ..passes.edit import initialiser
from .flow import SIZES
from .scopes import Path, Scopes


def read_sizes_outside(graph: ir.Graph, scopes: Scopes) -> None:
    """Reroute the sizes of the main graph, and remove what nobody reads any more."""
    shapes: dict[object, ir.Value] = {}  # what is known outside of all blocks, by its shape and by its elements
    elements: dict[object, ir.Value] = {}
    held_back: dict[ir.Node, None] = {}
    for value in graph.inputs:
        _remember(value, shapes, elements)
    for node in list(graph):
        waits = any(_is_inside(v, scopes, held_back) for v in node.inputs)
        if scopes.paths.get(node, ()) or (waits and not _is_size(node)):
            continue
        if waits and node.op_type in SIZES:
            same = shapes.get(_shape_key(node.inputs[0]))
            if same is not None:
                node.replace_input_with(0, same)
                waits = False
        for value in node.outputs if waits else ():
            same = elements.get(_elements_key(value)) or _measured(value, shapes, graph, node)
            if same is not None and not value.is_graph_output():
                for user, index in list(value.uses()):
                    user.replace_input_with(index, same)
        if waits:
            held_back[node] = None
        else:
            for value in node.outputs:
                _remember(value, shapes, elements)
    for node in reversed(held_back):
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            graph.remove(node, safe=True)
            scopes.paths.pop(node, None)


def _measured(value: ir.Value, shapes: Mapping[object, ir.Value], graph: ir.Graph, before: ir.Node) -> ir.Value | None:
    """A single size, read anew off a value that is there before the node `before`."""
    known = elements_of(value)
    if known is None or len(known) != 1 or not isinstance(known[0], str) or value.dtype != ir.DataType.INT64:
        return None
    for source in shapes.values():
        sizes = shape_of(source) or ()
        if known[0] in sizes:
            axis = np.array(sizes.index(known[0])).reshape([1] * len(value.shape or ()))
            index = initialiser(graph, f"{value.name}.axis", axis)
            shape = ir.node("Shape", [source])
            size = ir.node("Gather", [shape.outputs[0], index], {"axis": 0})
            shape.outputs[0].name, size.outputs[0].name = f"{value.name}.shape", f"{value.name}.outside"
            shape.outputs[0].meta["dims"], size.outputs[0].meta["dims"] = sizes, value.meta["dims"]
            for output, rank in ((shape.outputs[0], [len(sizes)]), (size.outputs[0], value.shape)):
                output.type, output.shape = value.type, ir.Shape(rank or [])
            graph.insert_before(before, [shape, size])
            return size.outputs[0]
    return None


def _is_inside(value: ir.Value | None, scopes: Scopes, held_back: dict[ir.Node, None]) -> bool:
    producer = value.producer() if value is not None else None
    return producer is not None and (producer in held_back or _block(producer, scopes) != ())


def _block(node: ir.Node, scopes: Scopes) -> Path:
    return scopes.paths.get(node, ())


def _is_size(node: ir.Node) -> bool:
    return node.op_type in SIZES or all("dims" in value.meta for value in node.outputs)


def _remember(value: ir.Value, shapes: dict[object, ir.Value], elements: dict[object, ir.Value]) -> None:
    for key, table in ((_shape_key(value), shapes), (_elements_key(value), elements)):
        if key is not None:
            table.setdefault(key, value)


def _shape_key(value: ir.Value | None) -> object:
    """Equal for values of equal shape; None if that is not known, or not open."""
    return shape_of(value)


def _elements_key(value: ir.Value) -> object:
    """Equal for sizes that are equal; None if they are not known."""
    known = elements_of(value)
    if known is None or None in known or value.shape is None:
        return None
    return known, value.dtype, len(value.shape)

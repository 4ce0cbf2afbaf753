"""Read sizes that are needed outside a block from values outside of it.

    y = layer.0.norm(x); bias = table[: y.shape[1]]   ->   bias = table[: x.shape[1]]    if both are called `seq`

Exporters compute a bias or mask that all layers share in the first of these layers, from the sizes of any value that is
there. Then the layer cannot be called before the bias is made, and the bias cannot be made before the layer is called.
So a size that is read inside a block and used outside is taken from a value that is there before, if inference gave
both sizes the same name (equal names are equal sizes). If there is no such value, the size stays, and the block is
dissolved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import initialiser
from onnxlift.ir.graph.shapes import elements_of, shape_of

from .flow import SIZES
from .paths import ModulePaths


def read_sizes_outside(graph: ir.Graph, paths: ModulePaths) -> None:
    """Let the nodes outside of blocks take sizes from values that are there before the blocks, and remove the nodes
    that nobody reads any more."""
    outside = _Outside()
    held_back: dict[ir.Node, None] = {}  # nodes outside of blocks that have to wait for one
    outside.add(graph.inputs)
    for node in list(graph):
        if paths.by_node.get(node, ()):
            continue
        waits = any(_is_inside(value, paths, held_back) for value in node.inputs)
        if not waits or _measures_other_value(node, outside):
            outside.add(node.outputs)
        elif _is_size(node):
            _take_sizes_from_outside(node, outside, graph)
            held_back[node] = None
    for node in reversed(held_back):
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            graph.remove(node, safe=True)
            paths.by_node.pop(node, None)


@dataclass
class _Outside:
    """The first value outside of all blocks for each shape, for each list of elements, and for each size on an axis."""

    shapes: dict[object, ir.Value] = field(default_factory=dict)
    elements: dict[object, ir.Value] = field(default_factory=dict)
    axes: dict[object, tuple[ir.Value, int]] = field(default_factory=dict)

    def add(self, values: Iterable[ir.Value]) -> None:
        """Note that these values are there from now on."""
        for value in values:
            shape, elements = shape_of(value), _elements_key(value)
            if shape is not None:
                self.shapes.setdefault(shape, value)
                for axis, size in enumerate(shape):
                    self.axes.setdefault(size, (value, axis))
            if elements is not None:
                self.elements.setdefault(elements, value)


def _measures_other_value(node: ir.Node, outside: _Outside) -> bool:
    """Let a node that reads the shape of a value in a block read it from a value outside that has the same shape. Tell
    whether there is one."""
    same = outside.shapes.get(shape_of(node.inputs[0])) if node.op_type in SIZES else None
    if same is not None:
        node.replace_input_with(0, same)
    return same is not None


def _take_sizes_from_outside(node: ir.Node, outside: _Outside, graph: ir.Graph) -> None:
    """Let the readers of a node's sizes read equal sizes from outside of the blocks, if there are any."""
    for value in node.outputs:
        same = outside.elements.get(_elements_key(value)) or _measured(value, outside, graph, node)
        if same is not None and not value.is_graph_output():
            for user, index in list(value.uses()):
                user.replace_input_with(index, same)


def _measured(value: ir.Value, outside: _Outside, graph: ir.Graph, before: ir.Node) -> ir.Value | None:
    """Insert nodes before `before` that read a single size from a value that is there by then. Return the size, or None
    if there is no such value."""
    known = elements_of(value)
    if known is None or len(known) != 1 or not isinstance(known[0], str) or value.dtype != ir.DataType.INT64:
        return None
    if known[0] not in outside.axes:
        return None
    source, axis = outside.axes[known[0]]
    index = initialiser(graph, f"{value.name}.axis", np.array(axis).reshape([1] * len(value.shape or ())))
    shape = ir.node("Shape", [source])
    size = ir.node("Gather", [shape.outputs[0], index], {"axis": 0})
    sizes = shape_of(source) or ()
    shape.outputs[0].name, size.outputs[0].name = f"{value.name}.shape", f"{value.name}.outside"
    shape.outputs[0].meta["dims"], size.outputs[0].meta["dims"] = sizes, value.meta["dims"]
    for output, own in ((shape.outputs[0], ir.Shape([len(sizes)])), (size.outputs[0], ir.Shape(value.shape or ()))):
        output.type, output.shape = value.type, own
    graph.insert_before(before, [shape, size])
    return size.outputs[0]


def _is_inside(value: ir.Value | None, paths: ModulePaths, held_back: dict[ir.Node, None]) -> bool:
    """Tell whether a value is made in a block, or has to wait for one."""
    producer = value.producer() if value is not None else None
    return producer is not None and (producer in held_back or bool(paths.by_node.get(producer)))


def _is_size(node: ir.Node) -> bool:
    return node.op_type in SIZES or all("dims" in value.meta for value in node.outputs)


def _elements_key(value: ir.Value) -> object:
    """Return a key that is the same for equal sizes; None if they are not known."""
    known = elements_of(value)
    if known is None or None in known or value.shape is None:
        return None
    return known, value.dtype, len(value.shape)

"""Infer nodes that hold graphs: If, Loop, Scan, and Gradient (see rewriting/normal_form/gradients.py).

The outputs of an If have what both branches agree on; if the condition is known, they have what the taken branch says.

The body of a loop is first inferred with the shapes that go into the first iteration. If an iteration changes a size,
that size gets a name of its own, which stands for the size at the start of an iteration, and the body is inferred once
more. If sizes still change then, the body is inferred with unknown shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxlift.ir.graph.shapes import elements_of, static_elements
from onnxlift.ir.graph.walk import opset_of, subgraphs

if TYPE_CHECKING:
    from .infer import Inference, TypeAndShape

_INT = ir.TensorType(ir.DataType.INT64)
_BOOL = ir.TensorType(ir.DataType.BOOL)


def infer(inference: Inference, node: ir.Node, opsets: Mapping[str, int], attributes: Mapping[str, ir.Attr]) -> None:
    """Set the types of everything inside the node's graphs, and of its outputs."""
    bodies = subgraphs(node)

    def sweep() -> None:
        for body in bodies:
            inference.sweep(body, opsets, attributes)

    standard = node.domain == ""
    found: Sequence[TypeAndShape] = []
    if standard and node.op_type == "If" and len(bodies) == 2:
        sweep()
        found = _if(inference, node)
    elif standard and node.op_type == "Loop" and len(bodies) == 1:
        found = _loop(inference, node, bodies[0], sweep)
    elif standard and node.op_type == "Scan" and len(bodies) == 1 and opset_of(node, opsets) >= 9:
        found = _scan(inference, node, bodies[0], sweep)
    elif node.op_type == "Gradient" and len(bodies) == 1:
        for value, given in zip(bodies[0].inputs, node.inputs, strict=False):
            inference.assign(value, *((None, None) if given is None else (given.type, given.shape)))
        sweep()
        found = [(None, None) if given is None else (given.type, given.shape) for given in node.inputs]
    else:
        for body in bodies:
            for value in body.inputs:
                inference.assign(value, None, None)
        sweep()
    for i, output in enumerate(node.outputs):
        inference.assign(output, *(found[i] if i < len(found) else (None, None)))


def _if(inference: Inference, node: ir.Node) -> list[TypeAndShape]:
    then, other = node.attributes["then_branch"].as_graph(), node.attributes["else_branch"].as_graph()
    condition = static_elements(node.inputs[0])
    if condition is not None and len(condition) == 1:
        taken = then if condition[0] else other
        return [(value.type, value.shape) for value in taken.outputs]
    return [
        (a.type, join_shapes(a.shape, b.shape, lambda _: inference.fresh())) if a.type == b.type else (None, None)
        for a, b in zip(then.outputs, other.outputs, strict=False)
    ]


def join_shapes(a: ir.Shape | None, b: ir.Shape | None, name: Callable[[object], str]) -> ir.Shape | None:
    """Return a shape that fits both: sizes that differ get the name that `name` gives for the pair of them.

    None if one of the shapes is unknown, or their ranks differ."""
    if a is None or b is None or len(a) != len(b):
        return None
    return ir.Shape([x if x == y else name((x, y)) for x, y in zip(a, b, strict=True)])


def _loop(inference: Inference, node: ir.Node, body: ir.Graph, sweep: Callable[[], None]) -> list[TypeAndShape]:
    carried = node.inputs[2:]
    count = len(carried)
    iteration, condition = body.inputs[:2]
    for value, type_ in ((iteration, _INT), (condition, _BOOL)):
        declared = inference.declared.get(value, (None, None))[1]
        inference.assign(value, type_, declared if declared is not None else ir.Shape(()))
    shapes = _settle(inference, carried, body.inputs[2:], body.outputs[1:], sweep)
    length = trip_count(node, body)
    final: list[TypeAndShape] = [(value.type, shape) for value, shape in zip(body.inputs[2:], shapes, strict=False)]
    stacked: list[TypeAndShape] = []
    for value in body.outputs[1 + count :]:
        dims = None if value.shape is None else [length if length is not None else inference.fresh(), *value.shape]
        stacked.append((value.type, None if dims is None else ir.Shape(dims)))
    return final + stacked


def trip_count(node: ir.Node, body: ir.Graph) -> int | str | None:
    """Return how often the body runs, if no condition can end the loop early; else None."""
    trips = elements_of(node.inputs[0])
    start = node.inputs[1]
    proceed = body.outputs[0]
    producer = proceed.producer()
    if producer is not None and producer.op_type == "Identity" and producer.inputs[0] is not None:
        proceed = producer.inputs[0]
    always = proceed is body.inputs[1] or static_elements(proceed) == (1,)
    if trips is None or len(trips) != 1 or not always or not (start is None or static_elements(start) == (1,)):
        return None
    return max(trips[0], 0) if isinstance(trips[0], int) else trips[0]


def _scan(inference: Inference, node: ir.Node, body: ir.Graph, sweep: Callable[[], None]) -> list[TypeAndShape]:
    scanned = node.attributes["num_scan_inputs"].as_int()
    count = len(node.inputs) - scanned
    axes = _axes(node, "scan_input_axes", scanned)
    length: int | ir.SymbolicDim | str | None = None
    for value, inner, axis in zip(node.inputs[count:], body.inputs[count:], axes, strict=True):
        shape = None if value is None else value.shape
        if value is None or shape is None or not -len(shape) <= axis < len(shape):
            inference.assign(inner, None if value is None else value.type, None)
            continue
        dims = list(shape)
        size = dims.pop(axis)
        length = size if length is None or isinstance(size, int) else length
        inference.assign(inner, value.type, ir.Shape(dims))
    shapes = _settle(inference, node.inputs[:count], body.inputs[:count], body.outputs, sweep)
    final: list[TypeAndShape] = [(value.type, shape) for value, shape in zip(body.inputs, shapes, strict=False)]
    outputs = body.outputs[count:]
    stacked: list[TypeAndShape] = []
    for value, axis in zip(outputs, _axes(node, "scan_output_axes", len(outputs)), strict=True):
        if value.shape is None or not -len(value.shape) - 1 <= axis <= len(value.shape):
            stacked.append((value.type, None))
            continue
        stacked_dims: list[int | ir.SymbolicDim | str] = list(value.shape)
        place = axis if axis >= 0 else axis + len(value.shape) + 1
        stacked_dims.insert(place, inference.fresh() if length is None else length)
        stacked.append((value.type, ir.Shape(stacked_dims)))
    return final + stacked


def _axes(node: ir.Node, name: str, count: int) -> Sequence[int]:
    return node.attributes[name].as_ints() if name in node.attributes else [0] * count


def _settle(
    inference: Inference,
    initial: Sequence[ir.Value | None],
    entering: Sequence[ir.Value],
    leaving: Sequence[ir.Value],
    sweep: Callable[[], None],
) -> list[ir.Shape | None]:
    """Infer a loop's body, and return the shapes of the carried values after the loop."""
    changing: set[str] = set()
    shapes = [None if value is None or inference.visits < 0 else value.shape for value in initial]
    for attempt in range(3):
        if attempt == 2:
            shapes = [None] * len(shapes)
        for value, outer, shape in zip(entering, initial, shapes, strict=False):
            inference.assign(value, None if outer is None else outer.type, shape)
        sweep()
        after = [value.shape for value in leaving[: len(shapes)]]
        widened = [_widen(inference, before, later, changing) for before, later in zip(shapes, after, strict=False)]
        if all(a is b for a, b in zip(shapes, widened, strict=False)):
            break
        shapes = widened
    return [
        None if shape is None else ir.Shape([inference.fresh() if dim in changing else dim for dim in shape])
        for shape in shapes
    ]


def _widen(
    inference: Inference, before: ir.Shape | None, after: ir.Shape | None, changing: set[str]
) -> ir.Shape | None:
    """Return `before` itself if an iteration keeps it, else a shape with new names for the sizes that change.

    The new names are added to `changing`. None if one of the shapes is unknown, or their ranks differ."""
    if before is None or after is None or len(before) != len(after):
        return None
    kept = [x == y or x in changing for x, y in zip(before, after, strict=True)]
    if all(kept):
        return before
    dims: list[int | ir.SymbolicDim | str] = []
    for dim, keep in zip(before, kept, strict=True):
        if keep:
            dims.append(dim)
        else:
            dims.append(inference.fresh())
            changing.add(str(dims[-1]))
    return ir.Shape(dims)

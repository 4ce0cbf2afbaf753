"""Draw a model node by node, as its file has it: operators, attributes, and the shapes of weights.

Subgraphs are drawn inside their nodes, and each function that the model defines once, below the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx_ir as ir

from onnxlift.ir.graph.schema import default_attributes, schema_for
from onnxlift.ir.graph.types import COMPLEX, DataType, shape_text, type_of
from onnxlift.ir.graph.walk import opset_of, subgraphs
from onnxlift.ir.reading.tensors import FileTensor
from onnxlift.rewriting.normal_form.constant_nodes import constant_tensor

from .families import family_of
from .modules import port_of
from .picture import CONTROL, FUNCTION, INPUT, NODE, OUTPUT, Box, Picture
from .scope import Scope

MOST_LINES = 6
MOST_NUMBERS = 6
_NOT_NUMBERS = COMPLEX | {DataType.STRING}
_SILENT = frozenset({"auto_pad", "body", "then_branch", "else_branch"})
Opsets = Mapping[str, int]
_LONGEST = 24  # elements of a list that are written


def draw_nodes(model: ir.Model, nodes: Sequence[ir.Node] | None = None) -> Picture:
    """Return the picture of a model's nodes, or of some of them with what goes in and out."""
    scope, opsets = Scope(), model.opset_imports
    if nodes is not None:
        _draw_some(scope, nodes, opsets)
        return scope.finished()
    for value in model.graph.inputs:
        if value.const_value is None:
            scope.add(_interface(INPUT, value), defines={value: port_of(value)})
    _draw_each(scope, model.graph, opsets)
    for value in model.graph.outputs:
        scope.add(_interface(OUTPUT, value), [value])
    for function in model.functions.values():
        _draw_function(scope, function, {**opsets, **function.opset_imports})
    return scope.finished()


def _draw_some(scope: Scope, nodes: Sequence[ir.Node], opsets: Opsets) -> None:
    made = {value for node in nodes for value in node.outputs}
    read = dict.fromkeys(value for node in nodes for value in _reads(node))
    for value in read:
        if value not in made and not _is_constant(value):
            scope.add(_interface(INPUT, value), defines={value: port_of(value)})
    inside = set(nodes)
    _draw_each(scope, nodes, opsets)
    for value in (value for node in nodes for value in node.outputs):
        if value.is_graph_output() or any(user not in inside for user, _ in value.uses()):
            scope.add(_interface(OUTPUT, value), [value])


def _draw_each(scope: Scope, nodes: Iterable[ir.Node], opsets: Opsets) -> None:
    for node in nodes:
        if node.op_type == "Constant" and node.domain == "":
            continue
        title = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        bodies = list(_named_subgraphs(node))
        name = "" if node.name == node.op_type else node.name or ""  # which would say it twice
        box = Box(CONTROL if bodies else NODE, title, name, family=family_of(node.op_type))
        box.lines = tuple(_lines(node, opset_of(node, opsets)))
        number = scope.add(box, (value for value in node.inputs if value is not None and not _is_constant(value)))
        if bodies:
            inner = Scope(scope, number)
            for name, graph in bodies:
                _draw_subgraph(inner, name, graph, opsets)
            box.inside = inner.finished()
        for value in node.outputs:
            if value.name:
                scope.define(value, number, port_of(value))


def _draw_subgraph(scope: Scope, name: str, graph: ir.Graph, opsets: Opsets) -> None:
    """Draw a branch, or the body of a loop, as a box of its own."""
    box = Box(CONTROL, name)
    number = scope.add(box)
    inner = Scope(scope, number)
    for value in graph.inputs:
        inner.add(_interface(INPUT, value), defines={value: port_of(value)})
    _draw_each(inner, graph, opsets)
    for value in graph.outputs:
        inner.add(_interface(OUTPUT, value), [value])
    box.inside = inner.finished()


def _draw_function(scope: Scope, function: ir.Function, opsets: Opsets) -> None:
    title = f"{function.domain}::{function.name}" if function.domain else function.name
    box = Box(FUNCTION, title, "function")
    scope.add(box)
    inner = Scope()
    for value in function.inputs:
        inner.add(_interface(INPUT, value), defines={value: port_of(value)})
    _draw_each(inner, function, opsets)
    for value in function.outputs:
        inner.add(_interface(OUTPUT, value), [value])
    box.inside = inner.finished()


def _interface(kind: str, value: ir.Value) -> Box:
    text = str(type_of(value))
    return Box(kind, value.name or "", lines=() if text == "? (?)" else (text,))


def _named_subgraphs(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    attributes = sorted(node.attributes.data.items(), key=lambda item: item[0] == "else_branch")  # it comes last
    for name, attribute in attributes:
        if attribute.type is ir.AttributeType.GRAPH and not attribute.is_ref():
            yield name, attribute.as_graph()
        elif attribute.type is ir.AttributeType.GRAPHS and not attribute.is_ref():
            yield from ((f"{name}[{i}]", graph) for i, graph in enumerate(attribute.as_graphs()))


def _reads(node: ir.Node) -> Iterator[ir.Value]:
    """Yield what a node reads, also inside its subgraphs from the graph around it."""
    yield from (value for value in node.inputs if value is not None)
    for graph in subgraphs(node):
        own = {*graph.inputs, *(value for each in graph for value in each.outputs)}
        for each in graph:
            yield from (value for value in _reads(each) if value not in own)


def _is_constant(value: ir.Value) -> bool:
    producer = value.producer()
    return value.const_value is not None or (producer is not None and producer.op_type == "Constant")


def _lines(node: ir.Node, opset: int) -> Iterator[str]:
    """Write the attributes of a node that are not at their defaults, and its weights: numbers if few, else shapes."""
    lines: list[str] = []
    usual = default_attributes(node.domain, node.op_type, opset)
    for name, attribute in node.attributes.data.items():
        if not attribute.is_ref() and usual.get(name) is not None and attribute.value == usual[name]:
            continue
        text = _attribute_text(attribute)
        if name == "to" and not attribute.is_ref():
            text = next((kind.name for kind in DataType if kind.value == attribute.value), text)
        if text and name not in _SILENT:
            lines.append(f"{name} = {text}")
    schema = schema_for(node.domain, node.op_type, opset)
    names = [] if schema is None else [each.name for each in schema.inputs]
    for place, value in enumerate(node.inputs):
        if value is not None and _is_constant(value):
            name = names[place] if place < len(names) else (value.name or "").rpartition("/")[2]
            lines.append(f"{name} {_constant_text(value)}")
    yield from lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        yield f"and {len(lines) - MOST_LINES} more"


def _attribute_text(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    match attribute.type:
        case ir.AttributeType.INT | ir.AttributeType.FLOAT | ir.AttributeType.STRING:
            value = attribute.value
            return f"{value:.6g}" if isinstance(value, float) else str(value)[:200]
        case ir.AttributeType.INTS | ir.AttributeType.FLOATS:
            items = [f"{item:.6g}" if isinstance(item, float) else str(item) for item in attribute.value[:_LONGEST]]
            return f"[{', '.join(items)}{', …' if len(attribute.value) > _LONGEST else ''}]"
        case ir.AttributeType.TENSOR:
            return f"tensor {shape_text(tuple(attribute.as_tensor().shape.numpy()))}"
    return ""


def _constant_text(value: ir.Value) -> str:
    """Write a constant: its numbers if they are few and in the file, else its shape."""
    kind, producer = type_of(value), value.producer()
    tensor = value.const_value if producer is None else constant_tensor(producer)
    is_few = kind.size is not None and kind.size <= MOST_NUMBERS and kind.dtype not in _NOT_NUMBERS
    if tensor is None or not is_few or (kind.rank or 0) > 1 or _is_absent(tensor):
        return shape_text(kind.shape)
    items = [f"{item:.6g}" if isinstance(item, float) else str(item) for item in tensor.numpy().reshape(-1).tolist()]
    return f"= {items[0]}" if kind.rank == 0 else f"= [{', '.join(items)}]"


def _is_absent(tensor: ir.TensorProtocol) -> bool:
    """Tell whether the numbers of a tensor are in a file that was not read."""
    return isinstance(tensor, FileTensor) and len(tensor.raw.view()) < tensor.raw.length

"""The graph of a model as readable text: a line for each node, indented graphs inside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.schema import default_attributes
from onnxlift.ir.graph.types import COMPLEX, FLOATS, type_of
from onnxlift.ir.graph.walk import Region, subgraphs
from onnxlift.ir.reading.tensors import FileTensor
from onnxlift.rewriting.normal_form.constant_nodes import constant_tensor
from onnxlift.terminal import plain, value_text
from onnxlift.workbench.modules import module_path
from onnxlift.workbench.numbers import type_name
from onnxlift.workbench.values import known_type, type_dict

MOST_SHOWN = 8
"""A constant with at most so many integers is shown by its value, and not by its name."""


@dataclass(frozen=True)
class NodeInfo:
    """One node. `constants` are the values of small constants that it reads, by name."""

    name: str
    operator: str
    module: str
    inputs: tuple[str, ...]
    """The names of its inputs; "" for one that is left out."""
    outputs: tuple[dict[str, Any], ...]
    attributes: dict[str, Any]
    defaults: tuple[str, ...] = ()
    """The attributes that might as well be left out."""
    constants: dict[str, Any] = field(default_factory=dict)
    graphs: tuple[GraphInfo, ...] = ()
    is_inline: bool = False
    """True for a small constant: its value stands where it is read, and a text needs no line for it."""

    def line(self) -> str:
        """Write the node as an assignment: outputs, operator, inputs, attributes that are no defaults, and types."""
        results = ", ".join(plain(each["name"]) or "_" for each in self.outputs)
        arguments = [self._argument(name) for name in self.inputs]
        arguments += [
            f"{plain(name)}={_attribute_text(name, value)}"
            for name, value in self.attributes.items()
            if name not in self.defaults
        ]
        types = ", ".join(map(type_text, self.outputs))
        named = f"  # {plain(self.name)}" if self._is_name_news() else ""
        return f"{results} = {plain(self.operator)}({', '.join(arguments)}) -> {types}{named}"

    def _argument(self, name: str) -> str:
        return value_text(self.constants[name]) if name in self.constants else plain(name) or "_"

    def _is_name_news(self) -> bool:
        """Tell whether the name of the node says more than its operator and the names of its outputs do."""
        is_counted = self.name.removeprefix(self.operator.rpartition("::")[2]).lstrip("_").isdecimal()
        return not is_counted and not any(each["name"].startswith(self.name) for each in self.outputs)


@dataclass(frozen=True)
class GraphInfo:
    """A graph: the main graph, the body of a function, or a graph that a node holds."""

    title: str
    inputs: tuple[dict[str, Any], ...]
    outputs: tuple[str, ...]
    nodes: tuple[NodeInfo, ...]

    def lines(self, indent: str = "  ") -> Iterator[str]:
        """Write the graph. A comment tells the module of the nodes that follow, where it changes."""
        taken = ", ".join(f"{plain(each['name'])}: {type_text(each)}" for each in self.inputs)
        yield f"{indent}{plain(self.title)} ({taken})"
        inside, module = f"{indent}  ", ""
        for node in self.nodes:
            if node.is_inline and node.outputs[0]["name"] not in self.outputs:
                continue
            if node.module != module:
                module = node.module
                yield f"{inside}# {plain(module) or 'no module'}"
            yield inside + node.line()
            for graph in node.graphs:
                yield from graph.lines(f"{inside}  ")
        yield f"{inside}return {', '.join(map(plain, self.outputs))}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def graph_info(title: str, region: Region, nodes: Iterable[ir.Node] | None = None) -> GraphInfo:
    """Describe the graph of a region, or only some of its nodes."""
    graph = region.graph
    return GraphInfo(
        title,
        tuple(map(value_dict, graph.inputs)),
        tuple(value.name or "" for value in graph.outputs),
        tuple(node_info(node, region) for node in (graph if nodes is None else nodes)),
    )


def node_info(node: ir.Node, region: Region) -> NodeInfo:
    """Describe a node of a region."""
    constants = {value.name: shown for value in node.inputs if value and (shown := _small(value)) is not None}
    attributes = {name: _attribute(each) for name, each in node.attributes.items() if each.type not in _GRAPHS}
    standard = default_attributes(node.domain, node.op_type, region.opset(node))
    outputs = list(node.outputs)
    while outputs and not outputs[-1].name:
        outputs.pop()
    return NodeInfo(
        node.name or "",
        operator(node),
        module_path(node),
        tuple("" if value is None else value.name or "" for value in node.inputs),
        tuple(map(value_dict, outputs)),
        attributes,
        tuple(name for name, value in attributes.items() if _is_default(name, value, standard)),
        {name or "": value for name, value in constants.items()},
        tuple(
            graph_info(name if len(bodies) == 1 else f"{name}[{place}]", replace(region, graph=body))
            for name, bodies in _bodies(node)
            for place, body in enumerate(bodies)
        ),
        is_standard(node, "Constant") and _small(node.outputs[0]) is not None,
    )


_IMPLIED = {"dilations": 1, "strides": 1, "pads": 0}
"""Lists whose elements all have this value, if the attribute is left out."""


def _is_default(name: str, value: Any, standard: Mapping[str, Any]) -> bool:
    if standard.get(name) is not None:
        return bool(standard[name] == (tuple(value) if isinstance(value, list) else value))
    return name in _IMPLIED and isinstance(value, list) and set(value) == {_IMPLIED[name]}


_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def _bodies(node: ir.Node) -> Iterator[tuple[str, list[ir.Graph]]]:
    if subgraphs(node):
        for name, attribute in node.attributes.items():
            if attribute.type is ir.AttributeType.GRAPH and not attribute.is_ref():
                yield name, [attribute.as_graph()]
            elif attribute.type is ir.AttributeType.GRAPHS and not attribute.is_ref():
                yield name, list(attribute.as_graphs())


def operator(node: ir.Node) -> str:
    """Return the name of a node's operator, with its domain if that is not ONNX's own."""
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def value_dict(value: ir.Value) -> dict[str, Any]:
    """Return name and type of a value as plain data."""
    return {"name": value.name or "", **type_dict(known_type(value))}


def _attribute_text(name: str, value: Any) -> str:
    """Write the value of an attribute. An element type, which ONNX writes as a number, has its name."""
    if name in ("to", "dtype", "output_dtype") and isinstance(value, int) and value in set(ir.DataType):
        return type_name(ir.DataType(value))
    return repr(value_text(value)) if isinstance(value, str) and not value.startswith("@") else value_text(value)


def type_text(value: dict[str, Any]) -> str:
    """Write the type of a value that `value_dict` describes."""
    sizes = "(?)" if value["shape"] is None else f"({', '.join(plain(str(_size(size))) for size in value['shape'])})"
    kind = "" if value["kind"] == "tensor" else f"{value['kind']} of "
    return f"{kind}{value['dtype'] or '?'} {sizes}"


def _size(size: int | str | None) -> int | str:
    return "?" if size is None else size


def has_numbers(tensor: ir.TensorProtocol) -> bool:
    """Tell whether the numbers of a tensor are there. Those in a file are not, if no file was looked for."""
    return not isinstance(tensor, FileTensor) or not tensor.raw.is_absent


def _small(value: ir.Value) -> Any:
    """Return the value of a constant that is a setting rather than a weight; None for all others."""
    maker = value.producer()
    is_node = maker is not None and is_standard(maker, "Constant")
    tensor = constant_tensor(maker) if is_node and maker is not None else constant(value)
    if tensor is None or not has_numbers(tensor) or tensor.size > MOST_SHOWN or tensor.dtype in COMPLEX:
        return None
    if tensor.dtype in FLOATS and type_of(value).rank:
        return None
    return _numbers(tensor)


def _numbers(tensor: ir.TensorProtocol) -> Any:
    """Return the numbers or texts of a tensor as plain data."""
    return _readable(tensor.numpy().tolist())


def _readable(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return [_readable(each) for each in value] if isinstance(value, list) else value


def _attribute(attribute: ir.Attr) -> Any:
    """Return the value of an attribute as plain data. Of a large tensor it is type and shape."""
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    if attribute.type is ir.AttributeType.TENSOR:
        return _tensor(attribute.as_tensor())
    if attribute.type is ir.AttributeType.TENSORS:
        return [_tensor(tensor) for tensor in attribute.as_tensors()]
    value = attribute.value
    if isinstance(value, tuple | list):
        return [_readable(each) if isinstance(each, bytes | str | int | float) else str(each) for each in value]
    return _readable(value) if isinstance(value, bytes | str | int | float) else str(value)


def _tensor(tensor: ir.TensorProtocol) -> Any:
    if tensor.size <= MOST_SHOWN and tensor.dtype not in COMPLEX and has_numbers(tensor):
        return _numbers(tensor)
    shape = ", ".join(map(str, tensor.shape.numpy()))
    return f"@{type_name(tensor.dtype)} ({shape})"

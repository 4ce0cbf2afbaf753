"""One module of a model: what goes in and out of it, what is in it, and what lies below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.graph.walk import inner_nodes
from onnxlift.terminal import plain
from onnxlift.workbench.modules import module_path
from onnxlift.workbench.values import reads

from .nodes import operator, type_text, value_dict


@dataclass(frozen=True)
class ChildInfo:
    """A module directly below another one."""

    name: str
    nodes: int
    parameters: int


@dataclass(frozen=True)
class ModuleInfo:
    """A module: the values that enter and leave it, its nodes and parameters, and the modules directly below it."""

    path: str
    nodes: int
    parameters: int
    inputs: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]
    operators: dict[str, int]
    children: tuple[ChildInfo, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Write the module."""
        lines = [
            f"module {plain(self.path)}",
            f"  nodes        {self.nodes:,}",
            f"  parameters   {self.parameters:,}",
        ]
        for title, values in (("inputs", self.inputs), ("outputs", self.outputs)):
            lines += [
                f"  {title if not place else '':11}  {plain(value['name'])}  {type_text(value)}"
                for place, value in enumerate(values)
            ]
        lines.append(
            f"  operators    {', '.join(f'{plain(name)} {count:,}' for name, count in self.operators.items())}"
        )
        width = max((len(plain(child.name)) for child in self.children), default=0)
        for place, child in enumerate(self.children):
            nodes = f"{child.nodes:,} node{'s' * (child.nodes != 1)}"
            weights = f", {child.parameters:,} parameters" if child.parameters else ""
            lines.append(f"  {'modules' if not place else '':11}  {plain(child.name):{width}}  {nodes}{weights}")
        return lines


def module_info(model: ir.Model, module: str, nodes: Sequence[ir.Node]) -> ModuleInfo:
    """Describe the module at a path, which has these nodes."""
    path = module.replace("/", ".").strip(".")
    inside = set(nodes)
    outputs = set(model.graph.outputs)
    entering = {
        value: None for node in nodes for value in reads(node) if value.producer() not in inside and _is_computed(value)
    }
    read = {value for node in model.graph if node not in inside for value in reads(node)}
    leaving = [value for node in nodes for value in node.outputs if value in outputs or value in read]
    below: dict[str, list[ir.Node]] = {}
    for node in nodes:
        rest = module_path(node).removeprefix(path).strip(".")
        if rest:
            below.setdefault(rest.partition(".")[0], []).append(node)
    return ModuleInfo(
        path,
        _count(nodes),
        _parameters(nodes),
        tuple(map(value_dict, entering)),
        tuple(map(value_dict, leaving)),
        dict(Counter(operator(node) for node in nodes).most_common()),
        tuple(ChildInfo(name, _count(own), _parameters(own)) for name, own in below.items()),
    )


def weights_of(nodes: Sequence[ir.Node]) -> set[ir.Value]:
    """Return the initialisers that nodes read, also inside the graphs that they hold."""
    every = (each for node in nodes for each in (node, *inner_nodes(node)))
    return {value for node in every for value in node.inputs if value is not None and constant(value) is not None}


def _is_computed(value: ir.Value) -> bool:
    return constant(value) is None


def _count(nodes: Sequence[ir.Node]) -> int:
    return sum(1 + sum(1 for _ in inner_nodes(node)) for node in nodes)


def _parameters(nodes: Sequence[ir.Node]) -> int:
    tensors = (constant(value) for value in weights_of(nodes))
    return sum(tensor.size for tensor in tensors if tensor is not None and tensor.dtype in FLOATS)

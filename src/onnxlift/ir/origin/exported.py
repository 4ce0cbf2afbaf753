"""The program that PyTorch's newer exporter made a graph of, as far as it is written beside the graph.

Each node tells the operation that it is a part of, with the names of its arguments, and the modules around it; the
graph tells all parameters. That is from before the exporter's optimiser, which stores equal tensors once and computes
equal things once: so a node tells what it read before. All of this is a stranger's text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from .metadata import CLASSES, FX_NODE, NAME_SCOPES, NO_MODULE, SIGNATURE, string_list

LONGEST_TEXT = 20_000  # of one operation

_STORED = re.compile(r"^(\w+): (PARAMETER|BUFFER) target='([^'\s]+)'", re.MULTILINE)
_PERSISTENT = re.compile(r"^\w+: BUFFER target='([^'\s]+)' persistent=True$", re.MULTILINE)
_OPERATION = re.compile(r"%(\w+) : [^=]*=[^=]*= call_function\[target=([\w.]+)\]")
_FUSED = frozenset({"Conv", "ConvTranspose", "Gemm"})  # which the exporter folds a norm into
_NAME = re.compile(r"%(\w+)")


@dataclass(frozen=True)
class Operation:
    """`%mul : ... = call_function[target=torch.ops.aten.mul.Tensor](args = (%x, %linear))`: mul, its target, and the
    names x and linear."""

    name: str
    target: str
    reads: tuple[str, ...]


@dataclass(frozen=True)
class Home:
    """The modules around a node, from the outermost to the innermost, and their classes."""

    modules: tuple[str, ...]
    classes: tuple[str, ...]


NOWHERE = Home((), ())


@dataclass
class Program:
    """What is known of a graph's nodes, each looked up when first asked for."""

    parameters: Mapping[str, str]  # the name in operations -> the name in the state dict
    _operations: dict[ir.Node, Operation | None] = field(default_factory=dict)
    _homes: dict[ir.Node, Home] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known_as = {name: known_as for known_as, name in self.parameters.items()}
        self.names = self.known_as.keys()

    def operation(self, node: ir.Node) -> Operation | None:
        """The operation that a node is a part of."""
        if node not in self._operations:
            self._operations[node] = _operation(node.metadata_props.get(FX_NODE, ""))
        return self._operations[node]

    def home(self, node: ir.Node) -> Home:
        """The modules around a node; those of its first reader if it does not tell itself."""
        if node not in self._homes:
            found = _home(node)
            if found is NOWHERE and FX_NODE not in node.metadata_props:
                readers = (reader for value in node.outputs for reader, _ in value.uses())
                found = next((home for reader in readers if (home := _home(reader)) is not NOWHERE), NOWHERE)
            self._homes[node] = found
        return self._homes[node]

    def parameters_of(self, node: ir.Node) -> list[str]:
        """The parameters that the operation of a node reads, by their names in the state dict."""
        operation = self.operation(node)
        reads = operation.reads if operation is not None else ()
        return [self.parameters[name] for name in reads if name in self.parameters]

    def own_name(self, node: ir.Node, name: str) -> str:
        """What the parameter that is stored as `name` was called where `node` reads it: as its operation says, or
        else as in the module that it is in; `name` itself if nothing is known. Of several parameters it is the one with
        the same last name, or that none of the other constants has. A layer that a batch norm was folded into tells of
        the norm, which is beside it."""
        read = self.parameters_of(node)
        if name in read:
            return name
        modules, last = self.home(node).modules, name.rpartition(".")[2]
        if self.is_fused(node):
            depth = modules[-2].count(".") + 1 if len(modules) > 1 and modules[-2] else 0
            read = [".".join((*modules[-2:-1], *name.split(".")[depth:]))] if depth else []
        elif not read and modules:
            read = [f"{modules[-1]}.{last}"]
        constants = (value.name or "" for value in node.inputs if value is not None and value.const_value is not None)
        others = {other.rpartition(".")[2] for other in constants if other != name}
        alike = [other for other in read if other.rpartition(".")[2] == last]
        alike = alike or [other for other in read if other.rpartition(".")[2] not in others]
        return alike[0] if len(alike) == 1 and alike[0] in self.names else name

    def is_fused(self, node: ir.Node) -> bool:
        """Whether a node is a layer that a batch norm was folded into."""
        operation = self.operation(node)
        return node.op_type in _FUSED and operation is not None and "norm" in operation.target


def read_program(graph: ir.Graph) -> Program | None:
    """What the newer exporter tells of `graph`; None if another one wrote it."""
    parameters = {known_as: name for known_as, _, name in _stored(graph)}
    return Program(parameters) if parameters else None


def parameters_in_order(graph: ir.Graph) -> list[str]:
    """The parameters of the model in the order in which its constructors made them; empty if the file has no list of
    them. (It has one of buffers, too, but those come after all parameters.)"""
    return [name for _, kind, name in _stored(graph) if kind == "PARAMETER"]


def state_names(graph: ir.Graph) -> set[str]:
    """The names of all parameters and buffers of the model; empty if the file has no list of them."""
    return {name for _, _, name in _stored(graph)}


def persistent_buffers(graph: ir.Graph) -> set[str]:
    """The buffers that are in the state dict of the model."""
    return set(_PERSISTENT.findall(graph.metadata_props.get(SIGNATURE, "")))


def kind_of(graph: ir.Graph, name: str) -> str:
    """PARAMETER or BUFFER, as which the model has what is called `name`."""
    return next((kind for _, kind, stored in _stored(graph) if stored == name), "PARAMETER")


def _stored(graph: ir.Graph) -> list[tuple[str, str, str]]:
    return _STORED.findall(graph.metadata_props.get(SIGNATURE, ""))


def _operation(text: str) -> Operation | None:
    match = _OPERATION.match(text) if len(text) <= LONGEST_TEXT else None
    return Operation(match[1], match[2], tuple(_NAME.findall(text, match.end()))) if match is not None else None


def _home(node: ir.Node) -> Home:
    modules, classes = (string_list(node.metadata_props.get(key)) for key in (NAME_SCOPES, CLASSES))
    if not modules or not classes or len(modules) != len(classes) or modules[0] == NO_MODULE:
        return NOWHERE
    return Home(tuple(modules[:-1]), tuple(classes[:-1]))  # the last one is the operation itself

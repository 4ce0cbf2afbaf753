"""Read what PyTorch's newer exporter notes beside a graph about the program that it exported.

The metadata of a node has the operation of PyTorch that the node is a part of, with the names of its arguments, and the
modules around it. The metadata of the graph lists all parameters. The exporter writes this before its optimiser runs,
which stores equal tensors once and computes equal things once. So the metadata tells what each node read before that.
All of it is text that anybody may have written, and is checked before use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from .metadata import CLASSES, FX_NODE, NAME_SCOPES, NO_MODULE, SIGNATURE, string_list

LONGEST_TEXT = 20_000  # characters in the text of one operation; a longer one is not read

_STORED = re.compile(r"^(\w+): (PARAMETER|BUFFER) target='([^'\s]+)'", re.MULTILINE)
_PERSISTENT = re.compile(r"^\w+: BUFFER target='([^'\s]+)' persistent=True$", re.MULTILINE)
_OPERATION = re.compile(r"%(\w+) : [^=]*=[^=]*= call_function\[target=([\w.]+)\]")
_FUSED = frozenset({"Conv", "ConvTranspose", "Gemm"})  # operators into which the exporter folds a batch norm
_NAME = re.compile(r"%(\w+)")


@dataclass(frozen=True)
class Operation:
    """An operation of the exported program: its name, its target, and the names of the values that it reads.

    `%mul : ... = call_function[target=torch.ops.aten.mul.Tensor](args = (%x, %linear))` has the name `mul`, the target
    `torch.ops.aten.mul.Tensor`, and reads `x` and `linear`."""

    name: str
    target: str
    reads: tuple[str, ...]


@dataclass(frozen=True)
class Home:
    """The paths of the modules around a node, from the outermost to the innermost, and their classes."""

    modules: tuple[str, ...]
    classes: tuple[str, ...]


NOWHERE = Home((), ())


@dataclass
class Program:
    """The exported program, as the metadata of a graph and its nodes tells it. Nodes are looked up when needed."""

    parameters: Mapping[str, str]  # name of a parameter or buffer in operations -> its key in the state dict
    _operations: dict[ir.Node, Operation | None] = field(default_factory=dict)
    _homes: dict[ir.Node, Home] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known_as = {name: known_as for known_as, name in self.parameters.items()}
        self.names = self.known_as.keys()

    def operation(self, node: ir.Node) -> Operation | None:
        """Return the operation that a node is a part of; None if the node does not tell."""
        if node not in self._operations:
            self._operations[node] = _operation(node.metadata_props.get(FX_NODE, ""))
        return self._operations[node]

    def home(self, node: ir.Node) -> Home:
        """Return the modules around a node.

        If the exporter has noted nothing about the node, these are the modules of the first reader that tells them."""
        if node not in self._homes:
            found = _home(node)
            if found is NOWHERE and FX_NODE not in node.metadata_props:
                readers = (reader for value in node.outputs for reader, _ in value.uses())
                found = next((home for reader in readers if (home := _home(reader)) is not NOWHERE), NOWHERE)
            self._homes[node] = found
        return self._homes[node]

    def parameters_of(self, node: ir.Node) -> list[str]:
        """Return the keys of the parameters and buffers that the operation of a node reads."""
        operation = self.operation(node)
        reads = operation.reads if operation is not None else ()
        return [self.parameters[name] for name in reads if name in self.parameters]

    def own_name(self, node: ir.Node, name: str) -> str:
        """Return the key of the parameter that `node` read in the original, where the file has the tensor `name`.

        The exporter stores equal parameters once, so that `name` may be the key of another one. The candidates are

        1. the parameters that the operation of `node` reads;
        2. if it reads none, the parameter in the innermost module around `node` whose key ends as `name` does;
        3. for a layer into which a batch norm was folded: its operation and modules are those of the norm. The layer is
           beside the norm, so the candidate is `name` with its first parts replaced by the path of the norm's parent.

        Of several candidates it is the one whose key ends as `name` does (`weight`), or else the one whose last part is
        not that of another constant of `node`. If this does not lead to one known parameter, `name` is returned."""
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

    def own_names(self, node: ir.Node, name: str, stored: tuple[str, ...]) -> tuple[str, ...]:
        """Return the keys of the parameters that `node` read in the original, where the file has a constant `name` with
        the numbers of the parameters `stored`.

        They are `stored` if the operation of `node` reads a result of that name. Otherwise each is judged alone; if
        several would be the same one, it is not that which the constant was computed from, and each of them is in the
        innermost module around `node`."""
        operation = self.operation(node)
        if operation is not None and name in operation.reads:
            return stored
        own = tuple(self.own_name(node, each) for each in stored)
        modules = self.home(node).modules
        if len({*own}) < len(stored) and modules:
            beside = [f"{modules[-1]}.{each.rpartition('.')[2]}" for each in stored]
            own = tuple(near if near in self.names else each for near, each in zip(beside, stored, strict=True))
        return own

    def is_fused(self, node: ir.Node) -> bool:
        """Tell whether a node is a layer that a batch norm was folded into."""
        operation = self.operation(node)
        return node.op_type in _FUSED and operation is not None and "norm" in operation.target


def read_program(graph: ir.Graph) -> Program | None:
    """Return the program that the newer exporter describes beside `graph`; None if the file lists no parameters."""
    parameters = {known_as: name for known_as, _, name in _stored(graph)}
    return Program(parameters) if parameters else None


def parameters_in_order(graph: ir.Graph) -> list[str]:
    """Return the keys of the parameters in the order in which the original's constructors made them.

    Empty if the file does not list them. (Buffers are listed too, but all of them come after the parameters, so that
    their place tells nothing.)"""
    return [name for _, kind, name in _stored(graph) if kind == "PARAMETER"]


def state_names(graph: ir.Graph) -> set[str]:
    """Return the keys of all parameters and buffers of the original; empty if the file does not list them."""
    return {name for _, _, name in _stored(graph)}


def persistent_buffers(graph: ir.Graph) -> set[str]:
    """Return the keys of the buffers that the file lists as persistent, which are in the original's state dict."""
    return set(_PERSISTENT.findall(graph.metadata_props.get(SIGNATURE, "")))


def kind_of(graph: ir.Graph, name: str) -> str:
    """Return "PARAMETER" or "BUFFER", as the file lists `name`; "PARAMETER" if it does not list it."""
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

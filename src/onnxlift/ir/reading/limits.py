"""What a model must satisfy before anything is done with it, told in terms of the file's own names.

Checked on the proto, before anything is expanded and without touching the weights. onnx's checker is not used: its full
check hangs on a 3 KB file of functions that call each other, it looks for external files by itself, and where it
does complain it rarely says which node is meant.
"""

from __future__ import annotations

import graphlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
from onnx import AttributeProto

from onnxlift.errors import LoadError
from onnxlift.ir.graph.nodes import plain_domain

from .protos import graphs_of

MAX_NESTING = 32
"""Subgraphs within subgraphs, and functions that call functions."""

MAX_NODES = 2_000_000
"""Nodes after every call of a model-local function is replaced by its body."""

OLDEST_IR_VERSION = 3

FunctionId = tuple[str, str, str]
"""Domain, name and overload of a model-local function."""


def quote(name: str | bytes) -> str:
    """A name from the model, fit for a message: quoted, without control characters, and not endless."""
    return repr(name) if len(name) <= 200 else f"{name[:150]!r}... ({len(name):,} characters)"


def _newest_opsets() -> dict[str, int]:
    newest: dict[str, int] = {}
    for domain, version in onnx.helper.OP_SET_ID_VERSION_MAP:
        newest[plain_domain(domain)] = max(version, newest.get(plain_domain(domain), 0))
    return newest


NEWEST_OPSET = _newest_opsets()
"""The newest opset that the installed onnx has schemas for, by domain."""

_ELEMENT_TYPES = frozenset(onnx.TensorProto.DataType.values())


def check_limits(model: onnx.ModelProto) -> None:
    """Raise LoadError unless the model is well formed and of a size that can be worked with."""
    _check_versions(model)
    _check_text("the model", model.producer_name, model.producer_version, model.domain, model.doc_string)
    _check_metadata("the model", model)
    functions = _functions(model)
    checker = _Body("the graph", _opsets(model.opset_import), functions)
    checker.graph(model.graph, [], nesting=0)
    bodies = {name: _function_body(name, function, functions) for name, function in functions.items()}
    _check_expansion(checker, bodies)


def function_title(function: FunctionId) -> str:
    domain, name, overload = function
    title = f"{domain or 'ai.onnx'}::{name}" + (f":{overload}" if overload else "")
    return title if title.isprintable() and len(title) <= 200 else quote(title)


def _check_versions(model: onnx.ModelProto) -> None:
    if not OLDEST_IR_VERSION <= model.ir_version <= onnx.IR_VERSION:
        age = "newer" if model.ir_version > onnx.IR_VERSION else "older"
        raise LoadError(
            f"the model has ONNX IR version {model.ir_version}, {age} than onnxlift reads: the installed onnx "
            f"{onnx.__version__} knows versions {OLDEST_IR_VERSION} to {onnx.IR_VERSION}. "
            + ("Update the onnx package." if age == "newer" else "Convert it with a newer onnx first.")
        )


def _functions(model: onnx.ModelProto) -> dict[FunctionId, onnx.FunctionProto]:
    functions: dict[FunctionId, onnx.FunctionProto] = {}
    for function in model.functions:
        name = (plain_domain(function.domain), function.name, function.overload)
        _check_text("a function", *name, function.doc_string)
        _check_metadata("a function", function)
        if not function.name:
            raise LoadError("the model has a function without a name.")
        if name in functions:
            raise LoadError(f"function {function_title(name)} is defined twice.")
        functions[name] = function
    return functions


def _function_body(
    name: FunctionId, function: onnx.FunctionProto, functions: dict[FunctionId, onnx.FunctionProto]
) -> _Body:
    body = _Body(f"function {function_title(name)}", _opsets(function.opset_import), functions, is_function=True)
    _check_text(body.title, *function.attribute)
    defined: set[str] = set()
    body.define(function.input, defined, "input")
    body.nodes(function.node, [defined], nesting=0)
    for output in function.output:
        if output not in defined:
            raise LoadError(f"output {quote(output)} of {body.title} is produced by no node.")
    for attribute in function.attribute_proto:
        body.attribute(attribute, body.title, [defined], nesting=0)
    return body


def _opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    opsets: dict[str, int] = {}
    for entry in imports:
        _check_text("an opset import", entry.domain)
        domain, version = plain_domain(entry.domain), entry.version
        if opsets.setdefault(domain, version) != version:
            raise LoadError(
                f"opsets {opsets[domain]} and {version} of domain {quote(domain or 'ai.onnx')} are both imported."
            )
        newest = NEWEST_OPSET.get(domain)
        if newest is not None and not 1 <= version <= newest:
            raise LoadError(
                f"the model imports opset {version} of domain {quote(domain or 'ai.onnx')}; the installed onnx "
                f"{onnx.__version__} knows opsets 1 to {newest}. "
                + ("Update the onnx package." if version > newest else "The file is damaged.")
            )
    return opsets


@dataclass
class _Body:
    """The graph or one function: checks it with all its subgraphs, and counts nodes and calls on the way."""

    title: str
    opsets: dict[str, int]
    functions: dict[FunctionId, onnx.FunctionProto]
    is_function: bool = False
    own_nodes: int = 0
    calls: Counter[FunctionId] = field(default_factory=Counter)

    def graph(self, graph: onnx.GraphProto, outer: list[set[str]], nesting: int) -> None:
        if nesting > MAX_NESTING:
            raise LoadError(f"subgraphs are nested more than {MAX_NESTING} deep in {self.title}.")
        _check_text("a graph", graph.name, graph.doc_string)
        _check_metadata("a graph", graph)
        defined: set[str] = set()
        self.define((value.name for value in graph.input), defined, "input")
        constants: set[str] = set()
        self.define((tensor.name for tensor in graph.initializer), constants, "initialiser")
        self.define((tensor.values.name for tensor in graph.sparse_initializer), constants, "initialiser")
        defined |= constants
        scopes = [*outer, defined]
        self.nodes(graph.node, scopes, nesting)
        for value in (*graph.input, *graph.output):
            _check_text("a value", value.name, value.doc_string)
            _check_type(value.name, value.type)
        for value in graph.output:
            if not any(value.name in scope for scope in scopes):
                raise LoadError(f"output {quote(value.name)} of graph {quote(graph.name)} is produced by no node.")

    def define(self, names: Iterable[str], defined: set[str], what: str) -> None:
        for name in names:
            _check_text(f"an {what} of {self.title}", name)
            if not name:
                raise LoadError(f"{self.title} has an {what} without a name.")
            if name in defined:
                raise LoadError(f"{self.title} has two {what}s named {quote(name)}.")
            defined.add(name)

    def nodes(self, nodes: Sequence[onnx.NodeProto], scopes: list[set[str]], nesting: int) -> None:
        # All outputs first: the nodes may be in any order, they are sorted later.
        defined = scopes[-1]
        for index, node in enumerate(nodes):
            for output in node.output:
                if isinstance(output, bytes):
                    raise LoadError(f"{_title(node, index)} has an output whose name is not valid UTF-8.")
                if output in defined and output:
                    raise LoadError(f"{_title(node, index)} defines value {quote(output)}, which is already defined.")
                defined.add(output)
        defined.discard("")
        for index, node in enumerate(nodes):
            self.node(node, index, scopes, nesting)

    def node(self, node: onnx.NodeProto, index: int, scopes: list[set[str]], nesting: int) -> None:
        title = _title(node, index)
        _check_text(title, node.name, node.op_type, node.domain, node.overload, node.doc_string)
        _check_metadata(title, node)
        if not node.op_type:
            raise LoadError(f"{title} names no operator.")
        for name in node.input:
            if name and not any(name in scope for scope in reversed(scopes)):
                raise LoadError(
                    f"{title} reads value {quote(name)}, which no input, initialiser or node of {self.title} defines."
                )
        domain = plain_domain(node.domain)
        function = (domain, node.op_type, node.overload)
        if function in self.functions:
            self.calls[function] += 1
        else:
            self.own_nodes += 1
            if domain in NEWEST_OPSET and domain not in self.opsets:
                raise LoadError(
                    f"{title} is of domain {quote(domain or 'ai.onnx')}, of which {self.title} imports no opset. "
                    "The file is damaged, or was written without opset_import."
                )
        seen: set[str] = set()
        for attribute in node.attribute:
            if attribute.name in seen:
                raise LoadError(f"{title} has two attributes {quote(attribute.name)}.")
            seen.add(attribute.name)
            self.attribute(attribute, title, scopes, nesting)

    def attribute(self, attribute: AttributeProto, owner: str, scopes: list[set[str]], nesting: int) -> None:
        _check_text(owner, attribute.name, attribute.ref_attr_name)
        what = f"attribute {quote(attribute.name)} of {owner}"
        if attribute.type == AttributeProto.UNDEFINED:
            raise LoadError(f"{what} is of a type that this onnx does not know.")
        if attribute.ref_attr_name and not self.is_function:
            raise LoadError(f"{what} refers to the attribute of a function, but is not inside one.")
        for graph in graphs_of(attribute):
            self.graph(graph, scopes, nesting + 1)


def _check_expansion(main: _Body, bodies: dict[FunctionId, _Body]) -> None:
    """Functions must not call themselves, nor each other so often that the whole could never be written down."""
    try:
        order = list(graphlib.TopologicalSorter({name: body.calls for name, body in bodies.items()}).static_order())
    except graphlib.CycleError as error:
        cycle = " -> ".join(function_title(name) for name in error.args[1][:10])
        raise LoadError(f"the model's functions call each other in a circle, which ONNX forbids: {cycle}.") from error
    size: dict[FunctionId, int] = {}
    depth: dict[FunctionId, int] = {}
    for name in order:  # callees come first
        body = bodies[name]
        size[name] = body.own_nodes + sum(size[callee] * count for callee, count in body.calls.items())
        depth[name] = 1 + max((depth[callee] for callee in body.calls), default=0)
        if depth[name] > MAX_NESTING:
            raise LoadError(f"calls of functions are nested more than {MAX_NESTING} deep in {body.title}.")
    total = main.own_nodes + sum(size[callee] * count for callee, count in main.calls.items())
    # Functions that are never called count as well: later stages look at each of them.
    largest = max((total, *size.values()))
    if largest > MAX_NODES:
        raise LoadError(f"the model has {largest:,} nodes once its functions are expanded; the limit is {MAX_NODES:,}.")


def _check_type(name: str, type_: onnx.TypeProto) -> None:
    while (kind := type_.WhichOneof("value")) in {"sequence_type", "optional_type"}:
        type_ = getattr(type_, kind).elem_type
    if kind in {"tensor_type", "sparse_tensor_type"}:
        element = getattr(type_, kind).elem_type
        if element not in _ELEMENT_TYPES:
            raise LoadError(f"value {quote(name)} has element type {element}, which this onnx does not know.")


def _check_text(owner: str, *texts: str | bytes) -> None:
    # protobuf hands over a string that is not UTF-8 as bytes.
    for text in texts:
        if isinstance(text, bytes):
            raise LoadError(f"{owner} has a name or text that is not valid UTF-8: {text[:40]!r}.")


def _check_metadata(owner: str, message: Any) -> None:
    for entry in message.metadata_props:
        _check_text(owner, entry.key, entry.value)


def _title(node: onnx.NodeProto, index: int) -> str:
    plain = isinstance(node.op_type, str) and node.op_type.isidentifier() and len(node.op_type) <= 200
    operator = node.op_type if plain else quote(node.op_type)
    return f"node {quote(node.name)} ({operator})" if node.name else f"node number {index} ({operator})"

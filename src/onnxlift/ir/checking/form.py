"""Check the form of a model: names, opsets, attributes, element types, texts and nesting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto

from onnxlift.errors import LoadError, quote
from onnxlift.ir.graph.functions import FunctionId, function_title
from onnxlift.ir.graph.nodes import plain_domain
from onnxlift.ir.reading.draft import Contents, Draft
from onnxlift.ir.reading.protos import graphs_of
from onnxlift.stages import step

MAX_NESTING = 32
"""How deep subgraphs may be nested in subgraphs, and calls of functions in functions."""


def _newest_opsets() -> dict[str, int]:
    newest: dict[str, int] = {}
    for domain, version in onnx.helper.OP_SET_ID_VERSION_MAP:
        newest[plain_domain(domain)] = max(version, newest.get(plain_domain(domain), 0))
    return newest


NEWEST_OPSET = _newest_opsets()
"""The newest opset that the installed onnx has schemas for, by domain."""

_ELEMENT_TYPES = frozenset(onnx.TensorProto.DataType.values())


@step("form", optional=False, after={"versions": "how a file is read depends on its versions"})
def check_form(draft: Draft) -> int:
    """Check that every name is defined once, that every value that is read exists, and that texts are UTF-8."""
    model = draft.proto
    _check_text("the model", model.producer_name, model.producer_version, model.domain, model.doc_string)
    _check_metadata("the model", model)
    functions = _functions(model)
    body = FormChecker(Contents("the graph"), _opsets(model.opset_import), functions)
    body.graph(model.graph, [], nesting=0)
    draft.contents = body.contents
    draft.functions = {name: _check_function(name, function, functions) for name, function in functions.items()}
    return 0


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


def _check_function(
    name: FunctionId, function: onnx.FunctionProto, functions: dict[FunctionId, onnx.FunctionProto]
) -> Contents:
    contents = Contents(f"function {function_title(name)}")
    body = FormChecker(contents, _opsets(function.opset_import), functions, is_function=True)
    _check_text(body.title, *function.attribute)
    defined: set[str] = set()
    body.define(function.input, defined, "input")
    body.nodes(function.node, [defined], nesting=0)
    for output in function.output:
        if output not in defined:
            raise LoadError(f"output {quote(output)} of {body.title} is produced by no node.")
    for attribute in function.attribute_proto:
        body.attribute(attribute, body.title, [defined], nesting=0)
    return contents


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
class FormChecker:
    """The main graph or one function with all its subgraphs, while it is checked. Counts nodes and calls on the way."""

    contents: Contents
    opsets: dict[str, int]
    functions: dict[FunctionId, onnx.FunctionProto]
    is_function: bool = False

    @property
    def title(self) -> str:
        return self.contents.title

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
        # Collect all outputs first: the nodes may be in any order, and are sorted later.
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
            self.contents.calls[function] += 1
        else:
            self.contents.own_nodes += 1
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

"""Check the form of a model: names, opsets, attributes, element types, texts and nesting.

`RULES` lists what is checked. Everything that breaks a rule is found before the model is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
from onnx import AttributeProto

from onnxlift.errors import Finding, InvalidModelError, LoadError, quote
from onnxlift.ir.graph.functions import FunctionId, function_title
from onnxlift.ir.graph.nodes import plain_domain
from onnxlift.ir.reading.draft import Contents, Draft
from onnxlift.ir.reading.protos import graphs_of
from onnxlift.stages import step

from .declared import Declared

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

_RULES = (
    Declared("OL001", "text-encoding", "Names and texts are valid UTF-8."),
    Declared("OL002", "opset-import", "Each domain is imported once, in an opset that the installed onnx knows."),
    Declared("OL003", "opset-missing", "The opset of each domain of ONNX that a node is of is imported."),
    Declared("OL004", "function-name", "Each function has a name, and no two have the same."),
    Declared(
        "OL005",
        "value-name",
        "Each input, initialiser and output of a node has a name that nothing else of its graph has.",
    ),
    Declared("OL006", "value-defined", "Each value that is read, or is an output, is defined somewhere."),
    Declared("OL007", "value-type", "Each declared element type is one that ONNX has."),
    Declared("OL008", "graph-outputs", "The model has an output."),
    Declared(
        "OL009", "branch-inputs", "What a branch of an If declares as an input is a value of the graph around it."
    ),
    Declared("OL010", "operator-name", "Each node names its operator."),
    Declared("OL011", "attribute-unique", "A node has each attribute once."),
    Declared(
        "OL012",
        "attribute-form",
        "Each attribute is of a type that ONNX has; only those in a function refer to its attributes.",
    ),
)
RULES: Mapping[str, Declared] = {each.name: each for each in _RULES}
"""The rules on the form of a file, by name."""

MOST_FINDINGS = 1000
"""After so many, the rest of the model is not looked at."""


@step("form", optional=False, after={"versions": "how a file is read depends on its versions"})
def check_form(draft: Draft) -> int:
    """Check that every name is defined once, that every value that is read exists, and that texts are UTF-8."""
    model = draft.proto
    findings = Findings()
    findings.check_text("the model", model.producer_name, model.producer_version, model.domain, model.doc_string)
    findings.check_metadata("the model", model)
    functions = _functions(model, findings)
    body = FormChecker(Contents("the graph"), _opsets(model.opset_import, findings), functions, findings)
    body.graph(model.graph, [], nesting=0)
    if not model.graph.output:
        findings.add("graph-outputs", "the graph", "it has no outputs, so that there is nothing to compute.")
    draft.contents = body.contents
    draft.functions = {name: _check_function(name, each, functions, findings) for name, each in functions.items()}
    findings.refuse()
    return 0


class Findings:
    """What breaks a rule on the form, as it is found."""

    def __init__(self) -> None:
        self.found: list[Finding] = []

    def add(self, rule: str, place: str, text: str) -> None:
        assert rule in RULES, rule
        self.found.append(Finding(rule, place, text))
        if len(self.found) >= MOST_FINDINGS:
            self.refuse()

    def refuse(self) -> None:
        """Raise an error with everything that was found, if there is anything."""
        if self.found:
            raise InvalidModelError(self.found)

    def check_text(self, owner: str, *texts: str | bytes) -> None:
        # protobuf hands over a string that is not UTF-8 as bytes.
        for text in texts:
            if isinstance(text, bytes):
                self.add("text-encoding", owner, f"it has a name or text that is not valid UTF-8: {text[:40]!r}.")

    def check_metadata(self, owner: str, message: Any) -> None:
        for entry in message.metadata_props:
            self.check_text(owner, entry.key, entry.value)

    def check_type(self, name: str, type_: onnx.TypeProto) -> None:
        while (kind := type_.WhichOneof("value")) in {"sequence_type", "optional_type", "map_type"}:
            type_ = type_.map_type.value_type if kind == "map_type" else getattr(type_, kind).elem_type
        if kind in {"tensor_type", "sparse_tensor_type"}:
            element = getattr(type_, kind).elem_type
            if element not in _ELEMENT_TYPES:
                text = f"it has element type {element}, which this onnx does not know."
                self.add("value-type", f"value {quote(name)}", text)


def _functions(model: onnx.ModelProto, findings: Findings) -> dict[FunctionId, onnx.FunctionProto]:
    functions: dict[FunctionId, onnx.FunctionProto] = {}
    for function in model.functions:
        findings.check_text("a function", function.domain, function.name, function.overload, function.doc_string)
        findings.check_metadata("a function", function)
        name = (plain_domain(function.domain), function.name, function.overload)
        if not function.name:
            findings.add("function-name", "the model", "it has a function without a name.")
        if name in functions:
            findings.add("function-name", f"function {function_title(name)}", "it is defined twice.")
        functions[name] = function
    return functions


def _check_function(
    name: FunctionId,
    function: onnx.FunctionProto,
    functions: dict[FunctionId, onnx.FunctionProto],
    findings: Findings,
) -> Contents:
    contents = Contents(f"function {function_title(name)}")
    body = FormChecker(contents, _opsets(function.opset_import, findings), functions, findings, is_function=True)
    findings.check_text(body.title, *function.attribute)
    defined: set[str] = set()
    body.define(function.input, defined, "input")
    body.nodes(function.node, [defined], nesting=0)
    for output in function.output:
        if output not in defined:
            findings.add("value-defined", body.title, f"its output {quote(output)} is produced by no node.")
    for attribute in function.attribute_proto:
        body.attribute(attribute, body.title, [defined], nesting=0)
    return contents


def _opsets(imports: Iterable[onnx.OperatorSetIdProto], findings: Findings) -> dict[str, int]:
    opsets: dict[str, int] = {}
    for entry in imports:
        findings.check_text("an opset import", entry.domain)
        domain, version = plain_domain(entry.domain), entry.version
        title = f"domain {quote(domain or 'ai.onnx')}"
        if opsets.setdefault(domain, version) != version:
            findings.add("opset-import", title, f"its opsets {opsets[domain]} and {version} are both imported.")
        newest = NEWEST_OPSET.get(domain)
        if newest is not None and not 1 <= version <= newest:
            advice = "Update the onnx package." if version > newest else "The file is damaged."
            text = f"the model imports its opset {version}; the installed onnx {onnx.__version__} knows 1 to {newest}."
            findings.add("opset-import", title, f"{text} {advice}")
    return opsets


@dataclass
class FormChecker:
    """The main graph or one function with all its subgraphs, while it is checked. Counts nodes and calls on the way."""

    contents: Contents
    opsets: dict[str, int]
    functions: dict[FunctionId, onnx.FunctionProto]
    findings: Findings = field(default_factory=Findings)
    is_function: bool = False

    @property
    def title(self) -> str:
        return self.contents.title

    def graph(self, graph: onnx.GraphProto, outer: list[set[str]], nesting: int, *, captures: bool = False) -> None:
        """Check a graph. If it `captures`, its inputs stand for values of the same name in the graphs around it."""
        if nesting > MAX_NESTING:
            raise LoadError(f"subgraphs are nested more than {MAX_NESTING} deep in {self.title}.")
        self.findings.check_text("a graph", graph.name, graph.doc_string)
        self.findings.check_metadata("a graph", graph)
        defined: set[str] = set()
        if captures:
            self.captures(graph, outer)
        else:
            self.define((value.name for value in graph.input), defined, "input")
        constants: set[str] = set()
        self.define((tensor.name for tensor in graph.initializer), constants, "initialiser")
        self.define((tensor.values.name for tensor in graph.sparse_initializer), constants, "initialiser")
        defined |= constants
        scopes = [*outer, defined]
        self.nodes(graph.node, scopes, nesting)
        for value in (*graph.input, *graph.output):
            self.findings.check_text("a value", value.name, value.doc_string)
            self.findings.check_type(value.name, value.type)
        for value in graph.output:
            if not any(value.name in scope for scope in scopes):
                text = f"its output {quote(value.name)} is produced by no node."
                self.findings.add("value-defined", f"graph {quote(graph.name)}", text)

    def captures(self, graph: onnx.GraphProto, outer: list[set[str]]) -> None:
        """Check that the inputs of a branch are values around it. Some exporters declare what a branch reads so."""
        constants = {tensor.name for tensor in graph.initializer}
        for value in graph.input:
            if value.name not in constants and not any(value.name in scope for scope in outer):
                text = f"its branch {quote(graph.name)} takes input {quote(value.name)}, and an If passes none."
                self.findings.add("branch-inputs", self.title, text)

    def define(self, names: Iterable[str], defined: set[str], what: str) -> None:
        for name in names:
            self.findings.check_text(f"an {what} of {self.title}", name)
            if not name:
                self.findings.add("value-name", self.title, f"it has an {what} without a name.")
            if name in defined:
                self.findings.add("value-name", self.title, f"it has two {what}s named {quote(name)}.")
            defined.add(name)

    def nodes(self, nodes: Sequence[onnx.NodeProto], scopes: list[set[str]], nesting: int) -> None:
        # Collect all outputs first: the nodes may be in any order, and are sorted later.
        defined = scopes[-1]
        for index, node in enumerate(nodes):
            for output in node.output:
                if isinstance(output, bytes):
                    self.findings.check_text(_title(node, index), output)
                elif output in defined and output:
                    text = f"it defines value {quote(output)}, which is already defined."
                    self.findings.add("value-name", _title(node, index), text)
                defined.add(output)
        defined.discard("")
        for index, node in enumerate(nodes):
            self.node(node, index, scopes, nesting)

    def node(self, node: onnx.NodeProto, index: int, scopes: list[set[str]], nesting: int) -> None:
        title = _title(node, index)
        self.findings.check_text(title, node.name, node.op_type, node.domain, node.overload, node.doc_string)
        self.findings.check_metadata(title, node)
        if not node.op_type:
            self.findings.add("operator-name", title, "it names no operator.")
        for name in node.input:
            if name and not any(name in scope for scope in reversed(scopes)):
                text = f"it reads value {quote(name)}, which no input, initialiser or node of {self.title} defines."
                self.findings.add("value-defined", title, text)
        domain = plain_domain(node.domain)
        function = (domain, node.op_type, node.overload)
        if function in self.functions:
            self.contents.calls[function] += 1
        else:
            self.contents.own_nodes += 1
            if domain in NEWEST_OPSET and domain not in self.opsets:
                text = (
                    f"it is of domain {quote(domain or 'ai.onnx')}, of which {self.title} imports no opset. "
                    "The file is damaged, or was written without opset_import."
                )
                self.findings.add("opset-missing", title, text)
        seen: set[str] = set()
        captures = node.op_type == "If" and domain == ""
        for attribute in node.attribute:
            if attribute.name in seen:
                text = f"it has two attributes {quote(attribute.name)}."
                self.findings.add("attribute-unique", title, text)
            seen.add(attribute.name)
            self.attribute(attribute, title, scopes, nesting, captures=captures)

    def attribute(
        self, attribute: AttributeProto, owner: str, scopes: list[set[str]], nesting: int, *, captures: bool = False
    ) -> None:
        self.findings.check_text(owner, attribute.name, attribute.ref_attr_name)
        what = f"attribute {quote(attribute.name)}"
        if attribute.type == AttributeProto.UNDEFINED:
            self.findings.add("attribute-form", owner, f"its {what} is of a type that this onnx does not know.")
        if attribute.ref_attr_name and not self.is_function:
            text = f"its {what} refers to the attribute of a function, but is not inside one."
            self.findings.add("attribute-form", owner, text)
        for graph in graphs_of(attribute):
            self.graph(graph, scopes, nesting + 1, captures=captures)


def _title(node: onnx.NodeProto, index: int) -> str:
    plain = isinstance(node.op_type, str) and node.op_type.isidentifier() and len(node.op_type) <= 200
    operator = node.op_type if plain else quote(node.op_type)
    return f"node {quote(node.name)} ({operator})" if node.name else f"node number {index} ({operator})"

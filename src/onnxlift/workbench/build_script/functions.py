"""Functions of the model, as Python functions with `@build.function`."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.functions import function_title
from onnxlift.ir.graph.walk import all_nodes
from onnxlift.lifting.code.identifiers import unique

from .calls import Calls
from .constants import Constants
from .graphs import Callees, Reader
from .literals import float_text, is_name, quoted, text_literal, typed_text
from .names import RESERVED, Names
from .weights import WeightStore
from .writer import Writer

_ANNOTATIONS = {
    ir.AttributeType.INT: "int",
    ir.AttributeType.FLOAT: "float",
    ir.AttributeType.STRING: "str",
    ir.AttributeType.INTS: "list[int]",
    ir.AttributeType.FLOATS: "list[float]",
    ir.AttributeType.STRINGS: "list[str]",
    ir.AttributeType.TENSOR: "np.ndarray",
}


def in_order(functions: Mapping[ir.OperatorIdentifier, ir.Function]) -> Iterator[ir.Function]:
    """Yield functions, each after those that it calls. The reading stage has refused those that call themselves."""
    done: set[ir.Function] = set()
    for first in functions.values():
        waiting = [first]
        while waiting:
            function = waiting[-1]
            callees = [
                functions[key] for node in all_nodes(function.graph) if (key := node.op_identifier()) in functions
            ]
            missing = [each for each in callees if each not in done and each not in waiting]
            if missing:
                waiting.extend(missing[:1])
                continue
            waiting.pop()
            if function not in done:
                done.add(function)
                yield function


class FunctionCalls(Calls):
    """Writes the nodes of a function, where attributes of the function have names: those of its parameters."""

    known: frozenset[str] = frozenset()

    def reference(self, name: str) -> str:
        if name not in self.known:
            raise OnnxLiftError(f"attribute {quote(name)} is referred to in a function that does not declare it.")
        return name


def function_lines(
    function: ir.Function, name: str, model: ir.Model, callees: Callees, writer: Writer, store: WeightStore, least: int
) -> list[str]:
    """Return the text of a function. Its calls give at least `least` inputs."""
    title = function_title(function.identifier())
    attributes = _attributes(function, title)
    constants = FunctionConstants()
    for node in all_nodes(function.graph):
        constants.note(node)
    opsets = {**model.opset_imports, **function.opset_imports}
    calls = FunctionCalls(constants, store.add, types_known=False)
    calls.known = frozenset(function.attributes)
    reader = Reader(calls, opsets, callees)
    statements, kept = reader.statements(function.graph)
    taken = set(RESERVED | writer.taken | {text.partition(":")[0] for text in attributes})
    parameters: list[tuple[ir.Value, str]] = []
    written: list[str] = []
    for index, value in enumerate(function.inputs):
        own = value.name or ""
        if not is_name(own) or keyword.issoftkeyword(own):
            own = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in own).strip("_")
            own = own if own and not own[0].isdigit() and not keyword.iskeyword(own) else f"x_{own}".rstrip("_")
        parameter = unique(own[:60], taken)
        taken.add(parameter)
        parameters.append((value, parameter))
        written.append(parameter if index < least else f"{parameter}=None")
    more = [*written, *(["*", *attributes] if attributes else [])]

    def named_constants(names: Names) -> list[str]:
        lines: list[str] = []
        for attribute in attributes:
            names.outer |= {attribute.partition(":")[0]}
        for value in constants.named(function.graph):
            tensor = constants.tensor(value)
            assert tensor is not None
            key = store.add(f"{function.name}.{value.name or 'constant'}", tensor)
            variable = names.take(value, "constant", -1, 10**9)
            lines.append(f"{variable} = build.constant(weights.tensor({quoted(key)}), name={quoted(key)})")
        return lines

    text = writer.function(name, parameters, more, statements, function.outputs, named_constants, constants, kept)
    return ["", "", _decorator(function, name, model), *text]


class FunctionConstants(Constants):
    """The constants of a function: those that are no literals are made at its beginning."""

    def named(self, graph: ir.Graph) -> list[ir.Value]:
        """Return the constants that stand in variables."""
        read = dict.fromkeys(value for node in all_nodes(graph) for value in node.inputs if value is not None)
        read |= dict.fromkeys(graph.outputs)
        return [value for value in read if self.is_constant(value) and not self.is_inline(value)]


def _decorator(function: ir.Function, name: str, model: ir.Model) -> str:
    arguments = [f"domain={quoted(function.domain)}"]
    if name != function.name:
        arguments.append(f"name={quoted(function.name)}")
    version = model.opset_imports.get(function.domain, 1)
    if version != 1:
        arguments.append(f"version={version}")
    own = dict(function.opset_imports)
    opset = own.pop("", None)
    if opset is not None and opset != model.opset_imports.get(""):
        arguments.append(f"opset={opset}")
    if own:
        domains = ", ".join(f"{quoted(domain)}: {number}" for domain, number in own.items())
        arguments.append(f"domains={{{domains}}}")
    return f"@build.function({', '.join(arguments)})"


def _attributes(function: ir.Function, title: str) -> list[str]:
    """Return the attributes of a function as parameters: `axis: int`, `alpha: float = 1.0`."""
    kinds = {
        attribute.ref_attr_name: attribute.type
        for node in all_nodes(function.graph)
        for attribute in node.attributes.values()
        if attribute.is_ref()
    }
    found: list[str] = []
    for name, attribute in function.attributes.items():
        kind = attribute.type if attribute.value is not None else kinds.get(name, ir.AttributeType.INT)
        if kind not in _ANNOTATIONS or not is_name(name) or name in RESERVED:
            raise OnnxLiftError(
                f"function {title} has an attribute {quote(name)} of kind {kind.name}, which the builder has no way to "
                "write."
            )
        default = "" if attribute.value is None else f" = {_default(attribute)}"
        found.append(f"{name}: {_ANNOTATIONS[kind]}{default}")
    return found


def _default(attribute: ir.Attr) -> str:
    value, kinds = attribute.value, ir.AttributeType
    match attribute.type:
        case kinds.INT:
            return str(int(value))
        case kinds.FLOAT:
            return float_text(float(value))
        case kinds.STRING:
            return text_literal(value)
        case kinds.TENSOR:
            return typed_text(value)
        case kinds.INTS:
            return f"({', '.join(str(int(each)) for each in value)},)"
        case kinds.FLOATS:
            return f"({', '.join(float_text(float(each)) for each in value)},)"
    return f"({', '.join(map(text_literal, value))},)"

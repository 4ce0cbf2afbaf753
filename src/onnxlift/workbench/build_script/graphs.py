"""Graphs as statements: each node a call, and the bodies of control flow as Python functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.walk import opset_of

from .calls import Calls, standard_signature
from .code import Code, LocalFunction, Part, Read, Statement, joined
from .customs import Customs
from .literals import argument_text, quoted
from .paths import path_of


@dataclass
class Callees:
    """What is called by name: functions of the model, and operators that have to be declared."""

    functions: Mapping[ir.Function, str]
    by_id: Mapping[ir.OperatorIdentifier, ir.Function]
    customs: Customs


@dataclass
class Reader:
    """Reads the graphs of one region: the main graph, or the body of a function."""

    calls: Calls
    opsets: Mapping[str, int]
    callees: Callees
    dead: list[ir.Value] = field(default_factory=list)

    def statements(self, graph: ir.Graph) -> tuple[list[Statement], list[ir.Value]]:
        """Return the statements of a graph, and the values of nodes that nothing reads."""
        found: list[Statement] = []
        kept: list[ir.Value] = []
        for node in graph:
            if self._is_constant(node):
                continue
            statement = self._statement(node)
            found.append(statement)
            if not any(_is_used(value) for value in node.outputs):
                kept.extend(value for value in statement.targets[:1] if value is not None)
        return found, kept

    def _is_constant(self, node: ir.Node) -> bool:
        return is_standard(node, "Constant") and self.calls.constants.is_constant(node.outputs[0])

    def _statement(self, node: ir.Node) -> Statement:
        version = opset_of(node, self.opsets)
        function = self.callees.by_id.get(node.op_identifier())
        if function is not None:
            return self._of_function(node, function)
        if standard_signature(node, version) is None:
            return self._custom(node, version)
        control = _CONTROL.get(node.op_type) if not node.domain else None
        if control is not None:
            code = control(self, node, version)
            if code is not None:
                return _made(node, code, len(node.outputs) > 1, len(node.outputs))
        bodies = {
            name: self._generic(attribute.as_graph(), name)
            for name, attribute in node.attributes.items()
            if attribute.type is ir.AttributeType.GRAPH and not attribute.is_ref()
        }
        code, unpacks, count = self.calls.call(node, version, bodies)
        return _made(node, code, unpacks, count)

    # what is called by name

    def _of_function(self, node: ir.Node, function: ir.Function) -> Statement:
        arguments = [self.calls.operand(value) for value in node.inputs]
        arguments += [[text] for text in self.calls.attributes(node, 1, None)]
        code = Code((f"{self.callees.functions[function]}(", *joined(arguments), ")"))
        count = len(function.outputs)
        if len(node.outputs) != count:
            raise OnnxLiftError(
                f"node {quote(node.name or '')} takes {len(node.outputs)} outputs of a function that gives {count}, "
                "which the builder has no way to write."
            )
        return _made(node, code, count > 1, count)

    def _custom(self, node: ir.Node, version: int) -> Statement:
        arguments = [self.calls.operand(value) for value in node.inputs]
        arguments += [[text] for text in self.calls.attributes(node, version, None)]
        name, is_alike = self.callees.customs.declared(node)
        count = len(node.outputs)
        if not is_alike:
            arguments.append([f"outputs={count}"])
        return _made(node, Code((f"{name}(", *joined(arguments), ")")), count > 1 or not is_alike, count)

    # control flow

    def _body(self, graph: ir.Graph, hint: str, parameters: list[ir.Value]) -> LocalFunction:
        statements, kept = self.statements(graph)
        return LocalFunction(hint, parameters, statements, list(graph.outputs), kept)

    def _generic(self, graph: ir.Graph, name: str) -> list[Part]:
        """Return a body with nothing added to it."""
        likes: list[list[Part]] = [[_like(value, index)] for index, value in enumerate(graph.inputs)]
        return ["build.body(", *joined([[self._body(graph, name, list(graph.inputs))], *likes]), ")"]

    def _makes_outputs(self, graph: ir.Graph, outputs: list[ir.Value]) -> bool:
        """Tell whether all outputs are made by nodes of this graph, each once: then the builder adds nothing."""
        inside, constants = set(graph), self.calls.constants
        return len(set(outputs)) == len(outputs) and all(
            constants.is_inline(value) if constants.is_constant(value) else value.producer() in inside
            for value in outputs
        )

    def if_(self, node: ir.Node, version: int) -> Code | None:
        """Write an If as build.if_."""
        graphs = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        if not all(self._makes_outputs(graph, list(graph.outputs)) for graph in graphs):
            return None
        if any(a.type != b.type for a, b in zip(graphs[0].outputs, graphs[1].outputs, strict=False)):
            return None
        condition = self.calls.operand(node.inputs[0])
        if not isinstance(condition[0], Read):
            return None
        bodies: list[list[Part]] = [
            [self._body(graph, hint, [])] for graph, hint in zip(graphs, ("then", "otherwise"), strict=True)
        ]
        return Code(("build.if_(", *joined([condition, *bodies]), ")"))

    def loop(self, node: ir.Node, version: int) -> Code | None:
        """Write a Loop as build.loop."""
        graph = node.attributes["body"].as_graph()
        inputs = [*node.inputs, *[None] * (2 - len(node.inputs))]
        trips, going, carried = inputs[0], inputs[1], inputs[2:]
        outputs = list(graph.outputs)
        if len(graph.inputs) != 2 + len(carried) or not outputs or any(value is None for value in carried):
            return None
        if not _same_types(carried, graph.inputs[2:], self.calls):
            return None
        flag = graph.inputs[1]
        hidden: ir.Node | None = None
        if going is None:
            hidden = outputs[0].producer()
            passes = hidden is not None and is_standard(hidden, "Identity") and hidden.inputs[0] is flag
            if (
                not passes
                or trips is None
                or len(flag.uses()) != 1
                or len(outputs[0].uses())
                or outputs[0] in outputs[1:]
            ):
                return None
            outputs = outputs[1:]
        elif flag.uses() or flag in outputs:
            return None
        if not self._makes_outputs(graph, outputs):
            return None
        body = self._body(graph, "body", [graph.inputs[0], *graph.inputs[2:]])
        body.results = outputs
        if hidden is not None:
            body.statements = [each for each in body.statements if each.node is not hidden]
        arguments: list[list[Part]] = [
            self.calls.operand(trips, ir.DataType.INT64),
            self.calls.operand(going, ir.DataType.BOOL),
            [body],
            *(self.calls.operand(value) for value in carried),
        ]
        return Code(("build.loop(", *joined(arguments), ")"))

    def scan(self, node: ir.Node, version: int) -> Code | None:
        """Write a Scan as build.scan."""
        if version < 9:
            return None
        graph = node.attributes["body"].as_graph()
        count = node.attributes["num_scan_inputs"].as_int()
        carried, scanned = list(node.inputs[: len(node.inputs) - count]), list(node.inputs[len(node.inputs) - count :])
        if any(value is None for value in node.inputs) or not self._makes_outputs(graph, list(graph.outputs)):
            return None
        if not _same_types(carried, graph.inputs, self.calls) or any(
            shape_of(each) is None for each in scanned if each
        ):
            return None
        body = self._body(graph, "body", list(graph.inputs))
        states = joined([self.calls.operand(value) for value in carried])
        elements = joined([self.calls.operand(value) for value in scanned])
        arguments: list[list[Part]] = [[body], ["[", *states, "]"], ["[", *elements, "]"]]
        for key, name, words in _SCAN:
            attribute = node.attributes.get(key)
            if attribute is None:
                continue
            numbers = [int(each) for each in attribute.as_ints()]
            if not numbers:
                return None  # build.scan takes one for each, or none at all
            texts = [quoted(("forward", "reverse")[each]) if words else str(each) for each in numbers]
            arguments.append([f"{name}=[{', '.join(texts)}]"])
        return Code(("build.scan(", *joined(arguments), ")"))


_CONTROL = {"If": Reader.if_, "Loop": Reader.loop, "Scan": Reader.scan}
_SCAN = (
    ("scan_input_axes", "axes", False),
    ("scan_input_directions", "directions", True),
    ("scan_output_axes", "output_axes", False),
    ("scan_output_directions", "output_directions", True),
)


def _made(node: ir.Node, code: Code, unpacks: bool, count: int) -> Statement:
    none = not any(_is_used(value) for value in node.outputs)  # then the first one tells what is kept
    targets = tuple(
        value if _is_used(value) or (none and index == 0) else None for index, value in enumerate(node.outputs[:count])
    )
    return Statement(targets, code, node, path_of(node), unpacks)


def _is_used(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _same_types(outer: Sequence[ir.Value | None], inner: Sequence[ir.Value], calls: Calls) -> bool:
    """Tell whether arguments of a body are no wider than what they begin with, as the builder takes them to be."""
    for a, b in zip(outer, inner, strict=False):
        if a is None or (a.type is not None and b.type is not None and a.type != b.type):
            return False
        if calls.types_known and shape_of(a) != shape_of(b):
            return False
    return True


def _like(value: ir.Value, index: int) -> str:
    """Return an input of the type that an argument of a body has."""
    proto = ir.serde.serialize_value(value)
    type_ = proto.type
    name = quoted(f"argument_{index}")
    return f"build.input({name}, {argument_text(type_) if type_.WhichOneof('value') else 'None'})"

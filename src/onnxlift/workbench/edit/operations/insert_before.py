"""`insert_before`: put a new node in front of an input of a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxlift.errors import OnnxLiftError, quote

from ..addresses import find_node, input_index
from ..arguments import make_node, new_name
from ..edited import EditedModel
from ..fields import Plain
from ..operation import Operation
from ..operators import find_operator, import_domain, operator_of


@dataclass(frozen=True)
class InsertBefore(Operation):
    """Put a new node in front of a node: it reads what the node read, and only this node reads its output.

    `at` is the input of the node: its position, or its name in the operator's definition. All else is as with
    `insert_after`: `m.insert_before("conv1", "Mul", 0.5, at="X")`. Returns the name of the new value."""

    node: str
    operator: str
    inputs: tuple[Plain, ...] = ()
    at: int | str = 0
    name: str | None = None
    output: str | None = None
    inside: str | None = None
    arguments: Mapping[str, Plain] = field(default_factory=dict)

    def apply(self, model: EditedModel) -> str:
        body, reader = find_node(model, self.node, self.inside)
        operator = find_operator(model, body, self.operator)
        own = operator_of(model, body, reader)
        index = input_index(reader, self.at, own.slot, own.inputs)
        if index >= len(reader.input) or not reader.input[index]:
            raise OnnxLiftError(f"node {quote(reader.name)} ({reader.op_type}) has no input {self.at!r} to insert at.")
        value = reader.input[index]
        name = new_name(model, body, self.name, f"{value}_{operator.name}")
        result = self.output or model.fresh(body, f"{value}_{operator.name}")
        model.check_free(body, result)
        node = make_node(model, body, operator, name, values=[value], inputs=self.inputs, arguments=self.arguments)
        model.touch(body, *reader.output)
        node.output[:] = [result, *("" for _ in range(operator.outputs - 1))]
        reader.input[index] = result
        body.proto.node.insert(body.position(reader), node)
        import_domain(model, body, operator)
        return result

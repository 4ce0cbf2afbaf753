"""`insert_after`: put a new node behind a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxlift.errors import OnnxLiftError, quote

from ..addresses import find_value
from ..arguments import make_node, new_name
from ..edited import EditedModel
from ..fields import Plain
from ..operation import Operation
from ..operators import find_operator, import_domain


@dataclass(frozen=True)
class InsertAfter(Operation):
    """Put a new node behind a value: it reads the value, and all that read the value before read its output.

    `inputs` are further inputs: names of values, or numbers. `arguments` are inputs and attributes by their names in
    the operator's definition: `m.insert_after("hidden", "Clip", min=0.0, max=6.0)`. An output of the model keeps its
    name: then the value itself gets another one. `name` and `output` are names for the new node and its output. Returns
    the name of the output."""

    value: str
    operator: str
    inputs: tuple[Plain, ...] = ()
    name: str | None = None
    output: str | None = None
    inside: str | None = None
    arguments: Mapping[str, Plain] = field(default_factory=dict)

    def apply(self, model: EditedModel) -> str:
        body, value = find_value(model, self.value, self.inside)
        operator = find_operator(model, body, self.operator)
        is_output = value in body.outputs
        if is_output and value not in body.producers:
            raise OnnxLiftError(
                f"{quote(value)} is an output that no node computes, so that there is no name for what comes behind "
                "it. Insert an Identity before it is read (insert_before), or add another output."
            )
        if is_output and self.output is not None:
            raise OnnxLiftError(f"{quote(value)} is an output, whose name stays: leave out {self.output!r}, or rename.")
        name = new_name(model, body, self.name, f"{value}_{operator.name}")
        before = model.fresh(body, f"{value}_before_{operator.name}")
        result = self.output or model.fresh(body, f"{value}_{operator.name}")
        if self.output is not None:
            model.check_free(body, self.output)
        readers = list(body.references(value))
        producer = body.producers.get(value)
        node = make_node(model, body, operator, name, values=[value], inputs=self.inputs, arguments=self.arguments)
        model.touch(body, value, readers_only=not is_output)
        if is_output and producer is not None:
            producer.output[list(producer.output).index(value)] = before
            node.input[:] = [before if each == value else each for each in node.input]
            result = value
        else:
            for reader in readers:
                reader.set(result)
        node.output[:] = [result, *("" for _ in range(operator.outputs - 1))]
        body.proto.node.insert(0 if producer is None else body.position(producer) + 1, node)
        import_domain(model, body, operator)
        return result

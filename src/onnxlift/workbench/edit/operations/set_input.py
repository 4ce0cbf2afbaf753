"""`set_input`: let a node read another value."""

from __future__ import annotations

from dataclasses import dataclass

from onnxlift.errors import OnnxLiftError, quote

from ..addresses import find_node, input_index, visible
from ..arguments import as_input
from ..edited import EditedModel
from ..fields import Plain
from ..operation import Operation
from ..operators import operator_of


@dataclass(frozen=True)
class SetInput(Operation):
    """Let an input of a node read another value: the name of one, or numbers, which become a constant.

    `input` is its position, or its name in the operator's definition: `m.set_input("conv1", "B", "bias")`. None leaves
    an optional input out."""

    node: str
    input: int | str
    value: Plain
    inside: str | None = None

    def apply(self, model: EditedModel) -> None:
        body, node = find_node(model, self.node, self.inside)
        operator = operator_of(model, body, node)
        index = input_index(node, self.input, operator.slot, operator.inputs)
        names = list(node.input) + [""] * (index + 1 - len(node.input))
        operator.check_count(len(names))
        if self.value is None or self.value == "":
            names[index] = ""
        elif isinstance(self.value, str):
            names[index] = visible(model, body, self.value)
        else:
            formal = operator.inputs[min(index, len(operator.inputs) - 1)] if operator.inputs else f"input_{index}"
            array = as_input(model, body, operator, index, self.value, [name or None for name in names])
            names[index] = model.add_constant(body, model.fresh(body, f"{node.name}_{formal}"), array)
        while names and not names[-1]:
            names.pop()
        if list(node.input) == names:
            raise OnnxLiftError(f"node {quote(node.name)} reads that already.")
        model.touch(body, *node.output)
        node.input[:] = names

"""`replace`: put another node in the place of a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxlift.errors import OnnxLiftError, quote

from ..addresses import find_node
from ..arguments import make_node
from ..edited import EditedModel
from ..fields import Plain
from ..operation import Operation
from ..operators import find_operator, import_domain


@dataclass(frozen=True)
class Replace(Operation):
    """Put a node of another operator in the place of a node: its name and its outputs stay.

    Without `inputs`, it reads what the old node read, as far as `arguments` do not name an input:
    `m.replace("Relu_3", "Clip", min=0.0, max=6.0)`. Attributes are only those of `arguments`."""

    node: str
    operator: str
    inputs: tuple[Plain, ...] = ()
    inside: str | None = None
    arguments: Mapping[str, Plain] = field(default_factory=dict)

    def apply(self, model: EditedModel) -> None:
        body, node = find_node(model, self.node, self.inside)
        operator = find_operator(model, body, self.operator)
        old = [] if self.inputs else [name or None for name in node.input]
        if old and operator.is_known and not operator.is_variadic:
            room = len(operator.inputs) - sum(operator.slot(key) is not None for key in self.arguments)
            if len(old) > room:
                takes = ", ".join(operator.inputs) or "none"
                raise OnnxLiftError(
                    f"node {quote(node.name)} ({node.op_type}) reads {len(old)} values, and {operator.title} takes "
                    f"{takes}: say which it should read, as further arguments."
                )
        new = make_node(
            model, body, operator, node.name, values=[], inputs=(*old, *self.inputs), arguments=self.arguments
        )
        model.touch(body, *node.output)
        new.output[:] = node.output
        new.doc_string = node.doc_string
        new.metadata_props.extend(node.metadata_props)
        node.CopyFrom(new)
        import_domain(model, body, operator)

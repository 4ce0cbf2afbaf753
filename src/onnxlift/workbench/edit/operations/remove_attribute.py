"""`remove_attribute`: take an attribute from a node."""

from __future__ import annotations

from dataclasses import dataclass

from onnxlift.errors import OnnxLiftError, quote

from ..addresses import find_attribute
from ..attributes import attribute_of
from ..edited import EditedModel
from ..operation import Operation


@dataclass(frozen=True)
class RemoveAttribute(Operation):
    """Take an attribute from a node, so that its default holds: `m.remove_attribute("conv1.pads")`."""

    node: str
    attribute: str | None = None
    inside: str | None = None

    def apply(self, model: EditedModel) -> None:
        (body, node), name = find_attribute(model, self.node, self.attribute, self.inside)
        present = attribute_of(node, name)
        if present is None:
            has = ", ".join(each.name for each in node.attribute) or "none"
            raise OnnxLiftError(
                f"node {quote(node.name)} ({node.op_type}) has no attribute {quote(name)}; it has {has}."
            )
        model.touch(body, *node.output)
        node.attribute.remove(present)

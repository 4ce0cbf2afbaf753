"""`set_attribute`: set an attribute of a node."""

from __future__ import annotations

from dataclasses import dataclass

from ..addresses import find_attribute
from ..arguments import replace_attributes
from ..attributes import attribute_of, make_attribute
from ..edited import EditedModel
from ..fields import Plain
from ..operation import Operation
from ..operators import operator_of


@dataclass(frozen=True)
class SetAttribute(Operation):
    """Set an attribute of a node, which is checked against the operator's definition in the opset in force.

    `m.set_attribute("conv1.pads", [1, 1, 1, 1])`. If `attribute` names it, `node` is the node alone. An element type
    may be given by its name: `m.set_attribute("Cast_3.to", "float16")`."""

    node: str
    value: Plain
    attribute: str | None = None
    inside: str | None = None

    def apply(self, model: EditedModel) -> None:
        (body, node), name = find_attribute(model, self.node, self.attribute, self.inside)
        operator = operator_of(model, body, node)
        attribute = make_attribute(model, operator, name, self.value, attribute_of(node, name))
        model.touch(body, *node.output)
        replace_attributes(node, [attribute])

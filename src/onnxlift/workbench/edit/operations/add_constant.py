"""`add_constant`: add an initialiser."""

from __future__ import annotations

from dataclasses import dataclass

from ..addresses import find_body
from ..arrays import default_array
from ..edited import EditedModel
from ..fields import Plain
from ..operation import Operation


@dataclass(frozen=True)
class AddConstant(Operation):
    """Add a constant that nodes can read: an initialiser; in a function, a Constant node.

    Plain numbers become bool, int64 or float32. Returns its name."""

    name: str
    value: Plain
    inside: str | None = None

    def apply(self, model: EditedModel) -> str:
        body = find_body(model, self.inside)
        model.check_free(body, self.name)
        return model.add_constant(body, self.name, default_array(self.value))

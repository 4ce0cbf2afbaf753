"""The constants of a model: which are written into the script, and which come from the file of weights.

- A number, and a few ints, stand where they are used.
- All else is a weight, called by its name in the file, or by its module and what it is to its node.
- What the builder would compute at once (a Shape of a constant) is a weight as well: those are never folded.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.inference.evaluate import EVALUATED
from onnxlift.ir.origin.names import Naming, naming_of
from onnxlift.rewriting.normal_form.constant_nodes import constant_tensor

from .literals import is_plain

MOST_INTS = 8
MOST_FLOATS = 4
"""So many elements stand in the script."""


class Constants:
    """The tensors of values, and what becomes of them."""

    def __init__(self) -> None:
        self._tensors: dict[ir.Value, ir.TensorProtocol | None] = {}
        self._inline: dict[ir.Value, bool] = {}
        self._not_folded: set[ir.Value] = set()

    def tensor(self, value: ir.Value | None) -> ir.TensorProtocol | None:
        """Return the tensor of a constant; None for any other value."""
        if value is None:
            return None
        if value not in self._tensors:
            maker = value.producer()
            is_node = maker is not None and is_standard(maker, "Constant")
            self._tensors[value] = constant_tensor(maker) if is_node and maker is not None else constant(value)
        return self._tensors[value]

    def is_constant(self, value: ir.Value | None) -> bool:
        return self.tensor(value) is not None

    def note(self, node: ir.Node) -> None:
        """Note the constants of a node that the builder would compute at once."""
        if node.domain or node.op_type not in EVALUATED or not node.inputs:
            return
        values = [value for value in node.inputs if value is not None]
        if values and all(map(self.is_constant, values)):
            self._not_folded.add(values[0])

    def is_inline(self, value: ir.Value) -> bool:
        """Tell whether a constant stands in the script where it is used."""
        if value not in self._inline:
            self._inline[value] = self._stands_in_script(value)
        return self._inline[value]

    def _stands_in_script(self, value: ir.Value) -> bool:
        tensor = self.tensor(value)
        if tensor is None or value in self._not_folded:
            return False
        if tensor.dtype == ir.DataType.STRING:
            return True  # safetensors has no texts
        if not is_plain(tensor):
            return False
        if tensor.dtype not in FLOATS:
            return tensor.size <= MOST_INTS
        has_key = value.producer() is None and naming_of(value.name) is Naming.AUTHOR and "." in (value.name or "")
        return tensor.size <= (1 if has_key else MOST_FLOATS) and not (has_key and len(tensor.shape))

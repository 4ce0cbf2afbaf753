"""Names of variables in one Python function of a script.

1. What the author of the model called a value keeps that name: `attention_mask`, `logits`.
2. A value that follows another, which nobody reads any more, goes on under its name: `x = op.Relu(x)`.
3. What a module gives is called by the module; what an operator gives by what it is: `shape`, `probs`.
4. All else is `x`.
"""

from __future__ import annotations

import re

import onnx_ir as ir

from onnxlift.ir.origin.names import Naming, is_counted_operation, naming_of
from onnxlift.lifting.code.identifiers import identifier, unique

from .code import Statement

RESERVED = frozenset({"build", "op", "np", "weights", "name", "build_model", "Path", "x_", "abs", "object"})
"""What scripts use under these names: modules, functions, and builtins of Python."""

_BY_OPERATOR = {
    "Shape": "shape",
    "Size": "size",
    "Softmax": "probs",
    "Where": "chosen",
    "Range": "positions",
    "Equal": "is_equal",
    "Less": "is_less",
    "Greater": "is_greater",
    "Not": "mask",
    "And": "mask",
    "Or": "mask",
    "ReduceMean": "mean",
    "ReduceSum": "total",
    "Sqrt": "root",
    "NonZero": "places",
    "Split": "part",
    "DequantizeLinear": "x",
    "QuantizeLinear": "x",
    "Identity": "x",
}
_FLOW = "x"


def told_name(value: ir.Value) -> str | None:
    """Return what the author of the model called a value, as an identifier; None if nobody did."""
    name = value.name or ""
    if not name or len(name) > 80 or naming_of(name) is not Naming.AUTHOR or is_counted_operation(name):
        return None
    if re.search(r"[/:]|_output_\d+$", name):
        return None
    word = identifier(re.split(r"[.]", name)[-1])
    return None if re.fullmatch(r"[a-z]?_?\d*|x_\d+", word) else word


class Names:
    """The variables of one function. `outer` are names of the functions around, which must not be hidden."""

    def __init__(self, outer: frozenset[str] | set[str] = frozenset()) -> None:
        self.outer = frozenset(outer) | RESERVED
        self.of: dict[ir.Value, str] = {}
        self.until: dict[str, int] = {}
        """Name -> the last statement that reads the value that it stands for now."""
        self.used: set[str] = set()

    def take(self, value: ir.Value, wanted: str, now: int, until: int) -> str:
        """Give a value a name that is free from statement `now` on, and taken until it is last read."""
        taken = self.outer | {name for name, last in self.until.items() if last > now}
        name = unique(wanted, taken)
        self.of[value] = name
        self.until[name] = until
        self.used.add(name)
        return name

    def result(self, statement: Statement, value: ir.Value, now: int, last: dict[ir.Value, int]) -> str:
        """Name the value that a statement gives."""
        told = told_name(value)
        until = last.get(value, now)
        if told is not None:
            return self.take(value, told, now, until)
        first = next(statement.code.reads(), None)
        node = statement.node
        if first is not None and first in self.of and last.get(first, -1) == now:
            name = self.of[first]
            if re.fullmatch(r"x(_\d+)?", name):
                return self.take(value, name, now, until)
        by_operator = _BY_OPERATOR.get(node.op_type) if node is not None and not node.domain else None
        return self.take(value, by_operator or _FLOW, now, until)


def word_of(label: str) -> str:
    """Return what a module is called by its path: `encoder.layer.0` -> layer."""
    parts = [part for part in re.split(r"[./]", label) if part and not part.isdigit()]
    word = identifier(parts[-1], "block") if parts else "block"
    return re.sub(r"(?<=[a-z])_?\d+$", "", word) or "block"

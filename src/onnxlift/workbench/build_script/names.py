"""Names of variables in one Python function of a script.

1. What the author of the model called a value keeps that name: `attention_mask`, `logits`.
2. What is computed of a shape is called `size` or `sizes`.
3. A value that follows another, which nobody reads any more, goes on under its name: `x = op.Relu(x)`.
4. What an operator gives is called by what it is: `shape`, `probs`.
5. All else is `x`.
"""

from __future__ import annotations

import re

import onnx_ir as ir

from onnxlift.ir.origin.metadata import FX_NODE
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
    node = value.producer()
    if node is not None and FX_NODE in node.metadata_props and not value.is_graph_output():
        return None  # PyTorch's exporter calls values by its own operations: `getitem_3`
    if not name or len(name) > 80 or naming_of(name) is not Naming.AUTHOR or is_counted_operation(name):
        return None
    if re.search(r"[/:]|_output_\d+$", name):
        return None
    word = identifier(re.split(r"[.]", name)[-1])
    return None if re.fullmatch(r"[a-z]?_?\d*|x_\d+", word) else word


_OF_SIZES = frozenset("Gather Slice Squeeze Unsqueeze Reshape Cast Concat Mul Add Sub Div".split())
"""Operators that give sizes if they are given sizes."""
_FARTHEST = 6


def size_word(value: ir.Value) -> str | None:
    """Return `size` or `sizes` of what is computed of a Shape by arithmetic on whole numbers; None for all else."""
    node = value.producer()
    if value.dtype != ir.DataType.INT64 or value.shape is None or len(value.shape) > 1 or node is None:
        return None
    if node.domain or node.op_type not in _OF_SIZES:
        return None
    row = [value]
    for _ in range(_FARTHEST):
        makers = [maker for each in row if (maker := each.producer()) is not None and not maker.domain]
        if any(maker.op_type in ("Shape", "Size") for maker in makers):
            return "size" if len(value.shape) == 0 or value.shape == (1,) else "sizes"
        makers = [maker for maker in makers if maker.op_type in _OF_SIZES]
        row = [each for maker in makers for each in maker.inputs[:_FARTHEST] if each is not None][:_FARTHEST]
    return None


def kind_of(value: ir.Value) -> str | None:
    """Return what a value is by the operators that make it, such as `shape`; None if they tell nothing."""
    size = size_word(value)
    if size is not None:
        return size
    node = value.producer()
    found = _BY_OPERATOR.get(node.op_type) if node is not None and not node.domain else None
    return None if found == _FLOW else found


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
        kind = kind_of(value)
        if kind in ("shape", "size", "sizes"):
            return self.take(value, kind, now, until)
        first = next(statement.code.reads(), None)
        if first is not None and first in self.of and last.get(first, -1) == now:
            name = self.of[first]
            if re.fullmatch(r"x(_\d+)?", name) and self.until[name] <= now:
                return self.take(value, name, now, until)
        return self.take(value, kind or _FLOW, now, until)


def word_of(label: str) -> str:
    """Return what a module is called by its path: `encoder.layer.0` -> layer."""
    parts = [part for part in re.split(r"[./]", label) if part and not part.isdigit()]
    word = identifier(parts[-1], "block") if parts else "block"
    return re.sub(r"(?<=[a-z])_?\d+$", "", word) or "block"

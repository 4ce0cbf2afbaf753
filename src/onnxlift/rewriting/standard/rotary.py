"""Write a rotary embedding that is spelled out as RotaryEmbedding, which ONNX has since opset 23.

    x * cos + Concat(-second, first) * sin   ->   RotaryEmbedding(x, cos[..., :half], sin[..., :half])

The idiom `rotary` says what counts as one. It takes any tables; the operator has one angle for both features of a pair.
So the halves of both tables must be equal (or neighbours, if pairs are neighbours). That is known if a table is a
constant, or comes from `Concat(angles, angles)` or from a constant by steps that treat both halves alike.

`x` has four axes, (batch, heads, length, features), and the tables are the same for all heads. A table of one row for
the whole batch is repeated for it, since ONNX Runtime does not let it broadcast: once for all layers, if an input of
the model tells the size of the batch.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.axes import axes_of, static_slice
from onnxlift.ir.graph.constants import constant, number
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.rewriting.idioms.attention import rotary
from onnxlift.stages import step

from .parts.spelling import Recognised, Standard, fuse

_MOST_STEPS = 16
_ALIKE = ("Cos", "Sin", "Cast", "Neg", "Identity")
_ALIKE_WITH_A_NUMBER = ("Mul", "Div", "Add", "Sub")
_INTEGERS = ir.Value(type=ir.TensorType(ir.DataType.INT64))


@step("standard-rotary")
def run(model: ir.Model) -> int:
    """Write rotary embeddings as RotaryEmbedding; return how many."""
    return fuse(model, rotary.run, {"Rotary": (23, _rotary)})


def _rotary(found: Recognised) -> Standard | None:
    x, cos, sin = (found.input(index) for index in range(3))
    interleaved = bool(found.option("interleaved", 0))
    if x is None or cos is None or sin is None or cos.dtype != x.dtype or sin.dtype != x.dtype:
        return None
    tables = [_Table.of(found, x, table) for table in (cos, sin)]
    if tables[0] is None or tables[1] is None:
        return None
    if not all(_pairs_agree(table, interleaved) for table in (cos, sin)):
        return None
    halves = [table.half(interleaved) for table in tables if table is not None]
    return Standard("RotaryEmbedding", [x, *halves], {"interleaved": 1 if interleaved else None})


def _pairs_agree(value: ir.Value, interleaved: bool) -> bool:
    """Tell whether both features of each pair are known to have the same number in a table."""
    for _ in range(_MOST_STEPS):
        tensor = constant(value)
        if tensor is not None:
            array = tensor.numpy()
            half = array.shape[-1] // 2
            pairs = (array[..., ::2], array[..., 1::2]) if interleaved else (array[..., :half], array[..., half:])
            return bool(np.array_equal(*pairs))
        node = value.producer()
        if node is None:
            return False
        if is_standard(node, "Concat"):
            last = attribute(node, "axis", None) in (-1, (rank(value) or 0) - 1)
            return not interleaved and last and len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]
        before = _same_pairs(node, value)
        if before is None:
            return False
        value = before
    return False


def _same_pairs(node: ir.Node, value: ir.Value) -> ir.Value | None:
    """Return the value whose last axis becomes that of `value` number by number; None if there is no such one."""
    inputs = [each for each in node.inputs if each is not None]
    if is_standard(node, *_ALIKE):
        return inputs[0]
    if is_standard(node, *_ALIKE_WITH_A_NUMBER):
        others = [each for each in inputs if number(each) is None]
        return others[0] if len(others) == 1 and len(inputs) == 2 else None
    axes = rank(value)
    source = rank(inputs[0]) if inputs else None
    if axes is None or source is None:
        return None
    if is_standard(node, "Gather"):  # rows of a table
        place = attribute(node, "axis", 0)
        return inputs[0] if source > 1 and place % source != source - 1 else None
    if is_standard(node, "Slice"):
        found = static_slice(node)
        return inputs[0] if found is not None and all(axis % source != source - 1 for axis in found[1]) else None
    if is_standard(node, "Unsqueeze", "Squeeze"):
        places, wide = axes_of(node), axes if node.op_type == "Unsqueeze" else source
        return inputs[0] if places is not None and all(axis % wide != wide - 1 for axis in places) else None
    return None


class _Table:
    """A table of cosines or sines for `x`, with what it takes to read it as (batch, length, angles)."""

    def __init__(self, found: Recognised, x: ir.Value, table: ir.Value, sizes: tuple[int | str | None, ...]) -> None:
        self.found = found
        self.edit = found.edit
        self.node = found.node
        self.x = x
        self.table = table
        self.sizes = sizes

    @classmethod
    def of(cls, found: Recognised, x: ir.Value, table: ir.Value) -> _Table | None:
        """Return the table, if it is the same for all heads of x, and has a number for each of its other elements."""
        own, sizes = shape_of(x), shape_of(table)
        if own is None or sizes is None or len(own) != 4 or not 2 <= len(sizes) <= 4 or None in (own[0], own[2]):
            return None
        wide = (*[1] * (4 - len(sizes)), *sizes)
        if wide[1] != 1 or wide[0] not in (1, own[0]) or wide[2:] != own[2:]:
            return None
        return cls(found, x, table, wide) if isinstance(own[3], int) and own[3] % 2 == 0 else None

    def half(self, interleaved: bool) -> ir.Value:
        """Return one number for each pair of features, as (batch, length, angles)."""
        batch, _, length, features = self.sizes
        assert isinstance(features, int)
        angles = features // 2
        tensor = constant(self.table)
        if tensor is not None:
            array = tensor.numpy()
            picked = array[..., ::2] if interleaved else array[..., :angles]
            rows = picked.reshape(-1, *picked.shape[-2:])  # of one head
            value = self.edit.constant(f"{self.table.name}.angles", np.ascontiguousarray(rows))
        else:
            value = self._sliced(self._without_heads(), angles, interleaved)
        return self._for_all(value, [batch, length, angles]) if batch == 1 else value

    def _without_heads(self) -> ir.Value:
        """Return the table as (batch, length, features)."""
        batch, _, length, features = self.sizes
        axes = rank(self.table)
        if axes == 3:
            return self.table
        node = self.table.producer()
        if axes == 4 and node is not None and is_standard(node, "Unsqueeze") and axes_of(node) in ((1,), (-3,)):
            source = node.inputs[0]
            assert source is not None
            return source
        op_type, place = ("Squeeze", 1) if axes == 4 else ("Unsqueeze", 0)
        name, shape = f"{self.table.name}.rows", [batch, length, features]
        inputs = [self.table, self._numbers("axis", place)]
        return self.edit.insert(self.node, op_type, inputs, like=self.table, shape=shape, name=name)

    def _sliced(self, value: ir.Value, angles: int, interleaved: bool) -> ir.Value:
        end, jump = (2 * angles, 2) if interleaved else (angles, 1)
        words = {"start": 0, "end": end, "last": 2, "step": jump}
        inputs = [value, *(self._numbers(word, each) for word, each in words.items())]
        shape = [*(shape_of(value) or ())[:2], angles]
        return self.edit.insert(self.node, "Slice", inputs, like=value, shape=shape, name=f"{self.table.name}.angles")

    def _for_all(self, value: ir.Value, shape: list[int | str | None]) -> ir.Value:
        """Return a table of one row of the batch, repeated for all of them."""
        batch = (shape_of(self.x) or (1,))[0]
        if batch == 1:
            return value
        name = f"{self.table.name}.batch"
        target = self._numbers("target", batch, 1, 1) if isinstance(batch, int) else self._target(batch, name)
        shape = [batch, *shape[1:]]
        return self.edit.insert(self.node, "Expand", [value, target], like=value, shape=shape, name=name)

    def _target(self, batch: str | None, name: str) -> ir.Value:
        """Return (batch, 1, 1), from an input of the model if one tells the size."""
        inputs = [value for value in self.edit.graph.inputs if batch in (shape_of(value) or ())]
        source = inputs[0] if inputs else self.x
        axis = (shape_of(source) or ()).index(batch)
        cut = [ir.AttrInt64("start", axis), ir.AttrInt64("end", axis + 1)]
        size = self.edit.insert(self.node, "Shape", [source], cut, like=_INTEGERS, shape=[1], name=f"{name}.size")
        joined = [size, self._numbers("ones", 1, 1)]
        along = [ir.AttrInt64("axis", 0)]
        return self.edit.insert(self.node, "Concat", joined, along, like=_INTEGERS, shape=[3], name=f"{name}.target")

    def _numbers(self, word: str, *numbers: int) -> ir.Value:
        return self.edit.constant(f"{self.table.name}.{word}", np.array(numbers, np.int64))

"""Compare the constants of matched nodes: each pair once, whoever reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np
import onnx_ir as ir

from onnxlift.errors import quote
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.workbench.numbers import type_name

from .changes import WeightChange, WeightForm
from .numbers import (
    Array,
    Distance,
    Tolerance,
    dequantised,
    distance,
    is_setting,
    rearranged,
    shape_of,
)
from .places import module_of_item
from .view import Item, Side

Constant = tuple[ir.Value, ir.TensorProtocol]
Makers = tuple[Mapping[ir.Value, tuple[Item, int]], Mapping[ir.Value, tuple[Item, int]]]

MOST_SHOWN = 8
"""So many numbers of a setting are shown."""

MOST_DEQUANTISED = 1 << 26
"""Up to so many elements a weight is compared with what it was quantised to, which takes memory."""


class Weights:
    """The weights of two models, and how they differ."""

    def __init__(self, sides: tuple[Side, Side], tolerance: Tolerance, *, shown: int = 1) -> None:
        self.sides = sides
        self.tolerance = tolerance
        self.shown = shown
        """The side whose names say where something is."""
        self.taken_in: set[Item] = set()
        """The nodes that only dequantise a weight, and are no change of their own."""
        self._changes: dict[tuple[int, int], WeightChange | None] = {}
        self._readers: dict[tuple[int, int], list[str]] = {}

    @property
    def changes(self) -> list[WeightChange]:
        found = [(key, change) for key, change in self._changes.items() if change is not None]
        return [replace(change, readers=tuple(self._readers[key])) for key, change in found]

    def compare(self, a: Constant, b: Constant, reader: Item, name: str, where: str) -> tuple[str, str] | None:
        """Compare two constants. Weights that differ are noted; settings that differ are returned in words."""
        if is_setting(a[1]) and is_setting(b[1]):
            return self.difference(a[1], b[1])
        key = (id(a[1]), id(b[1]))
        if key not in self._changes:
            self._changes[key] = self._change(a, b, reader, where)
        self._note_reader(key, reader, name)
        return None

    def _note_reader(self, key: tuple[int, int], reader: Item, name: str) -> None:
        if self._changes[key] is not None:
            text = f"{reader.title} {quote(reader.node.name or '')} {name}"
            self._readers.setdefault(key, []).append(text)

    def _change(self, a: Constant, b: Constant, reader: Item, where: str) -> WeightChange | None:
        found, how = self._distance(a[1], b[1])
        if found is not None and not found.different and not how and _form(a) == _form(b):
            return None
        module = module_of_item(self.sides[self.shown], reader)
        return WeightChange(_weight(a), _weight(b), found, how, module, where)

    def _distance(self, a: ir.TensorProtocol, b: ir.TensorProtocol) -> tuple[Distance | None, str]:
        """Return how far two tensors are apart, and what has been done to the first if that can be said."""
        if not self.sides[0].with_numbers:
            return Distance(a.size, 0), ""
        if shape_of(a) != shape_of(b):
            return None, rearranged(a, b)
        if a.dtype == b.dtype and self.sides[0].digest(a) == self.sides[1].digest(b):
            return Distance(a.size, 0), ""
        return distance(a, b, self.tolerance), ""

    def difference(self, a: ir.TensorProtocol, b: ir.TensorProtocol) -> tuple[str, str] | None:
        """Return two constants in words; None if they are equal."""
        forms = (a.dtype, shape_of(a)), (b.dtype, shape_of(b))
        if forms[0] == forms[1] and not self._distance_of_settings(a, b).different:
            return None
        texts = self.brief(a), self.brief(b)
        if texts[0] != texts[1]:
            return texts
        if forms[0] == forms[1]:
            return texts
        return f"{_type(a)} {texts[0]}", f"{_type(b)} {texts[1]}"

    def _distance_of_settings(self, a: ir.TensorProtocol, b: ir.TensorProtocol) -> Distance:
        same = self.sides[0].digest(a) == self.sides[1].digest(b)
        return Distance(a.size, 0) if same else distance(a, b, self.tolerance)

    def brief(self, tensor: ir.TensorProtocol, name: str | None = None) -> str:
        """Write a constant in a few words: its numbers, if there are few."""
        if tensor.size <= MOST_SHOWN and (is_setting(tensor) or name is None):
            return _numbers(tensor)
        return f"{_type(tensor)} {quote(name)}" if name else _type(tensor)

    def quantised(
        self,
        a: tuple[ir.Value, ir.TensorProtocol | None],
        b: tuple[ir.Value, ir.TensorProtocol | None],
        makers: Makers,
        reader: Item,
        name: str,
        where: str,
    ) -> None:
        """Note a weight that the other model has as integers with a scale, by a DequantizeLinear before its reader."""
        side = 0 if a[1] is None else 1
        value, tensor = ((a, b)[1 - side][0], (a, b)[1 - side][1])
        made = makers[side].get((a, b)[side][0])
        if made is None or tensor is None or is_setting(tensor) or not is_standard(made[0].node, "DequantizeLinear"):
            return
        parts = [self.sides[side].tensor(each) for each in made[0].operands]
        if len(parts) < 2 or parts[0] is None or parts[1] is None or made[0].operands[0] is None:
            return
        integers: Constant = (made[0].operands[0], parts[0])
        self.taken_in.add(made[0])
        key = (id(integers[1]), id(tensor)) if side == 0 else (id(tensor), id(integers[1]))
        if key not in self._changes:
            axis = made[0].attributes.get("axis", 1)
            found = self._quantised_distance(tensor, parts[0], parts[1], parts[2] if len(parts) > 2 else None, axis)
            forms = _weight((value, tensor)), _weight(integers)
            how = "quantised" if side else "dequantised"
            module = module_of_item(self.sides[self.shown], reader)
            ordered = forms if side else forms[::-1]
            self._changes[key] = WeightChange(*ordered, found, how, module, where)
        self._note_reader(key, reader, name)

    def _quantised_distance(
        self,
        tensor: ir.TensorProtocol,
        integers: ir.TensorProtocol,
        scale: ir.TensorProtocol,
        zero: ir.TensorProtocol | None,
        axis: int,
    ) -> Distance | None:
        if prod(shape_of(integers)) > MOST_DEQUANTISED or shape_of(integers) != shape_of(tensor):
            return None
        if not self.sides[0].with_numbers:
            return None
        try:
            numbers: Array = dequantised(integers, scale, zero, axis)
        except (ValueError, IndexError):
            return None
        found = ir.Tensor(numbers.astype(np.float32) if tensor.dtype == ir.DataType.FLOAT else numbers)
        return distance(tensor, found, self.tolerance)


def _form(constant: Constant) -> tuple[ir.DataType, tuple[int, ...]]:
    return constant[1].dtype, shape_of(constant[1])


def _type(tensor: ir.TensorProtocol) -> str:
    return f"{type_name(tensor.dtype)} ({', '.join(map(str, shape_of(tensor)))})"


def _weight(constant: Constant) -> WeightForm:
    value, tensor = constant
    return WeightForm(value.name or "", type_name(tensor.dtype), shape_of(tensor))


def _numbers(tensor: ir.TensorProtocol) -> str:
    if tensor.dtype == ir.DataType.STRING:
        texts = [
            text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in tensor.numpy().flat
        ]
        return repr(texts[0]) if not shape_of(tensor) and texts else repr(texts)
    if tensor.dtype == ir.DataType.FLOAT:
        found = np.asarray(tensor.numpy())
        shortest = [
            float(np.format_float_positional(x, unique=True)) for x in found.reshape(-1)
        ]  # 0.1, not 0.10000000149
        return str(np.array(shortest, dtype=object).reshape(found.shape).tolist())
    return str(np.asarray(tensor.numpy()).astype(object).tolist() if tensor.size else [])

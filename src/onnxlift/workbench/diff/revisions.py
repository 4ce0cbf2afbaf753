"""Settings that one revision of an operator takes as an attribute, and another one as an input.

    Clip-6 (min=0, max=6)   is   Clip-11 with the constants 0 and 6 as inputs

Likewise the axes of reductions, the ends of a Slice, the pads of a Pad. What one revision does not know at all is no
change if the other one says the default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.schema import default_attributes

from .changes import Detail
from .operands import input_name
from .view import Item, Side, value_key

_ONES = ("steps", "dilations", "strides")
"""Settings that are 1 if they are left out."""


def without_respelling(details: Sequence[Detail], a: Item, b: Item, sides: tuple[Side, Side]) -> list[Detail]:
    """Return the details without those that only say the same in the words of another revision."""
    schemas = a.schema, b.schema
    if schemas[0] is None or schemas[1] is None or schemas[0].since_version == schemas[1].since_version:
        return list(details)
    settings = _settings(a, sides[0]), _settings(b, sides[1])
    kept: list[Detail] = []
    for detail in details:
        both = settings[0].get(detail.name), settings[1].get(detail.name)
        if detail.what not in ("attribute", "input") or (detail.a is not None and detail.b is not None):
            kept.append(detail)
        elif both[0] is None or both[1] is None:
            if not _is_default(both[0] if both[1] is None else both[1], detail.name, a, b):
                kept.append(detail)
        elif not _equal(both[0], both[1]) and all(each.name != detail.name for each in kept):
            kept.append(Detail("attribute", detail.name, both[0], both[1]))
    return kept


def _settings(item: Item, side: Side) -> dict[str, Any]:
    """Return attributes and constant inputs by name, as plain values."""
    found = dict(item.attributes)
    for place, value in enumerate(item.operands):
        tensor = side.tensor(value)
        if tensor is not None and tensor.size <= 64 and tensor.dtype != ir.DataType.STRING:
            plain = np.asarray(tensor.numpy()).tolist()
            found[input_name(item, place)] = tuple(plain) if isinstance(plain, list) else plain
    return found


def _is_default(value: Any, name: str, a: Item, b: Item) -> bool:
    if value is None:
        return False
    if name in _ONES and isinstance(value, tuple) and set(value) == {1}:
        return not (_knows(a, name) and _knows(b, name))
    for item in (a, b):
        default = default_attributes(item.node.domain, item.node.op_type, item.opset).get(name)
        if default is not None and value_key(default) == value_key(value):
            return True
    return False


def _knows(item: Item, name: str) -> bool:
    schema = item.schema
    return schema is not None and (name in schema.attributes or any(each.name == name for each in schema.inputs))


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(np.array_equal(np.asarray(a, np.float32), np.asarray(b, np.float32), equal_nan=True))
    except (TypeError, ValueError):
        return False

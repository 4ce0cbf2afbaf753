"""Line up the inputs of two matched nodes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest

import onnx.defs
import onnx_ir as ir

from .alignment import common_subsequence
from .view import Item, Side

Same = Callable[[ir.Value, ir.Value], bool]
Lined = list[tuple[ir.Value | None, ir.Value | None]]

_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic


def lined_up(a: Item, b: Item, sides: tuple[Side, Side], same: Same) -> Lined:
    """Return the inputs of two items in pairs.

    By place; by what they are where the order does not matter, or where one has more of a list of any length."""
    if a.is_commutative and b.is_commutative:
        return _any_order(a, b, sides, same)
    if len(a.operands) != len(b.operands) and _is_list(a) and _is_list(b):
        return _longer_list(a, b, sides, same)
    return list(zip_longest(a.operands, b.operands))


def _is_list(item: Item) -> bool:
    schema = item.schema
    return schema is not None and bool(schema.inputs) and schema.inputs[-1].option == _VARIADIC


def _any_order(a: Item, b: Item, sides: tuple[Side, Side], same: Same) -> Lined:
    left = list(b.operands)
    pairs: list[tuple[ir.Value | None, ir.Value | None]] = []
    rest: list[ir.Value | None] = []
    for value in a.operands:
        found = next((place for place, other in enumerate(left) if _equal(value, other, sides, same)), None)
        if found is None:
            rest.append(value)
        else:
            pairs.append((value, left.pop(found)))
    # A constant belongs to a constant, if there is one.
    rest.sort(key=lambda value: sides[0].tensor(value) is None)
    left.sort(key=lambda value: sides[1].tensor(value) is None)
    return [*pairs, *zip_longest(rest, left)]


def _equal(a: ir.Value | None, b: ir.Value | None, sides: tuple[Side, Side], same: Same) -> bool:
    if a is None or b is None:
        return a is b
    tensors = sides[0].tensor(a), sides[1].tensor(b)
    if tensors[0] is None or tensors[1] is None:
        return tensors[0] is tensors[1] and same(a, b)
    if tensors[0].dtype != tensors[1].dtype or list(tensors[0].shape) != list(tensors[1].shape):
        return False
    return sides[0].digest(tensors[0]) == sides[1].digest(tensors[1]) if sides[0].with_numbers else True


def _longer_list(a: Item, b: Item, sides: tuple[Side, Side], same: Same) -> Lined:
    kinds = list(dict.fromkeys(b.operands))
    labels_a = [
        next((number for number, kind in enumerate(kinds) if _equal(value, kind, sides, same)), -1)
        for value in a.operands
    ]
    labels_b = [kinds.index(value) for value in b.operands]
    pairs: Lined = []
    at_a = at_b = 0
    for i, j in [*common_subsequence(labels_a, labels_b), (len(a.operands), len(b.operands))]:
        pairs.extend(zip_longest(a.operands[at_a:i], b.operands[at_b:j]))
        if i < len(a.operands):
            pairs.append((a.operands[i], b.operands[j]))
        at_a, at_b = i + 1, j + 1
    return pairs


def input_name(item: Item, place: int) -> str:
    """Return the name of an input as the schema has it; its number if there is no schema."""
    schema = item.schema
    if schema is None or not schema.inputs:
        return str(place)
    last = len(schema.inputs) - 1
    if place >= last and schema.inputs[last].option == _VARIADIC:
        return f"{schema.inputs[last].name}[{place - last}]"
    return schema.inputs[place].name if place <= last else str(place)

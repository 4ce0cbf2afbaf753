"""Softsign, tanhshrink, hardshrink and softshrink, spelled out by exporters, are one function each.

    x / (|x| + 1)                                          ->   Softsign(x)
    x - Tanh(x)                                            ->   Tanhshrink(x)
    Where(|x| <= l, 0, x)                                  ->   Shrink(x, lambd=l, bias=0)
    Where(x > l or x < -l, x, 0)
    Where(|x| > l, x - Sign(x) * l, x * 0)                 ->   Shrink(x, lambd=l, bias=l)
    Where(x > l, x - l, 0) + Where(x < -l, x + l, 0)

l is a number and not negative, and nobody else reads a value in between. Sound because these are the definitions; the
forms of a shrink treat NaN differently, as ONNX's operator and PyTorch's function do.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, both_orders, drop_unused, is_private, made_by, number_beside, with_number
from onnxlift.ir.graph.types import is_float
from onnxlift.stages import step

_Shrink = tuple[ir.Value, float, float, list[ir.Node]]
"""The value that is shrunk, `lambd`, `bias`, and the nodes in between, each before those that make its inputs."""


@step("spelled-activations")
def run(model: ir.Model) -> int:
    """Recognise activations that are spelled out; return how many."""
    return sweep(model, {"Div": _softsign, "Sub": _tanhshrink, "Where": _shrink, "Add": _shrink_of_sides})


def _shrink(edit: Edit, node: ir.Node) -> None:
    _replace(edit, node, _hard(edit, node) or _hard_by_sides(edit, node) or _soft(edit, node))


def _shrink_of_sides(edit: Edit, node: ir.Node) -> None:
    _replace(edit, node, _soft_by_sides(edit, node))


def _replace(edit: Edit, node: ir.Node, found: _Shrink | None) -> None:
    if found is not None and is_float(node.outputs[0]):
        x, lambd, bias, nodes = found
        edit.replace(node, "Shrink", [x], [ir.AttrFloat32("lambd", lambd), ir.AttrFloat32("bias", bias)])
        drop_unused(edit, nodes)


def _softsign(edit: Edit, node: ir.Node) -> None:
    x, divisor = node.inputs
    total = made_by(edit, divisor, "Add")
    found = with_number(total) if total is not None else None
    size = made_by(edit, found[0], "Abs") if found is not None else None
    if total is None or found is None or size is None or found[1] != 1 or size.inputs[0] is not x:
        return
    if is_float(x) and is_private(edit, divisor) and is_private(edit, found[0]):
        edit.replace(node, "Softsign", [x])
        drop_unused(edit, [total, size])


def _tanhshrink(edit: Edit, node: ir.Node) -> None:
    x, value = node.inputs
    tanh = made_by(edit, value, "Tanh")
    if tanh is not None and tanh.inputs[0] is x and is_private(edit, value):
        edit.replace(node, "Tanhshrink", [x], domain=DOMAIN)
        drop_unused(edit, [tanh])


def _hard(edit: Edit, node: ir.Node) -> _Shrink | None:
    """Match `Where(|x| <= l, 0, x)`."""
    test, then, x = node.inputs
    below = made_by(edit, test, "LessOrEqual")
    size = made_by(edit, below.inputs[0], "Abs") if below is not None else None
    limit = number_beside(*below.inputs) if below is not None else None
    if below is None or size is None or limit is None or limit < 0 or x is None or number_beside(x, then) != 0:
        return None
    is_own = size.inputs[0] is x and is_private(edit, test) and is_private(edit, below.inputs[0])
    return (x, limit, 0.0, [below, size]) if is_own else None


def _hard_by_sides(edit: Edit, node: ir.Node) -> _Shrink | None:
    """Match `Where(x > l or x < -l, x, 0)`."""
    test, x, otherwise = node.inputs
    either = made_by(edit, test, "Or")
    sides = [_bound(edit, value) for value in either.inputs] if either is not None else []
    found = [side for side in sides if side is not None]
    if either is None or x is None or len(found) != 2 or number_beside(x, otherwise) != 0 or not is_private(edit, test):
        return None
    (first, low, one), (second, high, two) = found
    are_opposite = low == -high and one.op_type != two.op_type
    return (x, abs(low), 0.0, [either, one, two]) if first is second is x and are_opposite else None


def _soft(edit: Edit, node: ir.Node) -> _Shrink | None:
    """Match `Where(|x| > l, x - Sign(x) * l, x * 0)`."""
    makers = ("Greater", "Sub", "Mul")
    above, shrunk, nothing = (made_by(edit, v, op) for v, op in zip(node.inputs, makers, strict=True))
    zero = with_number(nothing) if nothing is not None else None
    if above is None or shrunk is None or nothing is None or zero is None or zero[1] != 0:
        return None
    x, step = shrunk.inputs
    size, scaled = made_by(edit, above.inputs[0], "Abs"), made_by(edit, step, "Mul")
    factor = with_number(scaled) if scaled is not None else None
    sign = made_by(edit, factor[0], "Sign") if factor is not None else None
    limit = number_beside(*above.inputs)
    if x is None or size is None or scaled is None or factor is None or sign is None or limit is None or limit < 0:
        return None
    is_own = size.inputs[0] is sign.inputs[0] is zero[0] is x and factor[1] == limit
    private = all(is_private(edit, value) for value in (*node.inputs, step, factor[0], above.inputs[0]))
    return (x, limit, limit, [above, size, shrunk, scaled, sign, nothing]) if is_own and private else None


def _soft_by_sides(edit: Edit, node: ir.Node) -> _Shrink | None:
    """Match `Where(x > l, x - l, 0) + Where(x < -l, x + l, 0)`."""
    found = [side for value in node.inputs if (side := _one_side(edit, value)) is not None]
    if len(found) != 2:
        return None
    (x, low, one), (other, high, two) = found
    are_opposite = low == -high and one[1].op_type != two[1].op_type
    return (x, abs(low), abs(low), [*one, *two]) if x is other and are_opposite else None


def _one_side(edit: Edit, value: ir.Value | None) -> tuple[ir.Value, float, list[ir.Node]] | None:
    """Match `Where(x > l, x - l, 0)` or `Where(x < -l, x + l, 0)`.

    Return x, the limit with its sign, and the nodes; the second node is the comparison.
    """
    choice = made_by(edit, value, "Where")
    if choice is None or not is_private(edit, value):
        return None
    test, then, otherwise = choice.inputs
    side, moved = _bound(edit, test), made_by(edit, then, "Add", "Sub")
    if side is None or moved is None or not is_private(edit, then) or number_beside(side[0], otherwise) != 0:
        return None
    x, limit, compared = side
    for source, added in both_orders(moved) if moved.op_type == "Add" else [tuple(moved.inputs)]:
        step = number_beside(source, added)
        if source is x and step == (-limit if moved.op_type == "Add" else limit):
            return x, limit, [choice, compared, moved]
    return None


def _bound(edit: Edit, value: ir.Value | None) -> tuple[ir.Value, float, ir.Node] | None:
    """Match `x > l` or `x < -l` that nobody else reads; return x, the limit with its sign, and the comparison."""
    node = made_by(edit, value, "Greater", "Less")
    limit = number_beside(*node.inputs) if node is not None else None
    if node is None or limit is None or node.inputs[0] is None or not is_private(edit, value):
        return None
    fits = limit >= 0 if node.op_type == "Greater" else limit <= 0
    return (node.inputs[0], limit, node) if fits else None

"""The questions with which idioms find their patterns: who makes a value, who reads it, which number a constant is, and
which polynomial a tree of elementwise arithmetic computes.

An idiom finds its pattern from the last node, backwards. Every value between the nodes of a pattern must be *private*:
only nodes of the pattern read it, and it is no output of the graph. All questions are about one graph. A value that a
node of an outer graph makes counts as an input here, never as a part of a pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxlift.ir.graph.constants import constant, number
from onnxlift.ir.graph.marks import DOMAIN as DOMAIN
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import rank
from onnxlift.ir.graph.types import is_close
from onnxlift.ir.origin.tensors import origin_of

from .edit import Edit

_MANY = 8
"""The most readers of a value that `readers_of` lists. Hardly any pattern reads a value more often."""
_MAX_STEPS = 5
_MOST_FILLED = 1 << 20
_MOVES = ("Slice", "Expand", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Tile")
_MAX_MOVES = 8


def made_by(edit: Edit, value: ir.Value | None, *op_types: str, domain: str = "") -> ir.Node | None:
    """Return the node of this graph that makes `value`, if its operator is one of `op_types` of `domain`; else None."""
    node = None if value is None else value.producer()
    if node is None or node.op_type not in op_types or node.graph is not edit.graph:
        return None
    return node if node.domain == domain else None


def is_private(edit: Edit, value: ir.Value | None, readers: int = 1) -> bool:
    """Tell whether `value` is read exactly `readers` times and is no output of the graph."""
    if value is None or (readers <= _MANY and value in edit.shared):
        return False
    count = len(value.uses())
    if count > _MANY:
        edit.shared.add(value)
    return count == readers and not edit.is_output(value)


def readers_of(edit: Edit, value: ir.Value) -> tuple[ir.Node, ...]:
    """Return the nodes of this graph that read `value` as their first input; none if it is read too often."""
    if value in edit.shared:
        return ()
    uses = value.uses()
    if len(uses) > _MANY:
        edit.shared.add(value)
        return ()
    return tuple(user for user, place in uses if place == 0 and user.graph is edit.graph)


def arithmetic_after(edit: Edit, node: ir.Node) -> Iterator[ir.Node]:
    """Yield the next few Add, Mul and Div nodes behind `node`, at which a pattern around `node` may end.

    It stops where a value between them has another reader or is an output of the graph."""
    value = node.outputs[0]
    for _ in range(_MAX_STEPS):
        if not is_private(edit, value):
            return
        ((user, _),) = value.uses()
        if user.graph is not edit.graph or not is_standard(user, "Add", "Mul", "Div"):
            return
        yield user
        value = user.outputs[0]


def drop_unused(edit: Edit, nodes: Iterable[ir.Node]) -> None:
    """Drop those of `nodes` that nobody reads any more. A node must come before those that make its inputs."""
    for node in nodes:
        if not any(out.uses() or edit.is_output(out) for out in node.outputs):
            edit.drop(node)


def is_zeros(edit: Edit, value: ir.Value | None) -> bool:
    """Tell whether `value` is known to be all zeros.

    It is a constant or a ConstantOfShape of zeros, or made from one by operators that only move elements."""
    for _ in range(_MAX_MOVES):
        moved = made_by(edit, value, *_MOVES)
        if moved is None:
            break
        value = moved.inputs[0]
    filled = made_by(edit, value, "ConstantOfShape")
    if filled is not None and "value" not in filled.attributes:
        return True
    tensor = constant(value) if filled is None else attribute(filled, "value", None)
    return tensor is not None and not tensor.numpy().any()


def is_filler(value: ir.Value | None, expected: float) -> bool:
    """Tell whether `value` only stands in the place of a weight that the layer does not have.

    That is a constant whose elements are all `expected`, and which is a constant of the code or has a name that a
    program made up."""
    tensor = constant(value)
    if value is None or tensor is None or tensor.size > _MOST_FILLED:
        return False
    return origin_of(value).is_programs_own and bool((tensor.numpy() == expected).all())


def both_orders(node: ir.Node) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yield the two inputs of a commutative operator as (first, second) and (second, first).

    Yields nothing if the node has an `axis`, as before opset 7: it says at which axis of the first input the second one
    begins, so the inputs cannot be exchanged."""
    first, second = node.inputs
    if first is not None and second is not None and "axis" not in node.attributes:
        yield first, second
        yield second, first


def with_number(node: ir.Node) -> tuple[ir.Value, float] | None:
    """Return the other operand and the number, if one operand of a commutative operator is a number; else None.

    A number with more axes than the other operand does not count: it would give the result more axes."""
    for value, other in both_orders(node):
        found = number_beside(value, other)
        if found is not None:
            return value, found
    return None


def divided_by_number(node: ir.Node) -> tuple[ir.Value, float] | None:
    """Return the dividend and the number, if a Div divides by a number other than 0; else None."""
    value, other = node.inputs
    found = number_beside(value, other)
    return (value, found) if value is not None and found else None


def number_beside(value: ir.Value | None, other: ir.Value | None) -> float | None:
    """Return the number that `other` is, if a result computed from both has no more axes than `value`; else None."""
    found = number(other)
    return found if value is not None and other is not None and _broadcasts_into(other, value) else None


def _broadcasts_into(scalar: ir.Value, value: ir.Value) -> bool:
    have, want = rank(scalar), rank(value)
    return have == 0 or (have is not None and want is not None and have <= want)


# Elementwise arithmetic as a polynomial

Monomial = tuple[ir.Value, ...]

_MAX_NODES = 12
_MAX_TERMS = 4
_MAX_DEGREE = 4


@dataclass
class Polynomial:
    """The polynomial that a tree of Add, Sub, Mul, Div and Pow computes.

    `terms` maps each product of variables to its coefficient. The variables are the values at which the tree ends: they
    are not made by such arithmetic, or are read elsewhere too. `x * 0.5 * (1 + e)` is {(x,): 0.5, (x, e): 0.5}, however
    it is grouped."""

    terms: dict[Monomial, float] = field(default_factory=dict)
    nodes: list[ir.Node] = field(default_factory=list)
    """The nodes of the tree, each before those that make its inputs."""

    def equals(self, expected: dict[Monomial, float], dtype: ir.DataType | None) -> bool:
        """Tell whether the polynomial has exactly these terms, up to the order of factors and rounding in `dtype`."""
        ordered = {_ordered(factors): coefficient for factors, coefficient in expected.items()}
        return ordered.keys() == self.terms.keys() and all(
            is_close(self.terms[factors], coefficient, dtype) for factors, coefficient in ordered.items()
        )


def polynomial(edit: Edit, value: ir.Value | None) -> Polynomial | None:
    """Return the polynomial that makes `value`; None if it is larger than any pattern."""
    if value is None:
        return None
    nodes: list[ir.Node] = []
    terms = _expand(edit, value, nodes, root=True)
    return None if terms is None else Polynomial(terms, nodes)


def _expand(edit: Edit, value: ir.Value, nodes: list[ir.Node], root: bool = False) -> dict[Monomial, float] | None:
    constant_value = number(value)
    if constant_value is not None:
        return {(): constant_value}
    node = made_by(edit, value, "Add", "Sub", "Mul", "Div", "Pow")
    if node is None or len(nodes) >= _MAX_NODES or not (root or is_private(edit, value)) or not _keeps_shape(node):
        return {(value,): 1.0}
    first, second = node.inputs
    if first is None or second is None:
        return {(value,): 1.0}
    if (node.op_type == "Div" and not number(second)) or (node.op_type == "Pow" and number(second) not in (2.0, 3.0)):
        return {(value,): 1.0}
    nodes.append(node)
    left = _expand(edit, first, nodes)
    right = _expand(edit, second, nodes)
    if left is None or right is None:
        return None
    match node.op_type:
        case "Add":
            return _bounded(_sum(left, right, 1.0))
        case "Sub":
            return _bounded(_sum(left, right, -1.0))
        case "Mul":
            return _bounded(_product(left, right))
        case "Div":
            return {factors: coefficient / right[()] for factors, coefficient in left.items()}
    square = _bounded(_product(left, left))
    return square if square is None or right[()] == 2.0 else _bounded(_product(square, left))


def _keeps_shape(node: ir.Node) -> bool:
    """Tell whether no operand that is a number has more axes than the other operand."""
    return all(number(other) is None or _broadcasts_into(other, value) for value, other in both_orders(node))


def _sum(left: dict[Monomial, float], right: dict[Monomial, float], sign: float) -> dict[Monomial, float]:
    terms = dict(left)
    for factors, coefficient in right.items():
        terms[factors] = terms.get(factors, 0.0) + sign * coefficient
    return terms


def _product(left: dict[Monomial, float], right: dict[Monomial, float]) -> dict[Monomial, float]:
    terms: dict[Monomial, float] = {}
    for some, a in left.items():
        for more, b in right.items():
            factors = _ordered(some + more)
            terms[factors] = terms.get(factors, 0.0) + a * b
    return terms


def _ordered(factors: Monomial) -> Monomial:
    return tuple(sorted(factors, key=id))


def _bounded(terms: dict[Monomial, float]) -> dict[Monomial, float] | None:
    fits = len(terms) <= _MAX_TERMS and all(len(factors) <= _MAX_DEGREE for factors in terms)
    return terms if fits else None

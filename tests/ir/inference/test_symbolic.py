"""Arithmetic on symbolic sizes agrees with arithmetic on the numbers they stand for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxlift.ir.graph.shapes import Dim
from onnxlift.ir.inference import symbolic

OPERATIONS: dict[str, tuple[Callable[[Dim, Dim], Dim | None], Callable[[int, int], int]]] = {
    "add": (symbolic.add, lambda a, b: a + b),
    "subtract": (symbolic.subtract, lambda a, b: a - b),
    "multiply": (symbolic.multiply, lambda a, b: a * b),
    "floor_divide": (symbolic.floor_divide, lambda a, b: a // b),
    "modulo": (symbolic.modulo, lambda a, b: a % b),
    "maximum": (symbolic.maximum, max),
    "minimum": (symbolic.minimum, min),
}
SIZES = {"a": 3, "b": 7, "c": 1}


def value(dim: Dim) -> int:
    return int(eval(str(dim), {"max": max, "min": min}, SIZES))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(OPERATIONS)), st.sampled_from(["a", "b", "c", -2, 0, 1, 2, 5]), st.booleans()),
        max_size=6,
    )
)
def test_expressions_have_the_value_of_their_numbers(steps: list[tuple[str, Dim, bool]]) -> None:
    dim: Dim = "a"
    for name, operand, swapped in steps:
        symbolically, numerically = OPERATIONS[name]
        left, right = (operand, dim) if swapped else (dim, operand)
        result = symbolically(left, right)
        if result is None:
            continue
        assert value(result) == numerically(value(left), value(right))
        following = symbolic.add(result, 1)
        assert following is not None
        assert symbolic.subtract(following, 1) == result  # every result can be computed with
        order = symbolic.compare(left, right)
        if order is not None:
            assert order == (value(left) > value(right)) - (value(left) < value(right))
        if symbolic.is_nonnegative(result):
            assert value(result) >= 0
        dim = result


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (symbolic.add(symbolic.add("b", "a"), 1), symbolic.add(1, symbolic.add("a", "b"))),
        (symbolic.multiply(symbolic.add("a", 1), symbolic.add("a", -1)), "a*a - 1"),
        (symbolic.subtract(symbolic.add("seq", 3), "seq"), 3),
        (symbolic.divide_exactly(symbolic.product(["batch", "seq", 768]) or 0, "batch"), "768*seq"),
        (symbolic.divide_exactly("seq", 2), None),
        (symbolic.floor_divide(symbolic.add("h", 1) or 0, 2), "(h + 1)//2"),
        (symbolic.floor_divide(symbolic.subtract("h", 1) or 0, 2), "(h + 1)//2 - 1"),
        (symbolic.floor_divide("3*h + 5", 2), "(h + 1)//2 + h + 2"),
        (symbolic.floor_divide("h//5", 2), "h//10"),
        (symbolic.floor_divide("h//5 - 1", 2), "(h + 5)//10 - 1"),
        (symbolic.floor_divide("h//5 + w//5", 2), "(h//5 + w//5)//2"),
        (symbolic.modulo("h - 1", 4), "(h + 3)%4"),
        (symbolic.modulo("4*h + 5", 4), 1),
        (symbolic.minimum("seq", symbolic.add("seq", 3) or 0), "seq"),
        (symbolic.maximum("seq", 0), "seq"),
        (symbolic.maximum("seq", 1), "max(1, seq)"),
        (symbolic.compare("seq", -1), 1),
        (symbolic.compare("seq", 1), None),
        (symbolic.broadcast("seq", 1), "seq"),
        (symbolic.broadcast("seq", 5), 5),
        (symbolic.broadcast("a", "b"), None),
        (symbolic.broadcast("min(64, seq)", "seq"), "seq"),
        (symbolic.broadcast("min(1, seq)", "seq"), None),
    ],
)
def test_results_are_canonical(result: object, expected: object) -> None:
    assert result == expected


@pytest.mark.parametrize("name", ["batch-size", "b + a", "a b", "é", "1", "a +", "f(a)", "a" * 300 + " + 1", "(" * 150])
def test_a_name_that_looks_like_arithmetic_is_only_a_name(name: str) -> None:
    assert symbolic.add(name, 1) is None
    assert symbolic.add(name, 0) == name
    assert symbolic.subtract(name, name) == 0
    assert symbolic.compare(name, -1) == 1
    assert symbolic.broadcast(name, 1) == name


def test_expressions_do_not_grow_without_bound() -> None:
    dim: Dim | None = "a"
    for letter in "bcdefghijklmnopqrstuvwxyz":
        sum_ = symbolic.add(letter, 1)
        assert sum_ is not None
        dim = None if dim is None else symbolic.multiply(dim, sum_)
    assert dim is None

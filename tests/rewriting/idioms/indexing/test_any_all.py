"""Questions about several booleans, by way of integers."""

from __future__ import annotations

import numpy as np
import pytest

import onnxlift
from rewriting.idioms import unsimplified
from rewriting.idioms.recognising import assert_same_numbers, parse, simplified

LARGEST = "i = Cast <to = 7> (x) r = ReduceMax <keepdims = 0> (i, axes) y = Cast <to = 9> (r)"
SUM = "i = Cast <to = 7> (x) r = ReduceSum <keepdims = 0> (i, axes) y = Greater(r, zero)"
NOT_ANY = "n = Not(x) i = Cast <to = 7> (n) r = ReduceSum <keepdims = 0> (i, axes) a = Greater(r, zero) y = Not(a)"


def returned(text: str, result: str = "bool[batch, seq] y", axes: tuple[int, ...] = (-1,)) -> str:
    given = {"axes": np.array(axes), "zero": np.int64(0), "one": np.int64(1)}
    used = {name: value for name, value in given.items() if f"{name})" in text or f"{name}," in text}
    model = parse(f"g (bool[batch, seq, 5] x) => ({result}) {{ {text} }}", **used)
    assert_same_numbers(model)
    lines = onnxlift.lift(model).source.splitlines()
    return next(line.strip().removeprefix("return ") for line in lines if line.strip().startswith("return "))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (LARGEST, "x.any(-1)"),
        (LARGEST.replace("to = 7", "to = 6"), "x.any(-1)"),
        (LARGEST.replace("Max", "Min"), "x.all(-1)"),
        (SUM, "x.any(-1)"),
        (NOT_ANY, "x.all(-1)"),
    ],
)
def test_along_an_axis(text: str, written: str) -> None:
    assert returned(text) == written


def test_other_axes() -> None:
    kept = LARGEST.replace("keepdims = 0", "keepdims = 1")
    assert returned(kept, "bool[batch, seq, 1] y") == "x.any(-1, keepdim=True)"
    assert returned(SUM, "bool[batch] y", (1, 2)) == "x.any((1, -1))"
    assert returned(LARGEST.replace(", axes", ""), "bool y") == "x.any()"


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (SUM, "(r, zero)", "(r, one)"),
        (SUM, "(r, zero)", "(zero, r)"),
        (SUM, "ReduceSum <", "ReduceProd <"),
        (NOT_ANY, "Cast <to = 7> (n)", "Cast <to = 7> (x)"),
    ],
)
def test_other_questions(text: str, old: str, new: str) -> None:
    assert old in text
    line = returned(text.replace(old, new))
    assert "x.all(" not in line and (line.startswith("~") or "any(" not in line)


@pytest.mark.parametrize(("value", "of"), [("i", "int64[batch, seq, 5]"), ("r", "int64[batch, seq]")])
def test_a_value_that_is_read_elsewhere(value: str, of: str) -> None:
    text = f"{SUM} o = Identity({value})"
    assert "any(" not in returned(text, f"bool[batch, seq] y, {of} o")


def test_no_axes_may_mean_none() -> None:
    text = SUM.replace("keepdims = 0", "keepdims = 0, noop_with_empty_axes = 1").replace(", axes", "")
    assert "any(" not in returned(text, "bool[batch, seq, 5] y")


@pytest.mark.parametrize(
    ("text", "old", "new", "of"),
    [
        (LARGEST, "y = Cast <to = 9>", "y = Cast <to = 1>", "float"),
        (LARGEST, "Cast <to = 9> (r)", "Equal(r, zero)", "bool"),
        (LARGEST, "i = Cast <to = 7> (x)", "j = Cast <to = 6> (x) k = Neg(j) i = Cast <to = 7> (k)", "bool"),
        (LARGEST, "to = 7", "to = 1", "bool"),
        (SUM, "Greater(r, zero)", "GreaterOrEqual(r, zero)", "bool"),
        (SUM, "Greater(r, zero)", "Less(r, zero)", "bool"),
        (SUM, "Greater(r, zero)", "Greater(r, axes)", "bool"),
    ],
)
def test_other_computations(text: str, old: str, new: str, of: str) -> None:
    assert old in text
    assert "any(" not in returned(text.replace(old, new), f"{of}[batch, seq] y")


def test_a_zero_that_adds_axes() -> None:
    text = SUM.replace("y = Greater(r, zero)", "z = Reshape(zero, ones) y = Greater(r, z)")
    proto = parse(
        f"g (bool[batch, seq, 5] x) => (bool[1, 1, batch, seq] y) {{ {text} }}",
        axes=np.array([-1]),
        zero=np.int64(0),
        ones=np.array([1, 1, 1, 1]),
    )
    assert_same_numbers(proto)
    assert "any(" not in onnxlift.lift(proto).source


def test_no_axes_may_mean_none_but_there_are_some() -> None:
    text = SUM.replace("keepdims = 0", "keepdims = 0, noop_with_empty_axes = 1")
    assert returned(text) == "x.any(-1)"


def test_axes_that_are_not_known() -> None:
    text = "n = Shape <start = 0, end = 1> (w) " + SUM.replace("axes", "n")
    proto = parse(f"g (bool[batch, seq, 5] x, bool[one] w) => (y) {{ {text} }}", zero=np.int64(0))
    assert "Any" not in [node.op_type for node in simplified(proto).graph]


def test_a_single_boolean() -> None:
    text = "g (float s) => (bool y) { x = IsNaN(s) i = Cast <to = 7> (x) r = ReduceMax(i) y = Cast <to = 9> (r) }"
    assert "onnxlift.Any" not in unsimplified.found(parse(text))


def test_a_question_that_is_also_answered_the_other_way_round() -> None:
    text = f"{NOT_ANY} o = Identity(a)"
    assert "x.all(" not in returned(text, "bool[batch, seq] y, bool[batch, seq] o")

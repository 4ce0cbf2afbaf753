"""Rotary position embedding: halves of the features, or neighbours, turned."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift

from .recognising import found, parse

SLICES = "first = Slice(x, zero, half, last, step) second = Slice(x, half, end, last, step)"
BODY = f"""{SLICES} n = Neg(second) turned = Concat <axis = -1> (n, first)
    a = Mul(x, cos) b = Mul(turned, sin) y = Add(a, b)"""


def rotary(body: str = BODY, outputs: str = "float[batch, 3, seq, 8] y") -> onnx.ModelProto:
    inputs = "float[batch, 3, seq, 8] x, float[1, 1, seq, 8] cos, float[1, 1, seq, 8] sin"
    numbers = {
        "zero": [0],
        "half": [4],
        "quarter": [2],
        "end": [np.iinfo(np.int64).max],
        "last": [3],
        "step": [1],
        "one": [1],
        "two": [2],
        "back": [-1],
        "three": [3],
        "wide": [0, 0, 0, -1],
    }
    used = {name: np.array(number) for name, number in numbers.items() if name in body}
    return parse(f"g ({inputs}) => ({outputs}) {{ {body} }}", **used)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("Mul(x, cos)", "Mul(cos, x)"),
        ("Mul(turned, sin)", "Mul(sin, turned)"),
        ("Add(a, b)", "Add(b, a)"),
        ("axis = -1", "axis = 3"),
        (SLICES, "first, second = Split <axis = -1, num_outputs = 2> (x)"),
    ],
)
def test_all_spellings(old: str, new: str) -> None:
    assert found(rotary(BODY.replace(old, new))) == ["onnxlift.Rotary"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Concat <axis = -1> (n, first)", "Concat <axis = -1> (first, n)"),
        ("Neg(second)", "Neg(first)"),
        ("n = Neg(second)", "n = Abs(second)"),
        ("Mul(x, cos)", "Mul(turned, cos)"),
        ("second = Slice(x", "other = Exp(x) second = Slice(other"),
        ("half", "quarter"),
        ("Slice(x, zero, half", "Slice(x, half, end"),
    ],
)
def test_other_halves_stay(old: str, new: str) -> None:
    assert "onnxlift.Rotary" not in found(rotary(BODY.replace(old, new)))


def test_halves_that_are_read_elsewhere_stay() -> None:
    outputs = "float[batch, 3, seq, 8] y, float[batch, 3, seq, 4] z"
    assert "onnxlift.Rotary" not in found(rotary(f"{BODY} z = Exp(n)", outputs))


def test_halves_along_another_axis_stay() -> None:
    body = """first, second = Split <axis = 2, num_outputs = 2> (x) n = Neg(second)
        turned = Concat <axis = 2> (n, first) a = Mul(x, cos) b = Mul(turned, sin) y = Add(a, b)"""
    shape = "float[batch, 3, 6, 8]"
    inputs = f"{shape} x, float[1, 1, 6, 8] cos, float[1, 1, 6, 8] sin"
    assert "onnxlift.Rotary" not in found(parse(f"g ({inputs}) => ({shape} y) {{ {body} }}"))


PAIRS = """even = Slice(x, zero, end, last, two) odd = Slice(x, one, end, last, two) n = Neg(odd)
    left = Unsqueeze(n, back) right = Unsqueeze(even, back) pairs = Concat <axis = -1> (left, right)
    turned = Reshape(pairs, wide) a = Mul(x, cos) b = Mul(turned, sin) y = Add(a, b)"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("", ""), ("Mul(turned, sin)", "Mul(sin, turned)"), ("axis = -1", "axis = 4"), ("end, last", "end, back")],
)
def test_neighbours(old: str, new: str) -> None:
    model = rotary(PAIRS.replace(old, new))
    assert found(model) == ["onnxlift.Rotary"]
    assert "apply_rotary_interleaved(x, cos, sin)" in onnxlift.lift(model).source


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(left, right)", "(right, left)"),
        ("Neg(odd)", "Neg(even)"),
        ("n = Neg(odd)", "n = Abs(odd)"),
        ("odd = Slice(x", "other = Exp(x) odd = Slice(other"),
        ("Mul(x, cos)", "Mul(turned, cos)"),
        ("Slice(x, zero, end, last, two)", "Slice(x, zero, half, last, step)"),
        ("Concat <axis = -1>", "Concat <axis = -2>"),
    ],
)
def test_other_neighbours_stay(old: str, new: str) -> None:
    assert "onnxlift.Rotary" not in found(rotary(PAIRS.replace(old, new)))


def test_neighbours_in_another_order_stay() -> None:
    """A Reshape to the shape of x does not join the new axis with the features if that is a row before them."""
    body = PAIRS.replace("back) r", "three) r").replace("even, back", "even, three").replace("axis = -1", "axis = 3")
    assert "onnxlift.Rotary" not in found(rotary(body))


def test_neighbours_that_are_read_elsewhere_stay() -> None:
    outputs = "float[batch, 3, seq, 8] y, float[batch, 3, seq, 4, 2] z"
    assert "onnxlift.Rotary" not in found(rotary(f"{PAIRS} z = Exp(pairs)", outputs))

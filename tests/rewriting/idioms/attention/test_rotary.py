"""Rotary position embedding: halves of the features, or neighbours, turned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.attention.rotary import run
from rewriting.idioms.recognising import found, parse
from rewriting.running_stages import normalise

SLICES = "first = Slice(x, zero, half, last, step) second = Slice(x, half, end, last, step)"
BODY = f"""{SLICES} n = Neg(second) turned = Concat <axis = -1> (n, first)
    a = Mul(x, cos) b = Mul(turned, sin) y = Add(a, b)"""


INPUTS = "float[batch, 3, seq, 8] x, float[1, 1, seq, 8] cos, float[1, 1, seq, 8] sin"


def rotary(
    body: str = BODY,
    outputs: str = "float[batch, 3, seq, 8] y",
    inputs: str = INPUTS,
    wide: Sequence[int] = (0, 0, 0, -1),
) -> onnx.ModelProto:
    numbers = {
        "zero": [0],
        "half": [4],
        "quarter": [2],
        "end": [np.iinfo(np.int64).max],
        "last": [3],
        "step": [1],
        "one": [1],
        "two": [2],
        "six": [6],
        "back": [-1],
        "three": [3],
        "wide": wide,
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
        (SLICES, SLICES.replace("first", "z").replace("second", "first").replace("z =", "second =")),
        (SLICES, "first = Slice(x, zero, six, last, step) second = Slice(x, two, half, last, step)"),
        (SLICES, "first = Slice(x, zero, half, last, step) second = Slice(x, two, six, last, step)"),
    ],
)
def test_other_halves_stay(old: str, new: str) -> None:
    assert "onnxlift.Rotary" not in found(rotary(BODY.replace(old, new)))


@pytest.mark.parametrize("value", ["a", "b", "turned", "n", "first", "second"])
def test_halves_that_are_read_elsewhere_stay(value: str) -> None:
    outputs = "float[batch, 3, seq, 8] y, float[batch, 3, seq, z] z"
    assert "onnxlift.Rotary" not in found(rotary(f"{BODY} z = Exp({value})", outputs))


@pytest.mark.parametrize(
    ("split", "joined", "inputs"),
    [
        (2, 2, "float[batch, 3, 6, 8] x, float[1, 1, 6, 8] cos, float[1, 1, 6, 8] sin"),
        (2, 3, "float[batch, 3, 2, 1] x, float[1, 1, 2, 1] cos, float[1, 3, 1, 2] sin"),
        (3, 2, "float[batch, 3, 1, 2] x, float[1, 3, 1, 2] cos, float[1, 1, 2, 1] sin"),
    ],
    ids=["both", "where it is split", "where it is joined"],
)
def test_halves_along_another_axis_stay(split: int, joined: int, inputs: str) -> None:
    body = BODY.replace(SLICES, f"first, second = Split <axis = {split}, num_outputs = 2> (x)")
    body = body.replace("axis = -1", f"axis = {joined}")
    assert "onnxlift.Rotary" not in found(rotary(body, "float[batch, 3, h, w] y", inputs))


def test_three_parts_stay() -> None:
    body = BODY.replace("(n, first)", "(n, first, first)").replace("Mul(x, cos)", "Mul(cos, cos)")
    inputs = INPUTS.replace("seq, 8] cos, float[1, 1, seq, 8]", "seq, 12] cos, float[1, 1, seq, 12]")
    assert "onnxlift.Rotary" not in found(rotary(body, "float[batch, 3, seq, 12] y", inputs))
    body = PAIRS.replace("(left, right)", "(left, right, right)").replace("Mul(x, cos)", "Mul(cos, cos)")
    assert "onnxlift.Rotary" not in found(rotary(body, "float[batch, 3, seq, 12] y", inputs))


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


@pytest.mark.parametrize("value", ["a", "b", "turned", "pairs", "left", "right", "n"])
def test_neighbours_that_are_read_elsewhere_stay(value: str) -> None:
    more = ", w" if value in ("pairs", "left", "right") else ""
    outputs = f"float[batch, 3, seq, 8] y, float[batch, 3, seq, z{more}] z"
    assert "onnxlift.Rotary" not in found(rotary(f"{PAIRS} z = Exp({value})", outputs))


@pytest.mark.parametrize(
    ("old", "new"),
    [("axis = -1", "axis = 2"), ("end, last", "end, two")],
    ids=["where they are joined", "where they are cut"],
)
def test_neighbours_along_another_axis_stay(old: str, new: str) -> None:
    shape = "float[batch, 3, 6, 8]"
    model = rotary(PAIRS.replace(old, new), f"{shape} y", INPUTS.replace("seq", "6"), (0, 0, 6, 8))
    assert "onnxlift.Rotary" not in found(model)


def test_neighbours_that_get_another_shape_stay() -> None:
    inputs = "float[3, 8] x, float[3, 8] cos, float[1, 8] sin"
    body = PAIRS.replace("last", "one")
    assert found(rotary(body, "float[3, 8] y", inputs, (3, 8))) == ["onnxlift.Rotary"]
    assert "onnxlift.Rotary" not in found(rotary(body, "float[3, 3, 8] y", inputs, (3, 1, 8)))


@pytest.mark.parametrize(("axis", "expected"), [("back", 1), ("three", 0)])
def test_neighbours_whose_new_axis_is_not_the_last_one_stay(axis: str, expected: int) -> None:
    """Before a Reshape that only drops the new axis has become a Squeeze."""
    graph = load(rotary(PAIRS.replace("n, back", f"n, {axis}").replace("even, back", f"even, {axis}")))
    normalise(graph)
    assert run(graph) == expected

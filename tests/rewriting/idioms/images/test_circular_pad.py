"""Tensors that go on at one end as they begin at the other; and other pieces around a tensor."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.images import circular_pad
from rewriting.idioms.recognising import found, parse, simplified
from rewriting.running_stages import normalise

CIRCLE = "a = Slice(x, minus2, end, axis) b = Slice(x, zero, one, axis) y = Concat <axis = 3> (a, x, b)"
NUMBERS = {"minus2": -2, "minus7": -7, "zero": 0, "one": 1, "two": 2, "six": 6, "seven": 7, "end": 2**31, "axis": 3}


def model(
    text: str = CIRCLE, shape: str = "batch, 3, 6, 7", dtype: str = "float", more: str = "", axis: int = 3
) -> onnx.ModelProto:
    axes = ", ".join("opqrst"[: shape.count(",") + 1])
    known = {name: np.array([axis if name == "axis" else number]) for name, number in NUMBERS.items()}
    used = {name: value for name, value in known.items() if f" {name}," in text or f" {name})" in text}
    return parse(f"g ({dtype}[{shape}] x) => ({dtype}[{axes}] y{more}) {{ {text} }}", **used)


@pytest.mark.parametrize(("axis", "shape"), [(2, "batch, 3, 7"), (3, "batch, 3, 6, 7"), (-1, "batch, 3, 2, 6, 7")])
def test_circular_padding(axis: int, shape: str) -> None:
    assert found(model(CIRCLE.replace("axis = 3", f"axis = {axis}"), shape, axis=axis)) == ["onnxlift.CircularPad"]


@pytest.mark.parametrize(
    ("text", "shape", "dtype", "axis"),
    [
        (CIRCLE.replace("axis = 3", "axis = 5"), "batch, 3, 2, 2, 6, 7", "float", 5),
        (CIRCLE.replace("axis = 3", "axis = 1"), "batch, 7", "float", 1),
        (CIRCLE, "batch, 3, 6, 7", "int64", 3),
        (CIRCLE.replace("minus2", "seven"), "batch, 3, 6, 7", "float", 3),
        (CIRCLE.replace("zero, one", "zero, zero"), "batch, 3, 6, 7", "float", 3),
        (CIRCLE.replace("(a, x, b)", "(a, x, b, x)"), "batch, 3, 6, 7", "float", 3),
        (CIRCLE.replace("a = Slice(x,", "e = Neg(x) a = Slice(e,"), "batch, 3, 6, 7", "float", 3),
        (CIRCLE.replace("b = Slice(x,", "e = Neg(x) b = Slice(e,"), "batch, 3, 6, 7", "float", 3),
        (CIRCLE.replace("minus2, end", "zero, two"), "batch, 3, 6, 7", "float", 3),
        (CIRCLE.replace("zero, one", "one, two"), "batch, 3, 6, 7", "float", 3),
        (CIRCLE.replace("axis = 3", "axis = 1"), "batch, 3, 6, 7", "float", 1),
    ],
    ids=[
        "six axes",
        "two axes",
        "integers",
        "nothing before",
        "nothing behind",
        "and more",
        "another tensor before",
        "another tensor behind",
        "the first before",
        "the second behind",
        "channels",
    ],
)
def test_what_stays(text: str, shape: str, dtype: str, axis: int) -> None:
    assert "onnxlift.CircularPad" not in found(model(text, shape, dtype, axis=axis))


def test_an_operator_of_somebody_else() -> None:
    proto = model(CIRCLE.replace("= Concat", "= acme.Concat"))
    proto.opset_import.add(domain="acme", version=1)
    assert "CircularPad" not in [node.op_type for node in simplified(proto).graph]


@pytest.mark.parametrize(("piece", "size"), [("a", 2), ("b", 1)])
def test_pieces_that_are_read_elsewhere(piece: str, size: int) -> None:
    more = f", float[batch, 3, 6, {size}] z"
    assert "onnxlift.CircularPad" not in found(model(f"{CIRCLE} z = Neg({piece})", more=more))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (CIRCLE, 1),
        (CIRCLE.replace("Slice(x, zero, one, axis)", "Slice(x, zero, six, two)"), 0),
        (
            "a = Slice(x, minus7, end, axis) b = Slice(x, zero, seven, axis) y = Concat <axis = 2> (a, x, b)",
            0,
        ),
    ],
    ids=["the last axis", "all of another axis", "all, along another axis"],
)
def test_pieces_that_are_the_whole(text: str, count: int) -> None:
    """Simplifying would take them for the tensor itself."""
    graph = load(model(text))
    normalise(graph)
    assert circular_pad.run(graph) == count


ROWS = "c = Slice(x, minus2, end, two) d = Slice(x, zero, one, two) r = Concat <axis = 2> (c, x, d)"
COLUMNS = CIRCLE.replace("(x,", "(r,").replace("a, x, b", "a, r, b")
AGAIN = COLUMNS.replace(" axis)", " two)").replace("axis = 3", "axis = 2")


@pytest.mark.parametrize(
    ("text", "more", "count"),
    [
        (f"{ROWS} {COLUMNS}", "", 1),
        (f"{ROWS} {AGAIN}", "", 2),
        (f"{ROWS} {COLUMNS} z = Neg(r)", ", float[batch, 3, 9, 7] z", 2),
        (f"{ROWS} {COLUMNS}", ", float[batch, 3, 9, 7] r", 2),
    ],
    ids=["both axes", "one axis twice", "the first is read", "the first is an output"],
)
def test_padding_of_what_is_padded(text: str, more: str, count: int) -> None:
    proto = model(text, more=more)
    assert found(proto).count("onnxlift.CircularPad") == count
    padded = [node.inputs[0] for node in simplified(proto).graph if node.op_type == "CircularPad"]
    assert len({*padded}) == count  # each pads what the one before it gives

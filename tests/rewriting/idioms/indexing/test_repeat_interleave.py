"""What is no repetition of elements. What is one: `test_small_idioms.py`."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriting.idioms import unsimplified
from rewriting.idioms.recognising import found, parse

REPEAT = "u = Unsqueeze(x, axis) e = Expand(u, wide) y = Reshape(e, joined)"
Sizes = tuple[int, ...]


def model(x: str, axis: Sizes, wide: Sizes, joined: Sizes, text: str = REPEAT, outputs: str = "y") -> onnx.ModelProto:
    known = {"axis": np.array(axis), "wide": np.array(wide), "joined": np.array(joined)}
    used = {name: data for name, data in known.items() if f"{name})" in text}
    return parse(f"g (float[{x}] x) => ({outputs}) {{ {text} }}", **used)


def test_repeated_elements() -> None:
    assert found(model("batch, 4", (2,), (1, 1, 3), (-1, 12))) == ["onnxlift.RepeatInterleave"]
    assert found(model("batch, 4", (-1,), (1, 1, 3), (-1, 12))) == ["onnxlift.RepeatInterleave"]
    flat = REPEAT.replace("Reshape(e, joined)", "Flatten(e)")
    assert found(model("batch, 4", (2,), (1, 1, 3), (), flat)) == ["onnxlift.RepeatInterleave"]


def test_many_repetitions() -> None:
    text = f"u = Unsqueeze(x, axis) e = Concat <axis = 2> ({', '.join('u' * 11)}) y = Reshape(e, joined)"
    assert found(model("batch, 4", (2,), (), (-1, 44), text)) == ["onnxlift.RepeatInterleave"]


@pytest.mark.parametrize(
    ("x", "axis", "wide", "joined"),
    [
        ("batch, 4", (2,), (2, 1, 1, 3), (2, -1, 12)),  # another axis in front
        ("batch, 4", (1,), (1, 3, 1), (-1, 12)),  # the whole row
        ("batch, 4, 1", (1,), (1, 1, 1, 3), (-1, 1, 12)),  # along an axis that was there
        ("batch, 4", (2,), (1, 1, 3), (-1, 6)),  # joined otherwise
        ("1, 4", (2,), (5, 1, 3), (5, 12)),  # two axes
        ("batch, 4", (2,), (1, 1, 3), (-1, 3, 4)),
    ],
    ids=["rank", "block", "old axis", "shape", "two", "order"],
)
def test_other_repetitions(x: str, axis: Sizes, wide: Sizes, joined: Sizes) -> None:
    assert "onnxlift.RepeatInterleave" not in found(model(x, axis, wide, joined))


def test_a_number_that_is_repeated() -> None:
    text = "u = Unsqueeze(x, n0) e = Expand(u, n3) y = Reshape(e, n3)"
    proto = parse(f"g (float x) => (y) {{ {text} }}", n0=np.array([0]), n3=np.array([3]))
    assert "onnxlift.RepeatInterleave" not in unsimplified.found(proto)


def test_elements_that_are_there_once() -> None:
    assert "onnxlift.RepeatInterleave" not in unsimplified.found(model("batch, 4", (2,), (1, 1, 1), (-1, 4)))


def test_parts_of_which_one_differs() -> None:
    text = "u = Unsqueeze(x, axis) v = Neg(u) e = Concat <axis = 2> (u, u, v) y = Reshape(e, joined)"
    assert "onnxlift.RepeatInterleave" not in found(model("batch, 4", (2,), (), (-1, 12), text))


@pytest.mark.parametrize("value", ["u", "e"])
def test_what_others_read(value: str) -> None:
    proto = model("batch, 4", (2,), (1, 1, 3), (-1, 12), f"{REPEAT} o = Exp({value})", "y, o")
    assert "onnxlift.RepeatInterleave" not in found(proto)

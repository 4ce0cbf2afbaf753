"""Index arrays that were joined otherwise. Those that are found: `test_indexing.py`."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriting.idioms import unsimplified
from rewriting.idioms.recognising import Data, found, parse

JOINED = "u = Unsqueeze(i, last) v = Unsqueeze(j, last) k = Concat <axis = -1> (u, v) y = GatherND(x, k)"
INPUTS = "float[5, 6, 7] x, int64[3] i, int64[3] j"
PAIRS = np.array([[0, 2], [3, 1], [4, 0]])


def model(text: str = JOINED, inputs: str = INPUTS, **known: Data) -> onnx.ModelProto:
    used = {"last": np.array([-1]), "two": np.array(2), "first": np.array([0])} | known
    used = {name: data for name, data in used.items() if f"{name})" in text or f"{name}," in text}
    return parse(f"g ({inputs}) => (y) {{ {text} }}", **used)


def test_arrays() -> None:
    assert found(model()) == ["onnxlift.Index"]
    assert found(model(JOINED.replace("axis = -1", "axis = 1"))) == ["onnxlift.Index"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v = Unsqueeze(j, last)", "v = Gather(j, turned)"),  # another way to get an axis
        ("(u, v)", "(u, pairs)"),
    ],
)
def test_other_parts(old: str, new: str) -> None:
    known = {"turned": np.array([[2], [0], [1]]), "pairs": PAIRS}
    assert found(model(JOINED.replace(old, new), **known))[-1] == "GatherND"


def test_what_made_an_array_is_part_of_it() -> None:
    text = JOINED.replace("u = Unsqueeze(i", "h = Mod(i, two) u = Unsqueeze(h")
    assert found(model(text)) == ["Mod", "onnxlift.Index"]


def test_a_part_that_is_no_array() -> None:
    text = JOINED.replace("v = Unsqueeze(j, last)", "v = Neg(j) ").replace("(x, k)", "(x, k)")
    proto = model(text, "float[5, 6, 7] x, int64[3] i, int64[3, 1] j")
    assert found(proto)[-1] == "GatherND"


def test_a_part_of_several_columns() -> None:
    text = """e = Expand(i, wide) u = Unsqueeze(e, first) v = Unsqueeze(j, last)
        k = Concat <axis = -1> (u, v) y = GatherND(x, k)"""
    proto = model(text, "float[5, 6, 7] x, int64[1] i, int64[1, 3] j", wide=np.array([3, 2]))
    assert found(proto)[-1] == "GatherND"


def test_an_array_that_gets_another_axis_too() -> None:
    text = JOINED.replace("Unsqueeze(j, last)", "Unsqueeze(j, both)")
    proto = model(text, "float[5, 6, 7] x, int64[1, 3] i, int64[3] j", both=np.array([0, 2]))
    assert found(proto) == ["onnxlift.Index"]


def test_nothing_joined_along_another_axis() -> None:
    text = "h = Slice(i, first, first) u = Unsqueeze(h, last) k = Concat <axis = 0> (u, u) y = GatherND(x, k)"
    assert unsimplified.found(model(text))[-1] == "GatherND"


def test_an_array_of_unknown_shape() -> None:
    text = JOINED.replace("u = Unsqueeze(i", "e = Expand(i, three) u = Unsqueeze(e")
    proto = model(text, "float[5, 6, 7] x, int64[] i, int64[3] j", three=np.array([3]))
    assert found(proto)[-1] == "GatherND"


def test_batch_dimensions() -> None:
    text = JOINED.replace("GatherND(", "GatherND <batch_dims = 1> (")
    proto = model(text, "float[3, 6, 7, 8] x, int64[3] i, int64[3] j")
    assert found(proto)[-1] == "GatherND"


@pytest.mark.parametrize(
    ("name", "data", "op_type"),
    [
        ("val_3", PAIRS, "onnxlift.Index"),
        ("pairs", PAIRS, "GatherND"),
        ("val_3", PAIRS[0], "GatherND"),
        ("val_3", np.zeros((2, 9), np.int64), "GatherND"),
    ],
    ids=["pairs", "named", "one pair", "many axes"],
)
def test_constants(name: str, data: np.ndarray, op_type: str) -> None:
    shape = "5, 6, 7" if data.shape[-1] == 2 else ", ".join("222222222")
    proto = model(f"y = GatherND(x, {name})", f"float[{shape}] x", **{name: data})
    assert found(proto) == [op_type]


def test_constants_of_a_node() -> None:
    text = "k = Constant <value = int64[3, 2] {0, 2, 3, 1, 4, 0}> () y = GatherND(x, k)"
    assert found(model(text, "float[5, 6, 7] x")) == ["onnxlift.Index"]

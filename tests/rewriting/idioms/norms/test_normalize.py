"""Vectors divided by their length, and by other numbers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriting.idioms.recognising import Data, found, parse, simplified

NORM = "n = ReduceL2 <keepdims = 1> (x, axis) c = Max(n, eps) y = Div(x, c)"


def model(body: str = NORM, shape: str = "batch, seq, 6", more: str = "", **changed: Data) -> onnx.ModelProto:
    known: dict[str, Data] = {"axis": np.array([1]), "eps": 1e-3, "large": 3.0} | changed
    used = {name: value for name, value in known.items() if f" {name})" in body or f" {name}," in body}
    return parse(f"g (float[{shape}] x) => (float[{shape}] y{more}) {{ {body} }}", **used)


@pytest.mark.parametrize(
    "known",
    [{}, {"eps": 2.0}, {"eps": 0.0}, {"eps": -1.0}, {"eps": -np.inf}, {"axis": np.array([-1])}],
    ids=["least", "that matters", "none", "below all lengths", "lower still", "from the end"],
)
def test_vectors_over_their_length(known: dict[str, Data]) -> None:
    assert found(model(**known)) == ["onnxlift.Normalize"]


@pytest.mark.parametrize(
    ("old", "new", "shape"),
    [
        ("Max(n, eps)", "Max(n, eps, large)", "batch, seq, 6"),
        ("Max(n, eps)", "Max(n)", "batch, seq, 6"),
        ("keepdims = 1", "keepdims = 0", "6, 6"),
    ],
    ids=["two bounds", "no bound", "along another axis"],
)
def test_other_lengths_stay(old: str, new: str, shape: str) -> None:
    assert "onnxlift.Normalize" not in found(model(NORM.replace(old, new), shape))


@pytest.mark.parametrize("value", ["n", "c"])
def test_what_is_read_elsewhere_stays(value: str) -> None:
    assert "onnxlift.Normalize" not in found(model(f"{NORM} o = Exp({value})", more=", float[batch, 1, 6] o"))


@pytest.mark.parametrize(
    ("dtype", "operator"), [("float16", "Div"), ("int32", "Div"), ("double", "Normalize")], ids=lambda each: str(each)
)
def test_types(dtype: str, operator: str) -> None:
    eps = np.array(1, onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(dtype.upper())))
    text = f"g ({dtype}[batch, seq, 6] x) => ({dtype}[batch, seq, 6] y) {{ {NORM} }}"
    assert [node.op_type for node in simplified(parse(text, axis=np.array([1]), eps=eps)).graph][-1] == operator

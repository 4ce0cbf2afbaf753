from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift

from .recognising import found, parse

INPUTS = "float[batch, 7, 4] x, float[batch, 7] t, int64[batch] i"
COLUMN = "j = ArgMax <axis = -1, keepdims = 0> (t)"
PICK = "f = Flatten <axis = 2> (x) r = Mul(i, width) k = Add(j, r) y = Gather(f, k)"


def model(body: str, outputs: str = "float[batch, 4] y", width: object = 7, **constants: object) -> onnx.ModelProto:
    known = {"width": np.array(width), **constants}
    used = {name: value for name, value in known.items() if name in body}
    text = f"g ({INPUTS.replace('batch', '5')}) => ({outputs.replace('batch', '5')}) {{ {body} }}"
    return parse(text, 18, **used)


@pytest.mark.parametrize("column", [COLUMN, "j = Mod(i, width)"])
@pytest.mark.parametrize("width", [7, [7]])
def test_rows_and_columns(column: str, width: object) -> None:
    proto = model(f"{column} {PICK}", width=width)
    assert found(proto)[-1] == "onnxlift.Index"
    assert ".flatten(" not in onnxlift.lift(proto).source


def test_rows_that_were_folded() -> None:
    body = f"{COLUMN} f = Flatten <axis = 2> (x) k = Add(j, val_1) y = Gather(f, k)"
    assert found(model(body, val_1=np.arange(5) * 7))[-1] == "onnxlift.Index"
    assert found(model(body, val_1=np.arange(5) * 6))[-1] == "Gather"


@pytest.mark.parametrize(
    "body",
    [
        f"j = Identity(i) {PICK}",
        f"j = ArgMax <axis = 0, keepdims = 0> (x) {PICK.replace('j, r', 'i, r')} z = Identity(j)",
        f"{COLUMN} {PICK.replace('Mul(i, width)', 'Mul(i, six)')}",
        f"j = Mod(i, six) {PICK}",
    ],
)
def test_not_if_a_column_may_be_out_of_range_or_the_width_is_another(body: str) -> None:
    proto = model(body, "float[batch, 4] y" + (", int64[7, 4] z" if " z = " in body else ""), six=np.array(6))
    assert "onnxlift.Index" not in found(proto)


def test_constants_for_axes_that_were_brought_to_the_front() -> None:
    body = """a = Transpose <perm = [1, 2, 0]> (x) f = Flatten <axis = 2> (a) p = Gather(f, val_1)
        y = Transpose <perm = [1, 0]> (p)"""
    proto = model(body, "float[batch, 3] y", val_1=np.array([4, 13, 9]))
    assert found(proto) == ["onnxlift.Index"]
    proto = model(body, "float[batch, 3] y", named=np.array([4, 13, 9]), val_1=np.array([4, -1, 9]))
    assert "onnxlift.Index" not in found(proto)


def test_constant_for_merged_axes_alone_is_left() -> None:
    body = "f = Flatten <axis = 2> (x) y = Gather(f, val_1)"
    assert "onnxlift.Index" not in found(model(body, "float[3, 4] y", val_1=np.array([4, 13, 9])))

"""Arithmetic with tensors that have one number everywhere."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from rewriting.idioms.recognising import assert_same_numbers, parse

FILL = "s = Shape(x) f = ConstantOfShape <value = float[1] {2.5}> (s) y = Add(f, c) z = Mul(x, y)"


def model(body: str, number: object = 0.3, kind: str = "float", opset: int = 18) -> onnx.ModelProto:
    return parse(f"g ({kind}[batch, seq] x) => ({kind}[batch, seq] z, {kind}[r, c] y) {{ {body} }}", opset, c=number)


@pytest.mark.parametrize("opset", [9, 18])
@pytest.mark.parametrize("arithmetic", ["Add(f, c)", "Sub(f, c)", "Sub(c, f)", "Mul(c, f)", "Div(f, c)", "Div(c, f)"])
def test_the_number_is_computed(arithmetic: str, opset: int) -> None:
    proto = model(FILL.replace("Add(f, c)", arithmetic), opset=opset)
    assert_same_numbers(proto, rtol=0, atol=0)
    assert "torch.full_like(x, " in (source := onnxlift.lift(proto).source), source


def test_a_fill_without_a_number_is_of_zeros() -> None:
    proto = model(FILL.replace(" <value = float[1] {2.5}>", ""), 8.0)
    assert_same_numbers(proto)
    assert "torch.full_like(x, 8.0)" in onnxlift.lift(proto).source


@pytest.mark.parametrize(
    "proto",
    [
        model(FILL, np.array([[[0.3]]], np.float32)),
        model(FILL, np.arange(1, 6, dtype=np.float32)),
        model(FILL.replace("Add", "Pow")),
        model(FILL.replace("ConstantOfShape <value = float[1] {2.5}> (s)", "Exp(x)")),
        model(FILL.replace("float[1] {2.5}", "int64[1] {2}"), np.array(3), "int64"),
    ],
    ids=["more axes", "more numbers", "other arithmetic", "no fill", "integers"],
)
def test_others_stay(proto: onnx.ModelProto) -> None:
    source = onnxlift.lift(proto).source
    assert "+ " in source or "** " in source, source

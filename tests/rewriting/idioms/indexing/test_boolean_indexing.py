"""Masks that exporters turn into the places where they are true."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from rewriting.idioms.recognising import found, parse, simplified
from rewriting.idioms.unsimplified import found as found_unsimplified

PLACES = "n = NonZero(m) p = Transpose <perm = [1, 0]> (n)"


def masked(
    body: str, data: str = "batch, seq", mask: str = "batch, seq", output: str = "float[k] y", dtype: str = "bool"
) -> onnx.ModelProto:
    header = f"g (float[{data}] x, {dtype}[{mask}] m) => ({output})"
    return parse(f"{header} {{ {PLACES} {body} }}", zero=np.zeros((), np.float32), flat=np.array([-1]))


def source(model: onnx.ModelProto) -> str:
    return onnxlift.lift(model).source


def test_places() -> None:
    model = masked("y = Identity(p) z = Identity(x)", output="int64[k, 2] y, float[batch, seq] z")
    assert found(model)[0] == "onnxlift.Places"
    assert "return m.nonzero(), x" in source(model)


def test_places_in_another_order_or_read_as_they_were() -> None:
    other = parse("g (bool[batch, seq] m) => (int64[2, k] y) { n = NonZero(m) y = Transpose <perm = [0, 1]> (n) }")
    assert found(other) == ["NonZero"]
    both = masked("y = GatherND(x, p)", output="float[k] y, int64[2, k] n")
    assert found(both) == ["NonZero", "Transpose", "GatherND"]


@pytest.mark.parametrize(
    ("data", "output"),
    [("batch, seq", "float[k] y"), ("batch, seq, 3", "float[k, 3] y"), ("batch, seq, 1", "float[k, 1] y")],
)
def test_elements_of_a_mask(data: str, output: str) -> None:
    model = masked("y = GatherND(x, p)", data, output=output)
    assert found(model) == ["onnxlift.Masked"]
    assert "return x[m]" in source(model)


def test_places_that_somebody_else_reads() -> None:
    model = masked("y = GatherND(x, p)", output="float[k] y, int64[k, 2] p")
    assert found(model) == ["onnxlift.Places", "onnxlift.Masked"]


@pytest.mark.parametrize(
    ("data", "mask", "dtype"),
    [
        ("7, 8", "batch, seq", "bool"),  # a mask of some of the rows only
        ("batch, seq", "batch, seq", "int64"),
        ("batch, seq", "batch, seq", "float"),
        ("seq, keys", "seq, seq", "bool"),
    ],
)
def test_no_mask_of_the_data(data: str, mask: str, dtype: str) -> None:
    assert found(masked("y = GatherND(x, p)", data, mask, dtype=dtype))[-1] == "GatherND"


def test_batch_dimensions_are_another_thing() -> None:
    text = f"g (float[5, 5] x, bool[5] m) => (float[5] y) {{ {PLACES} y = GatherND <batch_dims = 1> (x, p) }}"
    assert [node.op_type for node in simplified(parse(text)).graph] == ["Places", "GatherND"]


FILLED = "b = Reshape(m, flat) c = Cast <to = 7> (b) s = ReduceSum(c) e = Expand(zero, s) "


def test_a_number_where_a_mask_says_so() -> None:
    model = masked(FILLED + "y = ScatterND(x, p, e)", output="float[batch, seq] y")
    assert found(model) == ["Where"]
    assert "torch.where(m, 0, x)" in source(model)


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (FILLED + 'y = ScatterND <reduction = "add"> (x, p, e)', "batch, seq"),
        ("g = GatherND(x, p) e = Neg(g) y = ScatterND(x, p, e)", "batch, seq"),
        ("g = GatherND(x, p) e = Neg(g) y = ScatterND(x, p, e)", "batch, seq, 3"),
    ],
)
def test_something_else_where_a_mask_says_so(body: str, data: str) -> None:
    assert found(masked(body, data, output=f"float[{data}] y"))[-1] == "ScatterND"


def test_a_filler_with_an_axis() -> None:
    proto = masked(FILLED.replace("(zero, s)", "(five, s)") + "y = ScatterND(x, p, e)", output="float[batch, seq] y")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([5], np.float32), "five"))
    assert found(proto)[-1] == "Where"


def test_a_mask_of_rows_to_write_to() -> None:
    rows = FILLED.replace("e = Expand(zero, s)", "t = Concat <axis = 0> (s, three) e = Expand(zero, t)")
    proto = masked(
        rows.replace("ReduceSum(c)", "ReduceSum(c) ") + "y = ScatterND(x, p, e)", "batch, seq, 3", output="y"
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([3]), "three"))
    assert found(proto)[-1] == "ScatterND"


def test_a_mask_that_is_one_boolean() -> None:
    text = "g (float[batch] x, float s) => (y) { c = IsNaN(s) m = Not(c) PLACES y = GatherND(x, p) }"
    graph = simplified(parse(text.replace("PLACES", PLACES)))
    assert [node.op_type for node in graph.graph][-1] == "GatherND"


def test_text_is_no_tensor() -> None:
    proto = parse(f"g (string[batch, seq] x, bool[batch, seq] m) => (y) {{ {PLACES} y = GatherND(x, p) }}")
    assert [node.op_type for node in simplified(proto).graph][-1] == "GatherND"


def test_another_order_of_three_axes() -> None:
    proto = parse("g (float[batch, seq] x) => (y) { y = Transpose <perm = [1, 0]> (x) }")
    assert found(proto) == ["Transpose"]


def test_places_in_their_own_order_stay_without_the_simplifier() -> None:
    text = "g (bool[batch, seq] m) => (int64[2, k] y) { n = NonZero(m) y = Transpose <perm = [0, 1]> (n) }"
    assert "NonZero" in found_unsimplified(parse(text))

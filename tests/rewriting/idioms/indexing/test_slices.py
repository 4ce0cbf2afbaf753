"""Cuts along several axes are one; those that others read, or along one axis twice, stay."""

from __future__ import annotations

import numpy as np
import onnx

import onnxlift
from rewriting.idioms.recognising import found, parse


def model(body: str, outputs: str = "") -> onnx.ModelProto:
    text = f"g (float[batch, 7, 9] x) => (float[p, q, r] y{outputs}) {{ {body} }}"
    known = {"zero": [0], "one": [1], "two": [2], "last": [-1], "five": [5], "end": [2**31], "minus": [-9]}
    return parse(text, **{name: np.array(value) for name, value in known.items()})


def test_cuts_along_two_axes_are_one() -> None:
    body = "a = Slice(x, one, end, one, two) y = Slice(a, zero, five, last, two)"
    assert found(model(body)) == ["Slice"]


def test_bounds_that_are_computed() -> None:
    """As `mask[:seq, :seq]` has them; the numbers of the axes need not rise."""
    size = "n = Shape <start = 0, end = 1> (x)"
    for first, second in (("one", "two"), ("last", "one")):
        body = f"{size} a = Slice(x, zero, n, {first}, one) y = Slice(a, one, n, {second}, one)"
        assert found(model(body)).count("Slice") == 1


def test_cuts_that_begin_with_one_are_two() -> None:
    rows = "a = Slice(x, one, end, one, two)"
    columns = "b = Slice(a, zero, end, two, two) c = Slice(a, one, end, two, two)"
    assert found(model(f"{rows} {columns} y = Concat <axis = 2> (b, c)")) == ["Slice", "Slice", "Concat"]


def test_a_cut_backwards() -> None:
    body = "a = Slice(x, last, minus, one, last) y = Slice(a, two, five, two)"
    assert found(model(body)) == ["Slice"]


def test_two_cuts_along_one_axis_stay() -> None:
    body = "a = Slice(x, one, end, two, one) y = Slice(a, zero, end, last, two)"
    assert found(model(body)) == ["Slice", "Slice"]


def test_a_cut_that_others_read_stays() -> None:
    body = "a = Slice(x, one, five, one, one) b = Slice(a, zero, two, two, one) s = ReduceSum(a) y = Mul(b, s)"
    assert found(model(body)).count("Slice") == 2


def test_a_cut_that_is_an_output_stays() -> None:
    body = "a = Slice(x, one, five, one, one) y = Slice(a, zero, two, two, one)"
    proto = model(body, ", float[s, t, u] a")
    assert found(proto) == ["Slice", "Slice"]
    assert "a[..., :2]" in (source := onnxlift.lift(proto).source), source


def test_cuts_of_all_axes_from_the_first_on_stay() -> None:
    """Their axes are not written down."""
    assert found(model("a = Slice(x, one, five, two) y = Slice(a, zero, one)")) == ["Slice", "Slice"]


def test_bounds_that_are_attributes_stay() -> None:
    text = "a = Slice <starts = [1], ends = [5], axes = [1]> (x) y = Slice <starts = [1], ends = [5], axes = [2]> (a)"
    assert found(parse(f"g (float[batch, 7, 9] x) => (y) {{ {text} }}", 9)) == ["Slice", "Slice"]


def test_bounds_of_two_types_stay() -> None:
    text = "a = Slice(x, s, five, one) y = Slice(a, zero, five, two)"
    known = {"five": np.array([5], np.int32), "one": np.array([1], np.int32)}
    more = {"zero": np.array([0]), "two": np.array([2])}
    operators = found(
        parse(
            f"g (float[batch, 7, 9] x, int32[1] s) => (y) {{ {text.replace('zero, five, two', 'zero, end, two')} }}",
            end=np.array([5]),
            **known,
            **more,
        )
    )
    assert operators == ["Slice", "Slice"]


def test_a_cut_that_is_padded_afterwards() -> None:
    text = "a = Slice(x, one, five, one) y = Pad(a, both, fill, two)"
    known = {"one": [1], "five": [5], "both": [1, 2], "two": [2]}
    proto = parse(
        f"g (int64[batch, 7, 9] x) => (y) {{ {text} }}", fill=np.int64(3), **{n: np.array(v) for n, v in known.items()}
    )
    assert found(proto) == ["Slice", "Pad"]


def test_bounds_of_which_some_are_computed() -> None:
    text = "a = Slice(x, s, e, one) y = Slice(a, zero, five, two)"
    known = {"one": [1], "zero": [0], "five": [5], "two": [2]}
    proto = parse(
        f"g (float[batch, 7, 9] x, int64[1] s, int64[1] e) => (y) {{ {text} }}",
        **{n: np.array(v) for n, v in known.items()},
    )
    assert found(proto).count("Slice") == 1


def test_a_cut_that_others_read_beside_numbers_stays() -> None:
    """The other reader has constants where a Slice has its bounds and its axes."""
    body = "a = Slice(x, one, five, one, one) b = Slice(a, zero, two, two, one) m = Max(a, one, one, two)"
    proto = parse(
        f"g (int64[batch, 7, 9] x) => (b, m) {{ {body} }}",
        **{name: np.array([number]) for name, number in {"zero": 0, "one": 1, "two": 2, "five": 5}.items()},
    )
    assert found(proto).count("Slice") == 2
    assert "a[..., :2]" in (source := onnxlift.lift(proto).source), source

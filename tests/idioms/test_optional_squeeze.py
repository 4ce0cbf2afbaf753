"""Axes that go if they have one element: `x.squeeze(1)` where the exporter does not know the size."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift

from .recognising import Data, found, parse

TEXT = """s = Shape(X) n = Gather(s, i) c = Equal(n, one)
    y = If (c) <
        then_branch = t () => (float[a, b] p) { p = Squeeze(x, axes) },
        else_branch = e () => (float[a, b, c] q) { q = Identity(x) }
    >
    z = Neg(y)"""


def squeezed(text: str = TEXT, shape: str = "batch, seq, 3", **other: Data) -> onnx.ModelProto:
    constants: dict[str, Data] = {"i": np.array(1), "one": np.array(1), "axes": np.array([1])} | other
    used = {name: value for name, value in constants.items() if f"{name})" in text}
    return parse(f"g (float[{shape}] x, float[3, seq] w) => (z) {{ {text.replace('X', 'x')} }}", **used)


@pytest.mark.parametrize(("i", "axis"), [(1, 1), (-2, 1), (1, -2)])
@pytest.mark.parametrize("shape", ["batch, seq, 3", "batch, any, 3"])
def test_the_axis_that_is_asked_for(i: int, axis: int, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ({"batch": 2, "seq": 5, "any": 1}, {"batch": 3, "seq": 4, "any": 1})
    monkeypatch.setattr("idioms.recognising.SIZES", sizes)
    proto = squeezed(shape=shape, i=np.array(i), axes=np.array([axis]))
    assert found(proto) == ["onnxlift.OptionalSqueeze", "Neg"]
    assert f"x.squeeze({axis})" in onnxlift.lift(proto).source


def test_a_condition_in_a_list() -> None:
    assert found(squeezed(i=np.array([1]), one=np.array([1]))) == ["onnxlift.OptionalSqueeze", "Neg"]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (TEXT, {"one": np.array(99)}),  # another number
        (TEXT, {"i": np.array(0), "one": np.array(1)}),  # the size of another axis
        (TEXT.replace("Shape(X)", "Shape(w)"), {"i": np.array(1)}),  # of another tensor
        (TEXT.replace("Identity(x)", "Exp(x)"), {}),
        (TEXT.replace("Squeeze(x, axes)", "Squeeze(w, axes)"), {"i": np.array(1)}),
    ],
    ids=["number", "axis", "tensor", "else", "then"],
)
def test_other_branches_stay(text: str, other: dict[str, object]) -> None:
    assert "onnxlift.OptionalSqueeze" not in found(squeezed(text, **other))


def test_the_number_of_axes_has_a_name() -> None:
    text = """x = Reshape(o, d) s = Shape(x) n = Size(s) two = Constant <value_int = 2> () c = Equal(n, two) c2 = Not(c)
        y = If (c2) <
            then_branch = t () => (float[a, b] p) { p = Neg(x) }, else_branch = e () => (float[a, b] q) { q = Exp(x) }
        >"""
    proto = parse(f"g (float[total] o, int64[r] d) => (y) {{ {text} }}")
    source = onnxlift.lift(proto).source
    assert "if x.ndim != 2:" in source and "len(" not in source

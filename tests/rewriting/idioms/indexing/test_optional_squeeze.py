"""Axes that go if they have one element: `x.squeeze(1)` where the exporter does not know the size."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from rewriting.idioms import unsimplified
from rewriting.idioms.recognising import Data, found, parse, simplified

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
    monkeypatch.setattr("rewriting.idioms.recognising.SIZES", sizes)
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


def test_the_same_axis_of_what_has_unknown_axes() -> None:
    def operators(**other: Data) -> list[str]:
        text = TEXT.replace("X", "x")
        known = {"i": np.array(1), "one": np.array(1), "axes": np.array([1])} | other
        return [node.op_type for node in simplified(parse(f"g (float[] x) => (z) {{ {text} }}", **known)).graph]

    assert operators()[0] == "OptionalSqueeze"
    assert "If" in operators(i=np.array(-2))
    assert "If" in operators(i=np.array(0))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("p = Squeeze(x, axes)", "o = Squeeze(x, axes) p = Neg(o)"),
        ("p = Squeeze(x, axes)", "p = Constant <value = float[1, 1] {1.5}> ()"),
        ("q = Identity(x)", "q = Constant <value = float[1, 1, 1] {1.5}> ()"),
        ("q = Identity(x)", "q = Neg(x)"),
        ("p = Squeeze(x, axes)", "p = ReduceL1 <keepdims = 0> (x, axes)"),
        ("Shape(X)", "Shape <start = 1> (X)"),
    ],
)
def test_other_branches_and_questions(old: str, new: str) -> None:
    assert old in TEXT
    proto = squeezed(TEXT.replace(old, new), "batch, seq, keys")
    assert "onnxlift.OptionalSqueeze" not in found(proto)
    assert "onnxlift.OptionalSqueeze" not in unsimplified.found(proto)


def test_two_axes_two_questions_and_text() -> None:
    def operators(text: str = TEXT, x: str = "float", **other: Data) -> list[str]:
        known = {"i": np.array(1), "one": np.array(1), "axes": np.array([1])} | other
        text = text.replace("X", "x").replace("float", x)
        return [n.op_type for n in simplified(parse(f"g ({x}[batch, seq, keys] x) => (y) {{ {text} }}", **known)).graph]

    text = TEXT.replace("z = Neg(y)", "")
    assert "OptionalSqueeze" in operators(text)
    assert "If" in operators(text, axes=np.array([1, 2]))
    assert "If" in operators(text, i=np.array([1, 0]))
    assert "If" in operators(text, "string")


def test_two_results() -> None:
    text = TEXT.replace("y = If", "y, w2 = If").replace("[a, b] p) { p", "[a, b] p, float[a, b] p2) { p2 = Neg(w) p")
    text = text.replace("[a, b, c] q) { q", "[a, b, c] q, float[a, b] q2) { q2 = Exp(w) q")
    proto = squeezed(f"{text} o = Abs(w2)")
    proto.graph.output.add(name="o")
    assert "onnxlift.OptionalSqueeze" not in found(proto)


def test_a_constant_beside() -> None:
    """A branch has one node, and a second result that no node makes."""
    text = TEXT.replace("y = If", "y, w2 = If")
    text = text.replace("[a, b] p) { p", "[a, b] p, float[2] p2) <float[2] p2 = {1.5, 2.5}> { p")
    text = text.replace("[a, b, c] q) { q", "[a, b, c] q, float[2] q2) <float[2] q2 = {0.5, 3.5}> { q")
    proto = squeezed(f"{text} o = Abs(w2)")
    proto.graph.output.add(name="o")
    assert "onnxlift.OptionalSqueeze" not in found(proto)


def test_an_operator_of_somebody_else() -> None:
    text = TEXT.replace("X", "x").replace("If (c)", "acme.If (c)")
    known = {"i": np.array(1), "one": np.array(1), "axes": np.array([1])}
    proto = parse(f"g (float[batch, seq, keys] x) => (z) {{ {text} }}", **known)
    proto.opset_import.add(domain="acme", version=1)
    assert ("acme", "If") in [(node.domain, node.op_type) for node in simplified(proto).graph]

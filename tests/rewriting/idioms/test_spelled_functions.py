"""Functions of PyTorch that exporters write in their parts."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from rewriting.idioms.recognising import assert_same_numbers, parse

CONSTANTS = {"l": 0.3, "minus": -0.3, "zero": 0.0, "one": 1.0, "b": 2.0, "t": 1.5, "small": 1e-6, "last": np.array([2])}


def model(text: str, outputs: str = "float[batch, seq, 8] y", **constants: object) -> onnx.ModelProto:
    known = {name: value for name, value in (CONSTANTS | constants).items() if f"{name})" in text or f"{name}," in text}
    inputs = (
        "float[batch, seq, 8] x, float[batch, seq, 8] z"
        if "z" in text.replace("zero", "")
        else "float[batch, seq, 8] x"
    )
    return parse(f"g ({inputs}) => ({outputs}) {{ {text} }}", **known)


def result(proto: onnx.ModelProto) -> str:
    """What the forward returns, of a model whose numbers are right."""
    assert_same_numbers(proto)
    lines = onnxlift.lift(proto).source.splitlines()
    return next(line.strip().removeprefix("return ") for line in lines if line.strip().startswith("return "))


SOFTSIGN = "a = Abs(x) d = Add(a, one) y = Div(x, d)"
TANHSHRINK = "a = Tanh(x) y = Sub(x, a)"
HARD = "a = Abs(x) c = LessOrEqual(a, l) y = Where(c, zero, x)"
HARD_SIDES = "a = Greater(x, l) d = Less(x, minus) c = Or(a, d) y = Where(c, x, zero)"
SOFT = """a = Abs(x) c = Greater(a, l) s = Sign(x) m = Mul(s, l) d = Sub(x, m) n = Mul(x, zero)
    y = Where(c, d, n)"""
SOFT_SIDES = """a = Greater(x, l) d = Sub(x, l) p = Where(a, d, zero)
    c = Less(x, minus) e = Add(x, l) q = Where(c, e, zero) y = Add(p, q)"""
GUARDED = "s = Mul(x, b) p = Softplus(s) d = Div(p, b) c = Greater(s, t) y = Where(c, x, d)"
SCALED = "s = Mul(x, b) p = Softplus(s) y = Div(p, b)"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (SOFTSIGN, "F.softsign(x)"),
        (SOFTSIGN.replace("(a, one)", "(one, a)"), "F.softsign(x)"),
        (TANHSHRINK, "F.tanhshrink(x)"),
        (HARD, "F.hardshrink(x, 0.3)"),
        (HARD_SIDES, "F.hardshrink(x, 0.3)"),
        (SOFT, "F.softshrink(x, 0.3)"),
        (SOFT_SIDES, "F.softshrink(x, 0.3)"),
        (SOFT_SIDES.replace("Sub(x, l)", "Add(x, minus)"), "F.softshrink(x, 0.3)"),
        ("c = Greater(x, t) p = Softplus(x) y = Where(c, x, p)", "F.softplus(x, threshold=1.5)"),
        (GUARDED, "F.softplus(x, beta=2.0, threshold=1.5)"),
        (SCALED, "F.softplus(x, beta=2.0)"),
    ],
)
def test_activations(text: str, written: str) -> None:
    assert result(model(text)) == written


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (SOFTSIGN, "one", "b"),
        (SOFTSIGN, "Abs(x)", "Exp(x)"),
        (SOFTSIGN, "Div(x, d)", "Div(a, d)"),
        (TANHSHRINK, "Sub(x, a)", "Sub(a, x)"),
        (TANHSHRINK, "Tanh(x)", "Tanh(z)"),
        (HARD, "(c, zero, x)", "(c, x, zero)"),
        (HARD, "(c, zero, x)", "(c, one, x)"),
        (HARD, "(c, zero, x)", "(c, zero, z)"),
        (HARD, "(a, l)", "(a, minus)"),
        (HARD_SIDES, "(x, minus)", "(x, l)"),
        (HARD_SIDES, "(x, minus)", "(z, minus)"),
        (HARD_SIDES, "(c, x, zero)", "(c, x, one)"),
        (HARD_SIDES, "Or(", "And("),
        (SOFT, "(s, l)", "(s, t)"),
        (SOFT, "Sign(x)", "Sign(z)"),
        (SOFT, "Abs(x)", "Abs(z)"),
        (SOFT, "Mul(x, zero)", "Mul(z, zero)"),
        (SOFT, "Mul(x, zero)", "Mul(x, one)"),
        (SOFT_SIDES, "Add(x, l)", "Add(x, t)"),
        (SOFT_SIDES, "Add(x, l)", "Sub(x, l)"),
        (SOFT_SIDES, "Less(x, minus)", "Less(z, minus)"),
        (SOFT_SIDES, "(a, d, zero)", "(a, d, one)"),
        (GUARDED, "Div(p, b)", "Div(p, t)"),
        (SCALED, "Div(p, b)", "Div(p, t)"),
        (SCALED, "b", "minus"),
    ],
)
def test_what_is_no_such_activation(text: str, old: str, new: str) -> None:
    proto = model(text.replace(old, new))
    assert_same_numbers(proto)
    source = onnxlift.lift(proto).source
    assert "shrink" not in source and "softsign" not in source and "beta" not in source


@pytest.mark.parametrize(
    ("old", "new"), [("Greater(s, t)", "Greater(x, t)"), ("(c, x, d)", "(c, s, d)"), ("(c, x, d)", "(c, d, x)")]
)
def test_another_guard_stays(old: str, new: str) -> None:
    assert "torch.where" in result(model(GUARDED.replace(old, new)))


@pytest.mark.parametrize(
    ("text", "value"),
    [(SOFTSIGN, "d"), (TANHSHRINK, "a"), (HARD, "a"), (SOFT, "m"), (SOFT_SIDES, "p"), (GUARDED, "p"), (SCALED, "p")],
)
def test_what_is_read_elsewhere_stays(text: str, value: str) -> None:
    proto = model(f"{text} o = Identity({value})", "float[batch, seq, 8] y, float[batch, seq, 8] o")
    assert_same_numbers(proto)
    source = onnxlift.lift(proto).source
    assert "shrink" not in source and "softsign" not in source and "beta" not in source


NORM = "n = ReduceL1(x, last) c = Clip(n, small) y = Div(x, c)"
COSINE = """n = ReduceL2(x, last) c = Clip(n, small) p = Div(x, c)
    m = ReduceL2(z, last) d = Clip(m, small) q = Div(z, d)
    r = Mul(p, q) y = ReduceSum <keepdims = 0> (r, last)"""
DISTANCE = "d = Sub(x, z) s = Add(d, small) y = ReduceL2 <keepdims = 0> (s, last)"
ROWS = "float[batch, seq] y"


def test_a_sum_of_absolute_values_is_a_length() -> None:
    assert result(model(NORM)) == "F.normalize(x, p=1, dim=2, eps=1e-6)"


@pytest.mark.parametrize(
    ("text", "outputs", "written"),
    [
        (COSINE, ROWS, "F.cosine_similarity(x, z, dim=-1, eps=1e-6)"),
        (DISTANCE, ROWS, "F.pairwise_distance(x, z)"),
        (DISTANCE.replace("L2", "L1"), ROWS, "F.pairwise_distance(x, z, p=1)"),
        (DISTANCE.replace("= 0", "= 1"), "float[batch, seq, 1] y", "F.pairwise_distance(x, z, keepdim=True)"),
    ],
)
def test_distances(text: str, outputs: str, written: str) -> None:
    assert result(model(text, outputs)) == written


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (COSINE, "(r, last)", "(r, other)"),
        (COSINE, "Clip(m, small)", "Clip(m, t2)"),
        (COSINE, "(z, last)", "(z, other)"),
        (COSINE, "m = ReduceL2", "m = ReduceL1"),
        (COSINE, "= 0", "= 1"),
        (DISTANCE, "(s, last)", "(s, other)"),
        (DISTANCE, "small", "t2"),
    ],
)
def test_what_is_no_distance(text: str, old: str, new: str) -> None:
    proto = model(text.replace(old, new), "float[a, b, ...] y".replace(", ...", ""), other=np.array([1]), t2=1e-3)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    assert_same_numbers(proto)
    source = onnxlift.lift(proto).source
    assert "cosine" not in source and "pairwise" not in source


def test_vectors_of_two_shapes_stay() -> None:
    text = "g (float[batch, seq, 8] x, float[1, 8] z) => (float[batch, seq] y) {"
    proto = parse(f"{text} {DISTANCE} }}", small=1e-6, last=np.array([2]))
    assert "pairwise" not in result(proto)


SQUARES = """s = Mul(x, x) u = Unsqueeze(s, axis) d = Pad(u, pads) p = AveragePool <kernel_shape = [3, 1, 1]> (d)
    q = Squeeze(p, axis) m = Mul(q, alpha) k = Add(m, two) w = Pow(k, beta) y = Div(x, w)"""


def response(text: str = SQUARES, before: int = 1, after: int = 1) -> str:
    pads = np.array([0, 0, before, 0, 0, 0, 0, after, 0, 0])
    known = {"axis": np.array([1]), "alpha": 0.5, "two": 2.0, "beta": 0.7, "pads": pads, "five": 5.0}
    shape = "float[batch, 5, 6, 7]"
    return result(parse(f"g ({shape} x) => ({shape} y) {{ {text} }}", **known))


def test_local_response_norm() -> None:
    assert response() == "F.local_response_norm(x, 3, alpha=0.5, beta=0.7, k=2.0)"


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (SQUARES, 2, 0),
        (SQUARES.replace("(d)", "(d) ").replace("[3, 1, 1]", "[2, 1, 1]"), 1, 0),
        (SQUARES.replace("(u, pads)", "(u, pads, five)"), 1, 1),
        (SQUARES.replace("Div(x, w)", "Div(s, w)"), 1, 1),
        (SQUARES.replace("[3, 1, 1]", "[3, 1, 1], pads = [1, 0, 0, 1, 0, 0]"), 0, 0),
    ],
)
def test_what_is_no_local_response_norm(text: str, before: int, after: int) -> None:
    assert "local_response_norm" not in response(text, before, after)


def table(rows: int, columns: int, down: int, across: int) -> np.ndarray:
    return np.arange(rows)[:, None] * down + np.arange(columns) * across


@pytest.mark.parametrize(
    ("indices", "written"),
    [
        (table(3, 4, 2, 1), "x.unfold(-1, 4, 2)"),
        (table(5, 4, 1, 1), "x.unfold(-1, 4, 1)"),
        (table(2, 3, 4, 1), "x.unfold(-1, 3, 4)"),
        (table(2, 4, 2, 1), None),
        (table(3, 3, 2, 2), None),
        (table(3, 4, 2, 1)[::-1].copy(), None),
        (table(3, 4, 2, 1) + 1, None),
    ],
)
def test_windows(indices: np.ndarray, written: str | None) -> None:
    rows, columns = indices.shape
    indices = np.minimum(indices, 7)
    proto = model("y = Gather <axis = 2> (x, i)", f"float[batch, seq, {rows}, {columns}] y", i=indices)
    assert (result(proto) == written) if written else ("unfold" not in result(proto))


def test_windows_of_another_axis_stay() -> None:
    text = "g (float[batch, 8, 3] x) => (float[batch, 3, 4, 3] y) { y = Gather <axis = 1> (x, i) }"
    assert "unfold" not in result(parse(text, i=table(3, 4, 2, 1)))


IMAGE = """a = Pad(x, pads) b = Gather <axis = 2> (a, down) c = Gather <axis = 4> (b, across)
    t = Transpose <perm = [0, 1, 2, 4, 3, 5]> (c) y = Reshape(t, shape)"""


def unfolded(text: str = IMAGE, pads: tuple[int, ...] = (1, 2, 1, 2), **changed: np.ndarray) -> str:
    """Windows of 3 by 2 pixels at every second row and every third column of an image of 5 by 7 pixels."""
    above, left, below, right = pads
    known = {"down": table(3, 3, 1, 2), "across": table(2, 4, 1, 3), "shape": np.array([-1, 24, 12]), "five": 5.0}
    known |= {"pads": np.array([0, 0, above, left, 0, 0, below, right])} | changed
    return result(parse(f"g (float[batch, 4, 5, 7] x) => (float[batch, n, m] y) {{ {text} }}", **known))


def test_columns_of_an_image() -> None:
    assert unfolded() == "F.unfold(x, (3, 2), padding=(1, 2), stride=(2, 3))"


def test_columns_of_an_image_with_other_pads() -> None:
    assert "F.unfold(F.pad(x, (1, 3, 0, 2)), (3, 2), stride=(2, 3))" in unfolded(pads=(0, 1, 2, 3))
    assert unfolded(IMAGE.replace("(x, pads)", "(x, pads, five)")) == "F.unfold(a, (3, 2), stride=(2, 3))"


@pytest.mark.parametrize(
    "changed",
    [
        {"down": table(3, 2, 1, 2), "shape": np.array([-1, 24, 8])},
        {"across": table(2, 4, 1, 3)[:, ::-1].copy()},
        {"shape": np.array([-1, 12, 24])},
        {"text": IMAGE.replace("[0, 1, 2, 4, 3, 5]", "[0, 1, 4, 2, 3, 5]")},
    ],
)
def test_what_are_no_columns_of_an_image(changed: dict[str, object]) -> None:
    assert "unfold(" not in unfolded(**changed)


@pytest.mark.parametrize(
    ("largest", "written"), [(1, "x.sort(descending=True, stable=True)"), (0, "x.sort(stable=True)")]
)
def test_the_largest_of_all_are_sorted(largest: int, written: str) -> None:
    outputs = "float[batch, seq, 8] y, int64[batch, seq, 8] i"
    proto = model(f"y, i = TopK <largest = {largest}> (x, eight)", outputs, eight=np.array([8]))
    assert_same_numbers(proto)
    assert written in onnxlift.lift(proto).source


def test_the_order_of_all_alone() -> None:
    proto = model("v, y = TopK <largest = 0> (x, eight)", "int64[batch, seq, 8] y", eight=np.array([8]))
    assert result(proto) == "x.argsort(stable=True)"


def test_another_axis_is_sorted() -> None:
    shape = "float[batch, 8, 3]"
    text = f"g ({shape} x) => ({shape} y, int64[batch, 8, 3] i) {{ y, i = TopK <axis = 1> (x, eight) }}"
    proto = parse(text, eight=np.array([8]))
    assert_same_numbers(proto)
    assert "x.sort(dim=1, descending=True, stable=True)" in onnxlift.lift(proto).source

"""Sizes of made-up inputs: what the nodes of a model need, and who is at fault if ONNX Runtime refuses them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

import onnxlift
from onnxlift.errors import VerifyError
from onnxlift.verification.fitting import fit_sizes, size_in, symbols_in
from onnxlift.verification.inputs import choose_sizes
from onnxlift.verification.refusals import other_numbers, other_sizes


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}')


def sizes(text: str, **dims: int) -> dict[str, int]:
    return choose_sizes(onnxlift.lift(model(text)).model.graph, dims=dims).known


@pytest.mark.parametrize(
    ("text", "name", "least"),
    [
        ("g (float[n, 1, time] x, float[1, 1, 99] w) => (float[n, 1, f] y) { y = Conv(x, w) }", "time", 99),
        (
            "g (float[n, 1, time] x, float[1, 1, 9] w) => (float[n, 1, f] y) "
            "{ a = Conv<strides = [8]>(x, w) b = Conv<strides = [8]>(a, w) y = Conv<dilations = [2]>(b, w) }",
            "time",
            1033,
        ),
        (
            "g (float[rows] x) => (float[k] y, int64[k] i) { k = Constant<value_ints = [50]>() y, i = TopK(x, k) }",
            "rows",
            50,
        ),
        (
            "g (float[n, time] x) => (float[n, f] y) "
            '{ pads = Constant<value_ints = [0, 40, 0, 40]>() y = Pad<mode = "reflect">(x, pads) }',
            "time",
            41,
        ),
        (
            "g (float[n, time] x) => (float[n, f] y) { i = Constant<value_ints = [20]>() y = Gather<axis = 1>(x, i) }",
            "time",
            21,
        ),
    ],
)
def test_sizes_are_as_large_as_windows_and_choices_need(text: str, name: str, least: int) -> None:
    assert sizes(text)[name] >= least
    assert onnxlift.verify(model(text)).passed


def test_a_reshape_gets_as_many_elements_as_it_needs() -> None:
    text = "g (float[n, time] x) => (float[n, 4, 24] y) { s = Constant<value_ints = [0, 4, 24]>() y = Reshape(x, s) }"
    assert sizes(text)["time"] == 96
    assert onnxlift.verify(model(text)).passed


@pytest.mark.parametrize(
    ("node", "weight", "channels"),
    [
        ("y = Conv(x, w)", [4, 80, 1], 80),
        ("y = Conv<group = 4>(x, w)", [4, 6, 1], 24),
        ("y = ConvTranspose(x, w)", [48, 2, 1], 48),
        ("t = Transpose<perm = [0, 2, 1]>(x) y = MatMul(t, w)", [40, 3], 40),
        ("t = Transpose<perm = [2, 0, 1]>(x) y = GRU<hidden_size = 2>(t, w, r)", [1, 6, 28], 28),
        ("q, s, z = DynamicQuantizeLinear(x) i = ConvInteger(q, b, z) y = Cast<to = 1>(i)", [4, 80, 1], 80),
        (
            "q, s, z = DynamicQuantizeLinear(x) i = ConvInteger(q, b, z) f = Cast<to = 1>(i) "
            "h = Constant<value_float = 0.5>() m = Mul(s, h) y = Mul(f, m)",
            [4, 80, 1],
            80,
        ),
    ],
)
def test_channels_are_as_many_as_weights_take(node: str, weight: list[int], channels: int) -> None:
    inputs = "float[n, c, time] x"
    size = f"size = Constant<value_ints = [{', '.join(map(str, weight))}]>()"
    recurrent = "rs = Constant<value_ints = [1, 6, 2]>() r = ConstantOfShape(rs)" if "GRU" in node else ""
    whole = "b = ConstantOfShape<value = int8[1] {1}>(size)" if " b," in node else "w = ConstantOfShape(size)"
    outputs = "float[p, q, r1, r2] y" if "GRU" in node else "float[p, q, r1] y"
    text = f"g ({inputs}) => ({outputs}) {{ {size} {recurrent} {whole} {node} }}"
    assert sizes(text)["c"] == channels
    assert onnxlift.verify(model(text)).passed


def test_sizes_that_are_given_stay() -> None:
    text = "g (float[n, 1, time] x, float[1, 1, 99] w) => (float[n, 1, f] y) { y = Conv(x, w) }"
    assert sizes(text, time=120, n=3) == {"n": 3, "time": 120}


def test_sizes_are_expressions_of_others() -> None:
    assert size_in("(time - 399)//160 + 1", {"time": 719}) == 3
    assert size_in("max(a, 2*b) % 5", {"a": 1, "b": 4}) == 3
    assert size_in("time//zero", {"time": 3, "zero": 0}) is None
    assert size_in("other + 1", {"time": 3}) is None
    assert symbols_in("max(a, 2*b) + 1") == {"a", "b"}
    assert symbols_in("batch-size two") == {"batch-size two"}


def test_nothing_is_changed_where_all_fits() -> None:
    graph = onnxlift.lift(model("g (float[n, m] x) => (float[n, m] y) { y = Relu(x) }")).model.graph
    assert fit_sizes(graph, {"n": 2, "m": 3}, ()) == {"n": 2, "m": 3}


REFUSED = """g (float[n, time] x) => (float[a, b] y) {
    s = Shape(x) two = Constant<value_ints = [1000003]>() r = Mod(s, two) z = Constant<value_ints = [7, 11]>()
    q = Mul(r, z) m = Sub(q, q) t = Constant<value_ints = [3, 5]>() w = Add(m, t) c = Cast<to = 1>(x)
    f = NonZero(c) v = Reshape(f, w) y = Cast<to = 1>(v) }"""


def test_an_input_that_onnxruntime_refuses_too_is_at_fault_and_not_the_lifted_model() -> None:
    with pytest.raises(VerifyError) as raised:
        onnxlift.verify(model(REFUSED))
    message = str(raised.value)
    assert message.startswith(
        "an input that was made up is at fault, not the lifted model: ONNX Runtime refuses it too"
    )
    assert "Reshape" in message and "x (2, 7); x (1, 7)" in message
    assert "--shape x=..." in message and "--input" in message
    assert "unk__" not in message


def test_an_input_that_is_given_is_at_fault() -> None:
    text = "g (float[n, 1, time] x, float[1, 1, 99] w) => (float[n, 1, f] y) { y = Conv(x, w) }"
    with pytest.raises(VerifyError, match="an input is at fault, not the lifted model"):
        onnxlift.verify(model(text), dims={"n": 2, "time": 7})


def test_batches_become_one_and_other_sizes_grow() -> None:
    tried = list(other_sizes({"n": 2, "time": 7}, {"n"}))
    assert tried[0] == {"n": 1, "time": 7}
    assert tried[1] == {"n": 1, "time": 16} and tried[-1]["time"] > 10_000
    assert list(other_sizes({}, ())) == []
    assert {sizes["n"] for sizes in other_sizes({"n": 2}, {"n"})} > {1, 16}


def test_sizes_without_a_name_are_not_told_by_one() -> None:
    text = "g (float[?, 3] x) => (float[?, 3] y) { y = Relu(x) }"
    proto = model(text.replace("?", "q"))
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].ClearField("dim_param")
    with pytest.raises(VerifyError, match=r"declared as \(\?, 3\), which \(2, 4\) does not fit"):
        onnxlift.verify(proto, shapes={"x": (2, 4)})
    with pytest.raises(VerifyError, match=r"has 2 dimensions, \(\?, 3\), and not 1"):
        onnxlift.verify(proto, shapes={"x": (2,)})
    with pytest.raises(VerifyError, match=r"none has a name|have no names"):
        onnxlift.verify(proto, dims={"batch": 4})


SCALED = """g (float[1, 1, height, width] x, int32 dial) => (float[1, 1, h, w] y)
    <int64 thirty_two = {32}, int64[2] start = {1, 1}, int64[1] one = {1}>
    { wide = Cast<to = 7>(dial) size = Div(wide, thirty_two) list = Reshape(size, one)
      goal = Concat<axis = 0>(start, list, list) y = Resize(x, , , goal) }"""
"""The size of the result is a number that is an input: below 32 it is 0, which ONNX Runtime refuses."""


def test_an_integer_that_sizes_are_computed_from_grows_if_sizes_do_not_help() -> None:
    assert onnxlift.simplify(model(SCALED)).passed
    assert onnxlift.verify(model(SCALED)).passed


def test_an_integer_that_is_given_stays_at_fault() -> None:
    with pytest.raises(VerifyError, match="an input"):
        onnxlift.verify(model(SCALED), inputs={"dial": np.int32(3)})


def test_numbers_are_tried_with_the_sizes_as_they_are_and_as_large() -> None:
    tried = list(other_numbers({"n": 2, "k": 7}, {"n"}))
    assert tried[:2] == [({"n": 2, "k": 7}, 64), ({"n": 1, "k": 64}, 64)]

"""Constants without a name that act as weights, and those that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.ir.origin.metadata import FOLDED_FROM
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.rewriting.idioms.layers import channel_weights
from rewriting.idioms.recognising import assert_same_numbers, parse
from rewriting.running_stages import normalise

C = "const_fold_opt__12"
RNG = np.random.default_rng(4)


def rand(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape).astype(np.float32)


def model(body: str, constant: np.ndarray[Any, Any], producer: str = "tf2onnx", **more: Any) -> onnx.ModelProto:
    """A graph whose `c` is a constant with a name that tf2onnx made up."""
    text = f"g (float[batch, 3, 8, 8] x, float[batch, 5] r) => (float[a] y) {{ {body} }}"
    known = {"W": rand(4, 3, 3, 3), "M": rand(5, 4), "last": np.array([-1]), "places": np.array([2, 3]), **more}
    proto = parse(text, **{name: data for name, data in known.items() if name in _words(body)}, c=constant)
    proto.producer_name = producer
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    for node in proto.graph.node:
        node.input[:] = [C if name == "c" else name for name in node.input]
    next(tensor for tensor in proto.graph.initializer if tensor.name == "c").name = C
    return proto


def _words(body: str) -> set[str]:
    return set("".join(letter if letter.isalnum() else " " for letter in body).split())


CONV = "h = Conv(x, W)"
LINEAR = "h = MatMul(r, M)"


@pytest.mark.parametrize(
    ("body", "shape", "word"),
    [
        (f"{CONV} y = Mul(h, c)", (4, 1, 1), "scale"),
        (f"{CONV} y = Mul(c, h)", (1, 4, 1, 1), "scale"),
        (f"{CONV} a = Relu(h) y = Sub(a, c)", (4, 1, 1), "shift"),
        (f"{CONV} a = Relu(h) y = Sub(c, a)", (4, 1, 1), "shift"),
        (f"{CONV} a = Relu(h) y = Div(a, c)", (4, 1, 1), "divisor"),
        (f"{CONV} a = Relu(h) y = Add(a, c)", (4, 1, 1), "bias"),
        (f"{CONV} t = Transpose <perm = [0, 2, 3, 1]> (h) y = Mul(t, c)", (4,), "scale"),
        (f"{CONV} p = GlobalAveragePool(h) s = Squeeze(p, places) y = Mul(s, c)", (4,), "scale"),
        (f"{CONV} p = ReduceMax <keepdims = 0> (h, places) y = Mul(p, c)", (4,), "scale"),
        (f"{CONV} p = ReduceMax(h, places) y = Mul(p, c)", (4, 1, 1), "scale"),
        (f"{CONV} u = Unsqueeze(h, last) y = Mul(u, c)", (4, 1, 1, 1), "scale"),
        (f"{CONV} a = Add(h, skip) y = Mul(a, c)", (4, 1, 1), "scale"),
        (f"{CONV} n = Neg(h) a = Concat <axis = 1> (h, n) y = Mul(a, c)", (8, 1, 1), "scale"),
        (f"{LINEAR} y = Mul(h, c)", (4,), "scale"),
        (f"{LINEAR} a = Relu(h) u = Reshape(c, row) y = Add(a, u)", (4, 1), "bias"),
        (f"{LINEAR} a = Relu(h) b = Reshape(a, cube) y = Mul(b, c)", (4, 1), "scale"),
        (f"{LINEAR} a = Relu(h) u = Unsqueeze(a, one) y = MatMul(u, c)", (1, 4, 6), "weight"),
    ],
)
def test_what_a_layer_adds_or_multiplies_by_channel_trains(body: str, shape: tuple[int, ...], word: str) -> None:
    more = {"skip": rand(1, 6, 6), "row": np.array([1, 4]), "cube": np.array([-1, 4, 1]), "one": np.array([1])}
    proto = model(body, rand(*shape), **more)
    assert_same_numbers(proto)
    lifted = onnxlift.lift(proto)
    shapes = [array.shape for key, array in lifted.state_dict.items() if key.rpartition(".")[2] == word]
    assert shape in shapes
    assert f"self.{word} = nn.Parameter(" in lifted.source
    assert not lifted.report.warnings
    assert lifted.report.steps["idioms"]["channel-weights"] == 1


@pytest.mark.parametrize(
    ("body", "constant", "reason"),
    [
        ("h = Sub(x, c) y = Conv(h, W)", rand(3, 1, 1), channel_weights._BEFORE),
        ("y = Mul(r, c)", rand(5), channel_weights._BEFORE),
        (f"{CONV} y = Mul(h, c)", rand(4, 6, 6), channel_weights._TABLE),
        (f"{CONV} y = Mul(h, c)", rand(6), channel_weights._PLACES),
        (f"{LINEAR} u = Unsqueeze(h, last) y = Mul(u, c)", rand(7), channel_weights._PLACES),
        (f"{CONV} f = Flatten(h) y = Mul(f, c)", rand(144), channel_weights._LOST),
        (f"{CONV} p = ReduceMax <keepdims = 0> (h, one) y = Mul(p, c)", rand(6), channel_weights._LOST),
        (
            f"{CONV} t = Transpose <perm = [0, 1, 3, 2]> (h) p = MatMul(h, t) y = Mul(p, c)",
            rand(6),
            channel_weights._LOST,
        ),
        (f"{LINEAR} a = Relu(h) y = Add(a, c)", np.array([0, -1e9, 0, -1e9], np.float32), channel_weights._MASK),
        (f"{LINEAR} a = Relu(h) y = Mul(a, c)", np.array([0, 1, 0, 1], np.float32), channel_weights._MASK),
        (f"{LINEAR} a = Relu(h) y = Div(c, a)", rand(4), channel_weights._NOTHING),
        (f"{LINEAR} a = Relu(h) y = Max(a, c)", rand(4), channel_weights._NOTHING),
        (f"{LINEAR} a = Relu(h) s = Relu(c) y = Add(a, s)", rand(4), channel_weights._NOTHING),
        (f"{LINEAR} a = Relu(h) i = ArgMax(a) y = Gather(c, i)", rand(9), channel_weights._NOTHING),
    ],
)
def test_what_may_be_something_else_is_told(body: str, constant: np.ndarray[Any, Any], reason: str) -> None:
    proto = model(body, constant, one=np.array([1]))
    assert_same_numbers(proto)
    lifted = onnxlift.lift(proto)
    (warning,) = lifted.report.warnings
    assert warning.endswith(f" will not train: {reason}")
    assert "channel-weights" not in lifted.report.steps.get("idioms", {})


@pytest.mark.parametrize("numbers", [[0, 0, 0, 0], [1, 1, 1, 1], [0, 0.5, 0, 1], [0, 2, -1, 3]])
def test_what_is_no_mask(numbers: list[float]) -> None:
    for op in ("Add", "Mul"):
        proto = model(f"{LINEAR} a = Relu(h) y = {op}(a, c)", np.array(numbers, np.float32))
        assert not onnxlift.lift(proto).report.warnings


@pytest.mark.parametrize("size", [1, 4])
def test_numbers_of_quantisers_do_not_train(size: int) -> None:
    axis = "<axis = 1>" if size > 1 else ""
    scale = "t = Transpose <perm = [0, 2, 3, 1]> (d) y = Mul(t, c)" if size > 1 else "y = Relu(d)"
    body = f"{CONV} q = QuantizeLinear {axis} (h, c) d = DequantizeLinear {axis} (q, c) {scale}"
    proto = model(body, np.abs(rand(size)) if size > 1 else np.array(0.5, np.float32))
    graph = load(proto)
    normalise(graph)
    assert channel_weights.run(graph) == 0
    origin = origin_of(graph.graph.initializers[C])
    assert (origin.reason, origin.is_parameter) == (channel_weights._QUANTISER, False)


def test_a_mask_in_one_place_is_a_mask() -> None:
    body = f"{LINEAR} a = Add(h, c) y = Mul(a, c)"
    (warning,) = onnxlift.lift(model(body, np.array([0, 1, 1, 0], np.float32))).report.warnings
    assert warning.endswith(channel_weights._MASK)


def test_a_name_that_tells_is_believed() -> None:
    proto = model(f"{LINEAR} a = Relu(h) y = Mul(a, c)", rand(4))
    for node in proto.graph.node:
        node.input[:] = ["window" if name == C else name for name in node.input]
    next(tensor for tensor in proto.graph.initializer if tensor.name == C).name = "window"
    (warning,) = onnxlift.lift(proto).report.warnings
    assert warning.endswith("models compute what is called so once and keep it, and do not train it")


def test_what_the_exporter_has_computed_stays_that() -> None:
    proto = model(f"{LINEAR} a = Relu(h) y = Mul(a, c)", rand(4))
    proto.graph.value_info.add(name=C).metadata_props.add(key=FOLDED_FROM, value="['a', 'b']")
    lifted = onnxlift.lift(proto)
    (warning,) = lifted.report.warnings
    assert warning.endswith("the exporter has computed it ahead of time, and notes from what")
    assert "channel-weights" not in lifted.report.steps["idioms"]


def test_integers_do_not_train() -> None:
    body = f"{LINEAR} i = Cast <to = 7> (h) a = Add(i, c) y = Cast <to = 1> (a)"
    assert not onnxlift.lift(model(body, np.array([1, 2, 3, 4]))).report.steps.get("idioms", {}).get("channel-weights")


def test_a_matrix_of_one_number_is_no_weight() -> None:
    lifted = onnxlift.lift(model(f"{LINEAR} s = ReduceMax(h, last) y = MatMul(s, c)", rand(1, 1)))
    assert "channel-weights" not in lifted.report.steps.get("idioms", {})


def test_a_single_number_of_a_quantiser_may_have_a_name() -> None:
    proto = model(f"{CONV} q = QuantizeLinear(h, scale) y = DequantizeLinear(q, scale)", rand(4), scale=0.5)
    graph = load(proto)
    normalise(graph)
    channel_weights.run(graph)
    assert origin_of(graph.graph.initializers["scale"]).reason == channel_weights._QUANTISER


def test_a_single_number_is_no_weight() -> None:
    assert "2.5" in onnxlift.lift(model(f"{LINEAR} a = Relu(h) y = Mul(a, c)", np.array([2.5], np.float32))).source


def test_pytorch_tells_what_is_a_parameter() -> None:
    proto = model(f"{CONV} y = Mul(h, c)", rand(4, 1, 1), producer="pytorch")
    for node in proto.graph.node:
        node.input[:] = ["/net/Constant_output_0" if name == C else name for name in node.input]
    next(tensor for tensor in proto.graph.initializer if tensor.name == C).name = "/net/Constant_output_0"
    lifted = onnxlift.lift(proto)
    assert "channel-weights" not in lifted.report.steps.get("idioms", {})
    assert len(lifted.report.warnings) == 1


def test_a_constant_of_the_code_stays_one() -> None:
    """It stood in a node, where exporters put what the code brought along."""
    proto = model(f"{CONV} y = Mul(h, c)", rand(4, 1, 1))
    tensor = next(each for each in proto.graph.initializer if each.name == C)
    proto.graph.node.insert(0, onnx.helper.make_node("Constant", [], [C], value=tensor))
    proto.graph.initializer.remove(tensor)
    assert onnxlift.lift(proto).report.warnings == (
        "scale will not train: it stood in a node, and not among the initialisers",
    )

"""Recurrent operators that are PyTorch's layers, stacked and with the batch in front; and those that are not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
from checking import check, model_of
from onnx import helper
from onnx.reference import ReferenceEvaluator

import onnxlift

from .recognising import Data, found, parse, simplified

RNN = "Y, h = RNN <hidden_size = 6> (x, W, R, B)"
GRU = "Y, h = GRU <hidden_size = 6, linear_before_reset = 1> (x, W, R, B)"
LSTM = "Y, h = LSTM <hidden_size = 6> (x, W, R, B)"
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
X, STATE = "float[seq, batch, 4] x", "float[1, batch, 6] h0"


def layers(body: str, inputs: str = X, outputs: str = "Y", kind: str = "GRU", both: bool = False) -> onnx.ModelProto:
    """A model of these nodes. The weights of a first layer are W, R and B, those of a second one V, S and D."""
    rows, directions = 6 * GATES[kind], 1 + both
    known: dict[str, Data] = {
        **{"W": (directions, rows, 4), "R": (directions, rows, 6), "B": (directions, 2 * rows)},
        **{"V": (directions, rows, 6 * directions), "S": (directions, rows, 6), "D": (directions, 2 * rows)},
        **{name: np.array([place]) for place, name in enumerate(("zero", "one", "two", "three", "four"))},
        **{"P": (1, 18), "back": np.array([-1]), "flat": np.array([0, 0, -1]), "rows": np.array([5, -1, 6])},
    }
    used = {name: data for name, data in known.items() if re.search(rf"\b{name}\b", body)}
    return parse(f"g ({inputs}) => ({outputs}) {{ {body} }}", **used)


# One node


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("RNN", RNN),
        ("RNN", RNN.replace("= 6", '= 6, activations = ["Relu"]')),
        ("GRU", GRU),
        ("GRU", GRU.replace("= 6", '= 6, direction = "reverse"')),
        ("LSTM", LSTM),
        ("LSTM", LSTM.replace("= 6", '= 6, activations = ["Sigmoid", "Tanh", "Tanh"]')),
    ],
)
def test_layers(kind: str, body: str) -> None:
    assert found(layers(f"{body} y = Squeeze(Y, one)", outputs="y, h", kind=kind)) == [f"onnxlift.{kind}"]


@pytest.mark.parametrize(
    ("kind", "body", "old", "new", "inputs"),
    [
        ("RNN", RNN, "= 6", "= 6, clip = 0.3", X),
        ("RNN", RNN, "= 6", '= 6, activations = ["Sigmoid"]', X),
        ("RNN", RNN, "W, R, B", "W, R, B, n", f"{X}, int32[batch] n"),
        ("RNN", RNN, "W, R, B", "U, R, B", f"{X}, float[1, 6, 4] U"),
        ("GRU", GRU, ", linear_before_reset = 1", "", X),
        ("LSTM", LSTM, "= 6", "= 6, input_forget = 1", X),
        ("LSTM", LSTM, "= 6", '= 6, activations = ["Tanh", "Tanh", "Tanh"]', X),
        ("LSTM", LSTM, "W, R, B", 'W, R, B, "", "", "", P', X),
    ],
    ids=["clip", "activation", "lengths", "weight", "reset", "coupled", "activations", "peepholes"],
)
def test_what_the_layers_do_not_have(kind: str, body: str, old: str, new: str, inputs: str) -> None:
    assert kind in found(layers(body.replace(old, new, 1), inputs, "Y, h", kind))


def test_a_layout_with_the_batch_first_is_not_of_the_layer() -> None:
    """ONNX Runtime does not have it either."""
    model = layers(LSTM.replace("= 6", "= 6, layout = 1"), "float[2, 5, 4] x", "Y, h", "LSTM")
    x = np.random.default_rng(5).standard_normal((2, 5, 4)).astype(np.float32)
    check(model, {"x": x}, expected=ReferenceEvaluator(model).run(None, {"x": x}), rtol=1e-4)


@pytest.mark.parametrize(
    ("kind", "body", "option", "reason"),
    [
        ("GRU", GRU, 'direction = "sideways"', "its direction is 'sideways'"),
        ("GRU", GRU, 'activations = ["Relu"]', "it has 1 activations, and takes 2"),
    ],
    ids=["direction", "activations"],
)
def test_what_no_operator_has_is_refused(kind: str, body: str, option: str, reason: str) -> None:
    with pytest.raises(onnxlift.UnsupportedError, match=reason):
        onnxlift.lift(layers(body.replace("= 6", f"= 6, {option}"), kind=kind))


def test_zeros_to_start_from_are_gone() -> None:
    model = layers(GRU.replace("B)", 'B, "", zeros)'), "float[5, 2, 4] x")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((1, 2, 6), np.float32), "zeros"))
    assert "self.gru(x)" in onnxlift.lift(model).source and "GRU" not in found(model)


random = np.random.default_rng(11)
ARRAYS: dict[str, Any] = {
    name: random.normal(0, 0.6, shape).astype(np.float32)
    for name, shape in {"x": (5, 2, 4), "W": (1, 18, 4), "R": (1, 18, 6), "B": (1, 36), "h0": (1, 2, 6)}.items()
}


@pytest.mark.parametrize(
    ("constants", "text"), [(["W", "R", "B"], "nn.GRU(4, 6)"), ([], "onnx_gru(")], ids=["input", "weights"]
)
def test_of_unknown_rank(constants: list[str], text: str) -> None:
    node = helper.make_node("GRU", ["x", "W", "R", "B"], ["Y", "h"], hidden_size=6, linear_before_reset=1)
    arrays = {name: array for name, array in ARRAYS.items() if name != "h0"}
    assert text in check(node, arrays, opset=18, constants=constants, unranked=True)


@pytest.mark.parametrize(("lengths", "is_layer"), [([5, 5], True), ([5, 4], False), ([4, 4], False)])
def test_known_lengths(lengths: list[int], is_layer: bool) -> None:
    node = helper.make_node("GRU", ["x", "W", "R", "B", "n"], ["Y", "h"], hidden_size=6, linear_before_reset=1)
    arrays = {**{name: ARRAYS[name] for name in "xWRB"}, "n": np.array(lengths, np.int32)}
    assert ("nn.GRU" in check(node, arrays, opset=18, constants=["W", "R", "B", "n"])) == is_layer


def test_no_steps() -> None:
    """PyTorch's layer refuses them; the state stays what it is."""
    node = helper.make_node("GRU", ["x", "W", "R", "B", "", "h0"], ["Y", "h"], hidden_size=6, linear_before_reset=1)
    expected = [np.zeros((0, 1, 2, 6), np.float32), ARRAYS["h0"]]
    arrays = {**ARRAYS, "x": ARRAYS["x"][:0]}
    assert "onnx_gru(" in check(node, arrays, opset=18, constants=["W", "R", "B"], expected=expected)


def test_known_lengths_of_no_sequences() -> None:
    node = helper.make_node("GRU", ["x", "W", "R", "B", "n"], ["Y", "h"], hidden_size=6, linear_before_reset=1)
    arrays = {**{name: ARRAYS[name] for name in "xWRB"}, "x": ARRAYS["x"][:, :0], "n": np.zeros(0, np.int32)}
    expected = [np.zeros((5, 1, 0, 6), np.float32), np.zeros((1, 0, 6), np.float32)]
    check(node, arrays, opset=18, constants=["W", "R", "B", "n"], dynamic=True, expected=expected)


@pytest.mark.parametrize("kind", ["float[2]", "int64[2]", "int32[2]"])
@pytest.mark.parametrize("is_ranked", [True, False])
def test_lengths_of_a_packed_sequence_are_64_bits(kind: str, is_ranked: bool) -> None:
    body = f"{'m = Identity' if kind == 'int32[2]' else 'm = Cast <to = 6>'} (n) {GRU.replace('B)', 'B, m)')}"
    model = layers(body, f"float[5, 2, 4] x, {kind} n", "Y, h")
    model.producer_name = "pytorch"
    if not is_ranked:
        model.graph.input[1].type.tensor_type.ClearField("shape")
    lengths = np.array([5, 3], helper.tensor_dtype_to_np_dtype(model.graph.input[1].type.tensor_type.elem_type))
    assert "pack_padded_sequence" in check(model, {"x": ARRAYS["x"], "n": lengths}, atol=1e-5)
    cast = [node for node in simplified(model).graph if node.op_type == "Cast"]
    assert [node.outputs[0].shape for node in cast if is_ranked] == [[2]] * (len(cast) * is_ranked)
    assert len(cast) == {"float[2]": 2, "int64[2]": 0, "int32[2]": 1}[kind]


def test_lengths_of_a_sequence_that_runs_backwards() -> None:
    body = GRU.replace("= 6", '= 6, direction = "reverse"').replace("B)", "B, n)")
    model = layers(body, "float[5, 2, 4] x, int32[2] n", "Y, h")
    model.producer_name = "pytorch"
    assert "onnx_gru" in check(model, {"x": ARRAYS["x"], "n": np.array([5, 3], np.int32)}, atol=1e-5)


# Who reads Y

BOTH = GRU.replace("= 6", '= 6, direction = "bidirectional"')
BRANCH = "y = If (flag) <then_branch = a () => (p) { p = %s }, else_branch = b () => (q) { e = Exp(x) q = ReduceSum (e) }>"



@pytest.mark.parametrize(
    ("body", "both"),
    [
        (f"{GRU} y = Squeeze(Y, one)", False),
        (f"{GRU} y = Reshape(Y, rows)", False),
        (f"{GRU} t = Transpose <perm = [0, 2, 1, 3]> (Y) y = Squeeze(t, two)", False),
        (f"{BOTH} t = Transpose <perm = [0, 2, 1, 3]> (Y) y = Reshape(t, flat)", True),
    ],
    ids=["squeezed", "reshaped", "turned", "both"],
)
def test_readers_that_give_it_the_form_it_has_in_pytorch(body: str, both: bool) -> None:
    assert found(layers(body, "float[5, 2, 4] x", "y", both=both)) == ["onnxlift.GRU"]


@pytest.mark.parametrize(
    ("body", "outputs", "operators"),
    [
        (f"{GRU} y = ReduceSumSquare <keepdims = 0> (Y, one)", "y", ["Unsqueeze", "ReduceSumSquare"]),
        (f"{GRU} t = Transpose <perm = [2, 1, 0, 3]> (Y) y = Squeeze(t, one)", "y", ["Transpose"]),
        (f"{GRU} t = Transpose <perm = [0, 2, 1, 3]> (Y) y = Squeeze(t, two)", "y, t", ["Unsqueeze"]),
        (f"{GRU} y = Squeeze(Y, one) z = Reshape(Y, rows)", "y, z", ["Unsqueeze"]),
        (f"{GRU} y = Squeeze(Y, one)", "y, Y", ["Unsqueeze"]),
        (f"{GRU} {BRANCH % 'Squeeze(Y, one)'}", "y", ["If"]),
        (f"{BOTH} y = Reshape(Y, flat)", "y", ["Transpose", "Reshape"]),
        (f"{BOTH} t = Transpose <perm = [0, 2, 1, 3]> (Y) y = Reshape(t, rows)", "y, t", ["Reshape"]),
    ],
    ids=["squares", "order", "turned", "outputs", "output", "branch", "directions", "both"],
)
def test_other_readers(body: str, outputs: str, operators: list[str]) -> None:
    flag = ", bool[1] flag" if "flag" in body else ""
    model = layers(body, f"float[5, 5, 4] x{flag}", outputs, both="bidirectional" in body)
    operators_found = found(model)
    assert operators_found[0] == "onnxlift.GRU" and set(operators) <= {*operators_found}, operators_found

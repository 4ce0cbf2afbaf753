"""Recurrent operators that are PyTorch's layers, stacked and with the batch in front; and those that are not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import onnxlift
from lifting.ops.checking import check
from rewriting.idioms.recognising import Data, found, parse, simplified

RNN = "Y, h = RNN <hidden_size = 6> (x, W, R, B)"
GRU = "Y, h = GRU <hidden_size = 6, linear_before_reset = 1> (x, W, R, B)"
LSTM = "Y, h = LSTM <hidden_size = 6> (x, W, R, B)"
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
X, STATE = "float[seq, batch, 4] x", "float[1, batch, 6] h0"


def layers(body: str, inputs: str = X, outputs: str = "Y", kind: str = "GRU", both: bool = False) -> onnx.ModelProto:
    """A model of these nodes. The weights of a first layer are W, R and B, those of a second one V, S and D."""
    rows, directions = 6 * GATES[kind], 1 + both
    known: dict[str, Data] = {
        "W": (directions, rows, 4),
        "R": (directions, rows, 6),
        "B": (directions, 2 * rows),
        "V": (directions, rows, 6 * directions),
        "S": (directions, rows, 6),
        "D": (directions, 2 * rows),
        **{name: np.array([place]) for place, name in enumerate(("zero", "one", "two", "three", "four"))},
        "P": (1, 18),
        "back": np.array([-1]),
        "flat": np.array([0, 0, -1]),
        "rows": np.array([5, -1, 6]),
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


def test_a_layer_with_a_state() -> None:
    started = GRU.replace("B)", 'B, "", h0)')
    model = layers(f"{started} y = Squeeze(Y, one)", f"{X}, {STATE}", "y")
    assert found(model) == ["onnxlift.GRU"]
    (node,) = simplified(model).graph
    assert {*node.attributes} == {"hidden_size", "bias"}  # and none that says no


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
        ("GRU", GRU, 'direction = "sideways"', "direction is 'sideways'"),
        ("GRU", GRU, 'activations = ["Relu"]', "it has 1 activations, and takes 2"),
    ],
    ids=["direction", "activations"],
)
def test_what_no_operator_has_is_refused(kind: str, body: str, option: str, reason: str) -> None:
    with pytest.raises(onnxlift.OnnxLiftError, match=reason):
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
BRANCH = (
    "y = If (flag) <then_branch = a () => (p) { p = %s }, else_branch = b () => (q) { e = Exp(x) q = ReduceSum (e) }>"
)


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
        (f"{GRU} t = Transpose <perm = [2, 1, 0, 3]> (Y) y = Reshape(t, rows)", "y", ["Transpose"]),
        (f"{GRU} t = Transpose <perm = [0, 2, 1, 3]> (Y) y = Squeeze(t, two)", "y, t", ["Unsqueeze"]),
        (f"{GRU} y = Squeeze(Y, one) z = Reshape(Y, rows)", "y, z", ["Unsqueeze"]),
        (f"{GRU} y = Squeeze(Y, one)", "y, Y", ["Unsqueeze"]),
        (f"{GRU} {BRANCH % 'Squeeze(Y, one)'}", "y", ["If"]),
        (f"{BOTH} y = Reshape(Y, flat)", "y", ["Transpose", "Reshape"]),
        (f"{BOTH} t = Transpose <perm = [0, 2, 1, 3]> (Y) y = Reshape(t, rows)", "y, t", ["Reshape"]),
        (f"{BOTH} t = Transpose <perm = [2, 0, 1, 3]> (Y) y = Reshape(t, flat)", "y", ["Transpose"]),
    ],
    ids=["squares", "order", "turned", "outputs", "output", "branch", "directions", "both", "both in another order"],
)
def test_other_readers(body: str, outputs: str, operators: list[str]) -> None:
    flag = ", bool[1] flag" if "flag" in body else ""
    model = layers(body, f"float[5, 5, 4] x{flag}", outputs, both="bidirectional" in body)
    operators_found = found(model)
    assert operators_found[0] == "onnxlift.GRU" and set(operators) <= {*operators_found}, operators_found


# Layers on top of each other

FIRST = f'["/m/GRU"] {GRU} y = Squeeze(Y, one)'
SECOND = f"""["/m/GRU_1"] {GRU.replace("Y, h", "Z, k").replace("x, W, R, B", "y, V, S, D")} z = Squeeze(Z, one)"""
TWO = f"{FIRST} {SECOND}"
STARTED = TWO.replace("B)", 'B, "", a)').replace("D)", 'D, "", b)')
CUT = "a = Slice(h0, zero, one, zero) b = Slice(h0, one, two, zero)"


def test_layers_of_one_module_are_one() -> None:
    assert found(layers(TWO, outputs="z")) == ["onnxlift.GRU"]
    assert found(layers(f"{TWO} n = Concat <axis = 0> (h, k)", outputs="z, n")) == ["onnxlift.GRU"]
    assert found(layers(f"{TWO} n = Concat <axis = -3> (h, k)", outputs="n")) == ["onnxlift.GRU"]


@pytest.mark.parametrize(
    ("old", "new", "more", "outputs"),
    [
        ("/m/GRU_1", "/other/GRU", "", "z"),
        ("= 6, linear", '= 6, direction = "reverse", linear', "", "z"),
        ("(y, V, S, D)", "(y, V, S)", "", "z"),
        ("GRU <hidden_size = 6, linear_before_reset = 1> (x, W, R, B)", "LSTM <hidden_size = 6> (x, E, F, G)", "", "z"),
        ("B)", 'B, "", h0)', "", "z"),
        ("", "", "", "z, y"),
        ("", "", "", "z, h"),
        ("", "", "n = Concat <axis = 2> (h, k)", "z, n"),
        ("", "", "n = Concat <axis = 0> (k, h)", "z, n"),
        ("", "", "n = Concat <axis = 0> (h, k, k)", "z, n"),
        ("", "", "n = Concat <axis = 0> (h, k)", "z, n, k"),
        ("", "", "n = Mul (h, k)", "z, n"),
        ("", "", BRANCH.replace("y =", "n =") % "Concat <axis = 0> (h, k)", "z, n"),
    ],
    ids="module backwards bias kind start between state axis order twice read product branch".split(),
)
def test_layers_that_are_not_one(old: str, new: str, more: str, outputs: str) -> None:
    inputs = X + (f", {STATE}" if "h0" in new else "") + (", bool[1] flag" if "flag" in more else "")
    model = layers(f"{TWO.replace(old, new)} {more}", inputs, outputs)
    for name, shape in {"E": (1, 24, 4), "F": (1, 24, 6), "G": (1, 48)}.items():
        if name in new:
            array = random.normal(0, 0.6, shape).astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    assert sum(operator in ("onnxlift.GRU", "onnxlift.LSTM") for operator in found(model)) == 2


def test_a_layer_above_in_a_branch() -> None:
    inner = SECOND.replace("z = Squeeze(Z, one)", "p = Squeeze(Z, one)")
    body = f"{FIRST} {BRANCH % 'p'}".replace("p = p", inner)
    assert found(layers(body.replace("y = If", "z = If"), f"{X}, bool[1] flag", "z")) == ["onnxlift.GRU", "If"]


@pytest.mark.parametrize("start", ["", ', "", h0'], ids=["zeros", "a state"])
def test_a_layer_that_starts_from_the_result_of_another(start: str) -> None:
    body = TWO.replace("(x, W, R, B)", f"(x, W, R, B{start})").replace("(y, V, S, D)", '(x, W, S, D, "", y)')
    inputs = f"float[1, batch, 4] x{f', {STATE}' if start else ''}"
    assert found(layers(body, inputs, "z")).count("onnxlift.GRU") == 2


def test_two_modules_of_which_one_has_two_layers() -> None:
    third = (
        SECOND.replace("GRU_1", "GRU_2")
        .replace("Z, k", "Q, l")
        .replace("(y, V", "(z, V")
        .replace("z = Squeeze(Z", "q = Squeeze(Q")
    )
    model = layers(f"{FIRST.replace('/m/', '/other/')} {SECOND} {third}", outputs="q")
    assert found(model) == ["onnxlift.GRU", "onnxlift.GRU"]
    assert "nn.GRU(6, 6, num_layers=2)" in onnxlift.lift(model).source


PLAIN = '["/m/LSTM"] Y = LSTM <hidden_size = 6> (x, W, R) y = Squeeze(Y, one)'


def test_an_operator_that_is_no_layer_on_top_of_one() -> None:
    """It has the same attributes, but weights from outside."""
    body = f'{PLAIN} ["/m/LSTM_1"] z = LSTM <hidden_size = 6> (y, U, S)'
    assert found(layers(body, f"{X}, float[1, 24, 6] U", "z", "LSTM")) == ["onnxlift.LSTM", "LSTM"]


def test_a_layer_on_top_of_an_operator_of_the_same_name() -> None:
    body = PLAIN.replace("x, W", "w, V").replace('["', '["/m/LSTM_1"] w = acme.LSTM <hidden_size = 6> (x) ["')
    model = layers(body, outputs="y", kind="LSTM")
    model.opset_import.append(helper.make_opsetid("acme", 1))
    assert [node.domain for node in simplified(model).graph if node.op_type == "LSTM"] == ["acme", "onnxlift"]


def test_states_that_are_joined_by_an_operator_of_the_same_name() -> None:
    model = layers(f"{TWO} n = acme.Concat <axis = 0> (h, k)", outputs="z, n")
    model.opset_import.append(helper.make_opsetid("acme", 1))
    assert [node.op_type for node in simplified(model).graph].count("GRU") == 2


@pytest.mark.parametrize(("length", "count"), [("n", 1), ("m", 2)], ids=["same", "others"])
def test_lengths_of_layers(length: str, count: int) -> None:
    body = TWO.replace("B)", "B, i)").replace("D)", f"D, {'i' if length == 'n' else 'j'})")
    casts = f"i = Cast <to = 6> (n) {'' if length == 'n' else 'j = Cast <to = 6> (m)'}"
    inputs = f"float[5, 2, 4] x, int64[2] n{'' if length == 'n' else ', int64[2] m'}"
    model = layers(f"{casts} {body}", inputs, "z")
    model.producer_name = "pytorch"
    assert check(model, {"x": ARRAYS["x"], "n": [5, 3], "m": [4, 5]}, atol=1e-5).count("nn.GRU(") == count


def _nameless(body: str) -> str:
    return re.sub(r'\["[^"]*"\]', "", body)


JOINED = "n = Concat <axis = 0> (h, k)"


@pytest.mark.parametrize(
    ("body", "inputs", "outputs", "count"),
    [
        (f"{_nameless(TWO)} {JOINED}", X, "z, n", 1),
        (f"{CUT} {_nameless(STARTED)}", f"{X}, float[2, batch, 6] h0", "z", 1),
        (_nameless(TWO), X, "z", 2),
        (f"{TWO.replace('/m/GRU_1', '/other/GRU')} {JOINED}", X, "z, n", 2),
    ],
    ids=["last states", "first states", "neither", "modules"],
)
def test_layers_that_share_their_states_are_one(body: str, inputs: str, outputs: str, count: int) -> None:
    assert found(layers(body, inputs, outputs)).count("onnxlift.GRU") == count


@pytest.mark.parametrize(
    ("cuts", "states", "x", "is_whole"),
    [
        (CUT, "float[2, batch, 6] h0", X, True),
        ("a, b = Split <axis = 0, num_outputs = 2> (h0)", "float[2, batch, 6] h0", X, True),
        (CUT, "float[3, batch, 6] h0", X, False),
        (CUT.replace("a =", "c =").replace("b =", "a =").replace("c =", "b ="), "float[2, batch, 6] h0", X, False),
        (CUT.replace("b = Slice(h0", "b = Slice(h1"), "float[2, batch, 6] h0, float[2, batch, 6] h1", X, False),
        (
            "a = Slice(h0, zero, two, one) b = Slice(h0, two, four, one)",
            "float[1, 4, 6] h0",
            "float[seq, 2, 4] x",
            False,
        ),
        ("", "float[1, batch, 6] a, float[1, batch, 6] b", X, False),
    ],
    ids=["slices", "split", "more", "order", "tensors", "axis", "none"],
)
def test_states_of_layers(cuts: str, states: str, x: str, is_whole: bool) -> None:
    operators = found(layers(f"{cuts} {STARTED}", f"{x}, {states}", "z"))
    assert operators.count("onnxlift.GRU") == 1 and (len(operators) == 1) == is_whole


def test_states_that_are_turned_around() -> None:
    body = STARTED.replace("= 6, linear", '= 6, direction = "bidirectional", linear')
    body = re.sub(r"Squeeze\((.), one\)", r"Reshape(\1t, flat)", body)
    body = re.sub(r"([yz] = Reshape\((.)t)", r"\2t = Transpose <perm = [0, 2, 1, 3]> (\2) \1", body)
    cuts = "a = Slice(h0, zero, two, zero) b = Slice(h0, two, zero, zero, back)"
    operators = found(layers(f"{cuts} {body}", f"{X}, float[4, batch, 6] h0", "z", both=True))
    assert operators.count("onnxlift.GRU") == 1 and "Concat" in operators


@pytest.mark.parametrize("is_ranked", [True, False])
def test_states_that_are_joined_have_a_row_for_each_layer(is_ranked: bool) -> None:
    model = layers(STARTED, "float[5, 2, 4] x, float[1, 2, 6] a, float[1, 2, 6] b", "z")
    for value in [] if is_ranked else model.graph.input[1:]:
        value.type.tensor_type.ClearField("shape")
    check(model, {"x": ARRAYS["x"], "a": ARRAYS["h0"], "b": -2 * ARRAYS["h0"]}, atol=1e-5)
    (join,) = (node for node in simplified(model).graph if node.op_type == "Concat")
    assert join.outputs[0].shape == [2, 2, 6] if is_ranked else join.outputs[0].shape == [2, None, None]


# The batch in front

SWAPPED = "<perm = [1, 0, 2]>"
BATCH_FIRST = f"""t = Transpose {SWAPPED} (x) {GRU.replace("x, W", "t, W")} y = Squeeze(Y, one)
    z = Transpose {SWAPPED} (y)"""
BATCHES = "float[batch, seq, 4] x"


def test_batch_first() -> None:
    model = layers(BATCH_FIRST, BATCHES, "z, h")
    assert found(model) == ["onnxlift.GRU"] and "nn.GRU(4, 6, batch_first=True)" in onnxlift.lift(model).source


@pytest.mark.parametrize(
    ("old", "new", "inputs", "outputs"),
    [
        ("", "", BATCHES, "z, y"),
        ("z =", f"w = Transpose {SWAPPED} (y) z =", BATCHES, "z, w"),
        ("z =", "w = Exp(y) z =", BATCHES, "z, w"),
        ("t = Transpose <perm = [1, 0, 2]>", "t = Transpose <perm = [2, 1, 0]>", "float[4, batch, seq] x", "z"),
        ("z = Transpose <perm = [1, 0, 2]>", "z = Transpose <perm = [2, 1, 0]>", BATCHES, "z"),
        (f"z = Transpose {SWAPPED} (y)", BRANCH.replace("y =", "z =") % f"Transpose {SWAPPED} (y)", BATCHES, "z"),
    ],
    ids=["output", "outputs", "reader", "before", "after", "branch"],
)
def test_the_batch_is_not_first(old: str, new: str, inputs: str, outputs: str) -> None:
    flag = ", bool[1] flag" if "flag" in new else ""
    model = layers(BATCH_FIRST.replace(old, new), inputs + flag, outputs)
    assert "onnxlift.GRU" in found(model) and "batch_first" not in onnxlift.lift(model).source


def test_other_nodes_between_transposes() -> None:
    body = f"t = Transpose {SWAPPED} (x) y = CumSum(t, zero) z = Transpose {SWAPPED} (y)"
    assert "CumSum" in found(layers(body, BATCHES, "z"))

"""Single steps of recurrent layers, spelled out; and what only looks like one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift

from .recognising import found, parse

LINEAR = "a = Gemm <transB = 1> (h, HH, bias_hh) b = Gemm <transB = 1> (x, IH, bias_ih)"
RNN = f"{LINEAR} t = Add(a, b) y = Tanh(t)"
LSTM = f"""{LINEAR} t = Add(a, b) i, f, g, o = Split <axis = 1, num_outputs = 4> (t)
    si = Sigmoid(i) sf = Sigmoid(f) tg = Tanh(g) so = Sigmoid(o)
    kept = Mul(sf, c) new = Mul(si, tg) d = Add(kept, new) td = Tanh(d) y = Mul(so, td)"""
GRU = f"""{LINEAR} ar, az, an = Split <axis = 1, num_outputs = 3> (a) br, bz, bn = Split <axis = 1, num_outputs = 3> (b)
    rs = Add(ar, br) r = Sigmoid(rs) zs = Add(az, bz) z = Sigmoid(zs) m = Mul(an, r) ns = Add(bn, m) n = Tanh(ns)
    w = Sub(h, n) v = Mul(w, z) y = Add(v, n)"""
GATES = {RNN: 1, LSTM: 4, GRU: 3}
LAYERS = {RNN: "RNNCell", LSTM: "LSTMCell", GRU: "GRUCell"}


def cell(
    kind: str, old: str = "", new: str = "", outputs: str = "", names: tuple[str, str] = ("weight_ih", "weight_hh")
) -> onnx.ModelProto:
    ih, hh = names
    size = 6 * GATES[kind]
    inputs = "float[batch, 8] x, float[batch, 6] h" + (", float[batch, 6] c" if kind is LSTM else "")
    results = "float[batch, 6] y" + (", float[batch, 6] d" if kind is LSTM else "") + outputs
    body = kind.replace(old, new).replace("IH", ih).replace("HH", hh)
    known = {ih: (size, 8), hh: (size, 6), "bias_ih": (size,), "bias_hh": (size,)}
    return parse(f"g ({inputs}) => ({results}) {{ {body} }}", **known)


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        (RNN, "", ""),
        (RNN, "Add(a, b)", "Add(b, a)"),
        (LSTM, "", ""),
        (LSTM, "Mul(sf, c)", "Mul(c, sf)"),
        (LSTM, "Mul(si, tg)", "Mul(tg, si)"),
        (LSTM, "Add(kept, new)", "Add(new, kept)"),
        (LSTM, "Mul(so, td)", "Mul(td, so)"),
        (GRU, "", ""),
        (GRU, "Mul(an, r)", "Mul(r, an)"),
        (GRU, "Add(bn, m)", "Add(m, bn)"),
        (GRU, "Mul(w, z)", "Mul(z, w)"),
        (GRU, "Add(v, n)", "Add(n, v)"),
    ],
)
def test_cells(kind: str, old: str, new: str) -> None:
    model = cell(kind, old, new)
    assert found(model) == [f"onnxlift.{LAYERS[kind]}"]
    lifted = onnxlift.lift(model)
    assert f"nn.{LAYERS[kind]}(8, 6)" in lifted.source
    assert {name.rpartition(".")[2] for name in lifted.state_dict} == {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}


def test_a_cell_with_relu_and_without_biases() -> None:
    model = cell(RNN, "Tanh", "Relu")
    for gemm in model.graph.node[:2]:
        del gemm.input[2]
    assert 'nn.RNNCell(8, 6, bias=False, nonlinearity="relu")' in onnxlift.lift(model).source


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        (RNN, "Tanh(t)", "Sigmoid(t)"),
        (RNN, "Add(a, b)", "Sub(a, b)"),
        (LSTM, "Sigmoid(i) sf = Sigmoid(f)", "Sigmoid(f) sf = Sigmoid(i)"),  # gates in another order
        (LSTM, "Tanh(g)", "Relu(g)"),
        (LSTM, "td = Tanh(d)", "td = Tanh(c)"),
        (GRU, "Sub(h, n)", "Sub(n, h)"),
        (GRU, "Add(ar, br)", "Add(ar, bz)"),
        (GRU, "Mul(an, r)", "Mul(bn, r)"),
        (GRU, "w = Sub(h, n)", "e = Exp(h) w = Sub(e, n)"),
    ],
)
def test_other_arithmetic_stays(kind: str, old: str, new: str) -> None:
    assert f"onnxlift.{LAYERS[kind]}" not in found(cell(kind, old, new))


@pytest.mark.parametrize("kind", [RNN, LSTM, GRU], ids=LAYERS.values())
def test_linear_layers_of_other_names_stay(kind: str) -> None:
    assert f"onnxlift.{LAYERS[kind]}" not in found(cell(kind, names=("x2h", "h2h")))


@pytest.mark.parametrize(
    ("kind", "part"),
    [(RNN, "t"), (RNN, "a"), (LSTM, "si"), (LSTM, "f"), (LSTM, "td"), (GRU, "m"), (GRU, "an"), (GRU, "w")],
)
def test_cells_with_a_part_that_is_an_output_stay(kind: str, part: str) -> None:
    model = cell(kind, outputs=f", float[batch, width] {part}")
    assert f"onnxlift.{LAYERS[kind]}" not in found(model)


@pytest.mark.parametrize(
    ("kind", "old", "new"), [(LSTM, "Mul(sf, c)", "Mul(sf, zero)"), (GRU, "Sub(h, n)", "Sub(zero, n)")]
)
@pytest.mark.parametrize("zeros_as", ["h = ConstantOfShape(sizes)", "h = Expand(zero, sizes)"])
def test_the_first_step(kind: str, old: str, new: str, zeros_as: str) -> None:
    """The state is zeros, in the place of which an optimiser may have put the number."""
    model = cell(kind, old, new)
    zeros = onnx.parser.parse_node(zeros_as)
    size = onnx.parser.parse_node("sizes = Shape(state)")
    model.graph.node.insert(0, zeros)
    model.graph.node.insert(0, size)
    model.graph.input[1].name = "state"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0), "zero"))
    assert f"onnxlift.{LAYERS[kind]}" in found(model)
    ones = onnx.numpy_helper.from_array(np.float32(1), "one")
    model.graph.initializer.append(ones)
    model.graph.node[1].CopyFrom(onnx.parser.parse_node("h = Expand(one, sizes)"))
    assert f"onnxlift.{LAYERS[kind]}" not in found(model)
    model.graph.node[1].CopyFrom(onnx.parser.parse_node("h = Identity(state)"))
    assert f"onnxlift.{LAYERS[kind]}" not in found(model)


def test_the_first_step_of_a_known_batch() -> None:
    """The zeros are constants, one for each place that reads the state."""
    text = """a = Gemm <transB = 1> ("/Zeros_1", weight_hh, bias_hh) b = Gemm <transB = 1> (x, weight_ih, bias_ih)
        hr, hz, hn = Split <axis = 1, num_outputs = 3> (a) ir, iz, in = Split <axis = 1, num_outputs = 3> (b)
        rs = Add(hr, ir) r = Sigmoid(rs) zs = Add(hz, iz) z = Sigmoid(zs) m = Mul(hn, r) t = Add(in, m) n = Tanh(t)
        d = Sub("/Zeros_2", n) e = Mul(d, z) y = Add(e, n)"""
    weights = {"weight_ih": (18, 8), "weight_hh": (18, 6), "bias_ih": (18,), "bias_hh": (18,)}
    for shape, second, expected in (((2, 6), 0.0, True), ((2, 6), 1.0, False), ((3, 2, 6), 0.0, False)):
        states = {"/Zeros_1": np.zeros((2, 6), np.float32), "/Zeros_2": np.full(shape, second, np.float32)}
        result = "float[3, 2, 6] y" if len(shape) == 3 else "float[2, 6] y"
        model = parse(f"g (float[2, 8] x) => ({result}) {{ {text} }}", **weights, **states)
        assert ("onnxlift.GRUCell" in found(model)) == expected


def test_steps_share_one_layer() -> None:
    steps = """a = Gemm <transB = 1> (h, weight_hh, bias_hh) b = Gemm <transB = 1> (x, weight_ih, bias_ih)
        s = Add(a, b) y = Tanh(s) c = Gemm <transB = 1> (y, weight_hh, bias_hh)
        d = Gemm <transB = 1> (w, weight_ih, bias_ih) t = Add(c, d) z = Tanh(t)"""
    inputs = "float[batch, 8] x, float[batch, 8] w, float[batch, 6] h"
    weights = {"weight_ih": (6, 8), "weight_hh": (6, 6), "bias_ih": (6,), "bias_hh": (6,)}
    model = parse(f"g ({inputs}) => (float[batch, 6] y, float[batch, 6] z) {{ {steps} }}", **weights)
    for tensor in model.graph.initializer:
        tensor.name = f"decoder.cell.{tensor.name}"
    for number, node in enumerate(model.graph.node):
        node.name = f"/decoder/cell/{node.op_type}_{number}"
        node.input[:] = [f"decoder.cell.{name}" if name in weights else name for name in node.input]
    lifted = onnxlift.lift(model)
    assert "self.cell = nn.RNNCell(8, 6)" in lifted.source
    assert [*lifted.state_dict] == [f"decoder.cell.{name}" for name in weights]

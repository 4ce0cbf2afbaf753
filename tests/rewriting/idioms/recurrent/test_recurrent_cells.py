"""Single steps of recurrent layers, spelled out; and what only looks like one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.ir.origin.metadata import FOLDED_FROM
from rewriting.idioms.recognising import Data, found, parse

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
    kind: str,
    old: str = "",
    new: str = "",
    outputs: str = "",
    names: tuple[str, str] = ("weight_ih", "weight_hh"),
    **more: Data,
) -> onnx.ModelProto:
    ih, hh = names
    size = 6 * GATES[kind]
    inputs = "float[batch, 8] x, float[batch, 6] h" + (", float[batch, 6] c" if kind is LSTM else "")
    results = "float[batch, 6] y" + (", float[batch, 6] d" if kind is LSTM else "") + outputs
    assert old in kind
    body = kind.replace(old, new).replace("IH", ih).replace("HH", hh)
    known = {ih: (size, 8), hh: (size, 6), "bias_ih": (size,), "bias_hh": (size,), **more}
    return parse(f"g ({inputs}) => ({results}) {{ {body} }}", **known)


def sized(kind: str, x: str, h: str, c: str = "", **weights: Data) -> onnx.ModelProto:
    """A cell of other sizes; those of the weights that are not given are the usual."""
    size = 6 * GATES[kind]
    inputs = f"float[{x}] x, float[{h}] h" + (f", float[{c}] c" if c else "")
    known = {"weight_ih": (size, 8), "weight_hh": (size, 6), "bias_ih": (size,), "bias_hh": (size,), **weights}
    body = kind.replace("IH", "weight_ih").replace("HH", "weight_hh")
    return parse(f"g ({inputs}) => (y) {{ {body} }}", **known)


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
        (GRU, "w = Sub(h, n)", "e = Exp(n) w = Sub(h, e)"),
        (GRU, "zs = Add(az, bz)", "zs = Sub(az, bz)"),
        (GRU, "m = Mul(an, r) ns = Add(bn, m)", "m = Mul(bn, r) ns = Add(an, m)"),  # resets what comes from the input
    ],
)
def test_other_arithmetic_stays(kind: str, old: str, new: str) -> None:
    assert f"onnxlift.{LAYERS[kind]}" not in found(cell(kind, old, new))


@pytest.mark.parametrize(
    ("kind", "sizes", "weights"),
    [
        (RNN, ["batch, 8", "1, 6"], {}),
        (RNN, ["1, 8", "batch, 6"], {}),
        (RNN, ["batch, 8", "batch, 5"], {"weight_hh": (6, 5)}),
        (RNN, ["batch, 8", "batch, 6"], {"weight_ih": (1, 8), "bias_ih": (1,)}),
        (RNN, ["batch, 8", "batch, 1"], {"weight_hh": (1, 1), "bias_hh": (1,)}),
        (RNN, ["batch, 8", "batch, 6"], {"bias_hh": (1, 6)}),
        (RNN, ["batch, 8", "batch, 6"], {"bias_ih": (1, 6)}),
        (LSTM, ["batch, 8", "batch, 5", "batch, 6"], {"weight_hh": (24, 5)}),
        (LSTM, ["batch, 8", "1, 6", "batch, 6"], {}),
        (LSTM, ["batch, 8", "batch, 6", "1, 6"], {}),
        (LSTM, ["batch, 8", "batch, 6", "batch, 1"], {}),
        (LSTM, ["batch, 8", "batch, 6", "3, batch, 6"], {}),
        (GRU, ["batch, 8", "batch, 1"], {"weight_hh": (18, 1)}),
        (GRU, ["batch, 8", "1, 6"], {}),
    ],
    ids="""rows rows-of-input square input-matrix hidden-matrix hidden-bias input-bias
        lstm-square lstm-rows memory-row memory-column memory-rank gru-square gru-rows""".split(),
)
def test_what_is_broadcast_is_no_cell(kind: str, sizes: list[str], weights: dict[str, Data]) -> None:
    assert f"onnxlift.{LAYERS[kind]}" not in found(sized(kind, *sizes, **weights))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Gemm <transB = 1> (h", "Gemm (h"),
        ("Gemm <transB = 1> (x, IH, bias_ih)", "Gemm <transB = 1> (x, IH)"),
        ("Gemm <transB = 1> (h, HH, bias_hh)", "Gemm <transB = 1> (h, HH)"),
        ("Gemm <transB = 1> (x, IH, bias_ih)", "MatMul(x, U)"),
    ],
    ids=["turned", "input bias", "hidden bias", "one layer"],
)
def test_layers_that_are_not_those_of_a_cell(old: str, new: str) -> None:
    assert "onnxlift.RNNCell" not in found(cell(RNN, old, new, U=(8, 6)))


def test_parts_of_other_sizes() -> None:
    """All but the candidate have one column: as many columns in all as the layer has, for another state."""
    body = LSTM.replace("<axis = 1, num_outputs = 4> (t)", "<axis = 1> (t, columns)")
    body = body.replace("IH", "weight_ih").replace("HH", "weight_hh")
    weights = {"weight_ih": (24, 8), "weight_hh": (24, 6), "bias_ih": (24,), "bias_hh": (24,)}
    columns = np.array([1, 1, 21, 1])
    inputs = "float[batch, 8] x, float[batch, 6] h, float[batch, 21] c"
    model = parse(f"g ({inputs}) => (y, d) {{ {body} }}", **weights, columns=columns)
    assert "onnxlift.LSTMCell" not in found(model)


def test_parts_along_the_rows() -> None:
    body = LSTM.replace("axis = 1", "axis = 0").replace("IH", "weight_ih").replace("HH", "weight_hh")
    weights = {"weight_ih": (24, 8), "weight_hh": (24, 6), "bias_ih": (24,), "bias_hh": (24,)}
    model = parse(f"g (float[8, 8] x, float[8, 6] h, float[2, 24] c) => (y) {{ {body} }}", **weights)
    assert "onnxlift.LSTMCell" not in found(model)


@pytest.mark.parametrize("kind", [RNN, LSTM, GRU], ids=LAYERS.values())
@pytest.mark.parametrize("names", [("x2h", "h2h"), ("weight_ih", "h2h"), ("x2h", "weight_hh")])
def test_linear_layers_of_other_names_stay(kind: str, names: tuple[str, str]) -> None:
    assert f"onnxlift.{LAYERS[kind]}" not in found(cell(kind, names=names))


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        *((RNN, part) for part in ("t", "a", "b")),
        *((LSTM, part) for part in "t a b i f g o si sf tg so kept new td".split()),
        *((GRU, part) for part in "a b ar az an br bz bn rs r zs z m ns n w v".split()),
    ],
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


@pytest.mark.parametrize(
    ("kind", "old", "new", "state"),
    [
        (LSTM, "Mul(sf, c)", "Mul(sf, h)", "float[batch, 6]"),  # one tensor is both states
        (LSTM, "", "", "zeros"),  # h is zeros, and c is not
    ],
    ids=["same", "other"],
)
def test_states_that_are_not_zeros(kind: str, old: str, new: str, state: str) -> None:
    model = cell(kind, old, new)
    if state == "zeros":
        zeros = onnx.numpy_helper.from_array(np.zeros((2, 6), np.float32), "/Zeros")
        model.graph.initializer.append(zeros)
        del model.graph.input[1]
        model.graph.node[0].input[0] = "/Zeros"
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = 2
    else:
        del model.graph.input[2]
    assert found(model) == ["onnxlift.LSTMCell"]


def first_step(start: str, shape: tuple[int, ...], later: str, size: tuple[int, ...], fill: float = 0) -> list[str]:
    """The operators of a GRU cell for two rows whose first state is called `start`, and `later` where it is used again;
    both are constants."""
    body = (
        GRU.replace("IH", "weight_ih")
        .replace("HH", "weight_hh")
        .replace("Gemm <transB = 1> (h", f'Gemm <transB = 1> ("{start}"')
    )
    weights = {"weight_ih": (18, 8), "weight_hh": (18, 6), "bias_ih": (18,), "bias_hh": (18,)}
    states = {later: np.full(size, fill, np.float32), start: np.zeros(shape, np.float32)}
    model = parse(f"""g (float[2, 8] x) => (y) {{ {body.replace("Sub(h", f'Sub("{later}"')} }}""", **weights, **states)
    return found(model)


@pytest.mark.parametrize(
    ("start", "later", "size", "is_cell"),
    [
        ("/Zeros_1", "/Zeros_2", (2, 6), True),
        ("/Zeros_1", "number", (1,), True),
        ("/Zeros_1", "number", (1, 1, 1), False),
        ("/Zeros_1", "/Zeros_2", (3, 2, 6), False),
        ("/Zeros_1", "trained", (2, 6), False),
        ("state", "/Zeros_2", (2, 6), False),
    ],
    ids=["zeros", "number", "axes", "more", "parameter", "state"],
)
def test_constants_for_the_first_step(start: str, later: str, size: tuple[int, ...], is_cell: bool) -> None:
    assert ("onnxlift.GRUCell" in first_step(start, (2, 6), later, size)) == is_cell


@pytest.mark.parametrize(("fill", "key", "is_cell"), [(0, True, True), (1, True, False), (0, False, False)])
def test_a_state_that_the_optimiser_computed(fill: float, key: bool, is_cell: bool) -> None:
    body = GRU.replace("IH", "weight_ih").replace("HH", "weight_hh").replace("(h, w", '("/Zeros", w')
    weights = {"weight_ih": (18, 8), "weight_hh": (18, 6), "bias_ih": (18,), "bias_hh": (18,)}
    states = {"/Zeros": np.zeros((2, 6), np.float32), "h": np.full((2, 6), fill, np.float32)}
    model = parse(f"g (float[2, 8] x) => (y) {{ {body} }}", **weights, **states)
    if key:
        info = onnx.helper.make_tensor_value_info("h", onnx.TensorProto.FLOAT, (2, 6))
        info.metadata_props.add(key=FOLDED_FROM, value="['zeros']")
        model.graph.value_info.append(info)
    assert ("onnxlift.GRUCell" in found(model)) == is_cell


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

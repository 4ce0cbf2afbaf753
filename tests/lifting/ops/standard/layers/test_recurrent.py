"""RNN, GRU and LSTM: as layers where PyTorch has them, as kernels where it has not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

import onnxlift
from lifting.ops.checking import check, check_official, model_of, official_cases

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6
random = np.random.default_rng(0)


def inputs(kind: str, directions: int = 1, **extra: Any) -> dict[str, Any]:
    """Random inputs for every place of the operator, in its order."""
    rows = GATES[kind] * HIDDEN
    arrays = {
        "X": _array(STEPS, BATCH, INPUT),
        "W": _array(directions, rows, INPUT),
        "R": _array(directions, rows, HIDDEN),
        "B": _array(directions, 2 * rows),
        "sequence_lens": np.array([5, 0, 3], np.int32),
        "initial_h": _array(directions, BATCH, HIDDEN),
    }
    if kind == "LSTM":
        arrays["initial_c"] = _array(directions, BATCH, HIDDEN)
        arrays["P"] = _array(directions, 3 * HIDDEN)
    return {**arrays, **extra}


def _array(*shape: int) -> np.ndarray[Any, Any]:
    return random.normal(0, 0.6, shape).astype(np.float32)


def run_case(kind: str, given: str, *, opset: int = 14, weights: str = "W R B", **attributes: Any) -> str:
    """Check one node that has the inputs named in `given`; those named in `weights` are constants. Gives the source."""
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    arrays = inputs(kind, directions)
    names = [name if name in given.split() else "" for name in arrays]
    while not names[-1]:
        names.pop()
    outputs = ["Y", "Y_h", "Y_c"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(kind, names, outputs, hidden_size=HIDDEN, **attributes)
    used = {name: arrays[name] for name in names if name}
    return check(node, used, opset=opset, constants=[n for n in weights.split() if n in used], atol=1e-5)


@pytest.mark.parametrize("opset", [7, 14, 22])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("given", ["X W R", "X W R B", "X W R B initial_h initial_c"])
@pytest.mark.parametrize(("kind", "attributes"), [("LSTM", {}), ("GRU", {"linear_before_reset": 1}), ("RNN", {})])
def test_is_a_layer(kind: str, attributes: dict[str, Any], given: str, direction: str, opset: int) -> None:
    source = run_case(kind, given, opset=opset, direction=direction, **attributes)
    assert f"nn.{kind}(4, 6" in source and "onnx_" not in source


KERNELS = [
    ("LSTM", "X W R B P", {}),
    ("LSTM", "X W R P initial_c", {"direction": "bidirectional"}),
    ("LSTM", "X W R B sequence_lens initial_h initial_c", {}),
    ("LSTM", "X W R B sequence_lens", {"direction": "reverse"}),
    ("LSTM", "X W R B sequence_lens P", {"direction": "bidirectional"}),
    ("LSTM", "X W R B", {"clip": 0.3}),
    ("LSTM", "X W R B P", {"clip": 0.3}),
    ("LSTM", "X W R B", {"input_forget": 1}),
    ("LSTM", "X W R B", {"activations": ["HardSigmoid", "Relu", "Softsign"]}),
    ("GRU", "X W R B", {}),
    ("GRU", "X W R", {"direction": "bidirectional"}),
    ("GRU", "X W R B initial_h", {"direction": "reverse"}),
    ("GRU", "X W R B sequence_lens initial_h", {"linear_before_reset": 1, "direction": "bidirectional"}),
    ("GRU", "X W R B", {"clip": 0.3}),
    ("GRU", "X W R B", {"activations": ["Sigmoid", "Softplus"], "linear_before_reset": 1}),
    ("RNN", "X W R B sequence_lens", {"direction": "bidirectional"}),
    ("RNN", "X W R B initial_h", {"clip": 0.4}),
    ("RNN", "X W R B", {"activations": ["Affine"], "activation_alpha": [0.4], "activation_beta": [0.1]}),
    ("RNN", "X W R B", {"activations": ["LeakyRelu"], "activation_alpha": [0.2]}),
    ("RNN", "X W R B", {"activations": ["Elu"]}),
    ("RNN", "X W R B", {"activations": ["ThresholdedRelu"], "activation_alpha": [0.1]}),
    ("RNN", "X W R B", {"activations": ["ScaledTanh"], "activation_alpha": [0.7], "activation_beta": [1.3]}),
    # Only the second of these takes an alpha, so the one that there is belongs to it.
    ("RNN", "X W R B", {"activations": ["Tanh", "Elu"], "activation_alpha": [0.3], "direction": "bidirectional"}),
]


@pytest.mark.parametrize("weights", ["W R B", ""])
@pytest.mark.parametrize(("kind", "given", "attributes"), KERNELS)
def test_is_a_kernel(kind: str, given: str, attributes: dict[str, Any], weights: str) -> None:
    assert f"onnx_{kind.lower()}(" in run_case(kind, given, weights=weights, **attributes)


def test_weights_from_outside_are_a_kernel() -> None:
    assert "onnx_lstm(X, W, R, B)" in run_case("LSTM", "X W R B", weights="")


def test_relu_is_a_nonlinearity() -> None:
    assert 'nonlinearity="relu"' in run_case("RNN", "X W R B", activations=["Relu"])


def test_zeros_are_not_passed() -> None:
    arrays = {**inputs("LSTM"), "initial_h": np.zeros((1, BATCH, HIDDEN), np.float32)}
    node = helper.make_node("LSTM", ["X", "W", "R", "B", "", "initial_h"], ["", "Y_h"], hidden_size=HIDDEN)
    used = {name: arrays[name] for name in ("X", "W", "R", "B", "initial_h")}
    source = check(node, used, opset=14, constants=["W", "R", "B", "initial_h"])
    assert "_, (h, _) = self.lstm(X)" in source


def test_one_state_alone_is_passed_with_zeros() -> None:
    source = run_case("LSTM", "X W R B initial_c")
    assert "(torch.zeros_like(initial_c), initial_c)" in source


def test_full_lengths_do_not_matter() -> None:
    arrays = {**inputs("GRU"), "sequence_lens": np.full(BATCH, STEPS, np.int32)}
    node = helper.make_node("GRU", [*"XWRB", "sequence_lens"], ["Y"], hidden_size=HIDDEN, linear_before_reset=1)
    used = {name: arrays[name] for name in ("X", "W", "R", "B", "sequence_lens")}
    assert "nn.GRU" in check(node, used, opset=14, constants=["W", "R", "B", "sequence_lens"])


@pytest.mark.parametrize("case", official_cases("LSTM", "GRU", "RNN"))
def test_official(case: Any) -> None:
    check_official(case)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_batchwise_with_everything(kind: str) -> None:
    """ONNX Runtime has no `layout`; what it gives without is the same, transposed."""
    arrays = inputs(kind, 2)
    arrays.pop("P", None)
    node = helper.make_node(kind, list(arrays), ["Y", "Y_h"], hidden_size=HIDDEN, direction="bidirectional")
    plain = onnxlift.lift(model_of([node], arrays, 14)).module()
    node.attribute.append(helper.make_attribute("layout", 1))
    batchwise = onnxlift.lift(model_of([node], arrays, 14, dynamic=True)).module()
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    y, h = plain(*tensors.values())
    for name in ("X", "initial_h", "initial_c"):
        if name in tensors:
            tensors[name] = tensors[name].transpose(0, 1)
    batch_y, batch_h = batchwise(*tensors.values())
    torch.testing.assert_close(batch_y, y.permute(2, 0, 1, 3))
    torch.testing.assert_close(batch_h, h.transpose(0, 1))


def test_unknown_activation_is_refused() -> None:
    node = helper.make_node("RNN", list("XWR"), ["Y"], hidden_size=HIDDEN, activations=["Swirl"])
    arrays = {name: array for name, array in inputs("RNN").items() if name in "XWR"}
    with pytest.raises(onnxlift.UnsupportedError, match="its activation is 'Swirl'"):
        onnxlift.lift(model_of([node], arrays, 14))


def test_first_gru_had_a_misspelt_default() -> None:
    """Opset 1 publishes "foward" as the default direction; nobody but us still runs it."""
    arrays = {name: array for name, array in inputs("GRU").items() if name in "XWRB"}
    node = helper.make_node("GRU", list("XWRB"), ["Y", "H"], hidden_size=HIDDEN, output_sequence=1)
    newer = helper.make_node("GRU", list("XWRB"), ["Y", "H"], hidden_size=HIDDEN)
    tensors = [torch.from_numpy(array) for array in arrays.values()]
    first = onnxlift.lift(model_of([node], arrays, 1)).module()(*tensors)
    torch.testing.assert_close(first, onnxlift.lift(model_of([newer], arrays, 14)).module()(*tensors))


# As PyTorch writes them


class Encoder(torch.nn.Module):
    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = layer

    def forward(self, x: torch.Tensor, *state: Any) -> Any:
        y, last = self.encoder(x, *state)
        return y, last


EXPORTED = [
    (torch.nn.LSTM(INPUT, HIDDEN, num_layers=3, bidirectional=True), ()),
    (
        torch.nn.LSTM(INPUT, HIDDEN, num_layers=2, batch_first=True),
        (torch.randn(2, STEPS, 6), torch.randn(2, STEPS, 6)),
    ),
    (torch.nn.GRU(INPUT, HIDDEN, num_layers=2, bias=False, batch_first=True, bidirectional=True), ()),
    (torch.nn.GRU(INPUT, HIDDEN), (torch.randn(1, BATCH, HIDDEN),)),
    (torch.nn.RNN(INPUT, HIDDEN, num_layers=2, nonlinearity="relu", bidirectional=True), ()),
]


@pytest.mark.parametrize(("layer", "state"), EXPORTED)
@pytest.mark.filterwarnings("ignore")
def test_exported_layers_come_back(layer: torch.nn.Module, state: Any, tmp_path: Any) -> None:
    model = Encoder(layer).eval()
    x = torch.randn(STEPS, BATCH, INPUT)
    state = (state,) if len(state) == 2 else state
    torch.onnx.export(model, (x, *state), tmp_path / "encoder.onnx", dynamo=False, opset_version=17)
    lifted = onnxlift.lift(tmp_path / "encoder.onnx")
    back = lifted.module()
    assert repr(back.encoder) == repr(layer)
    assert {key: value.tolist() for key, value in back.state_dict().items()} == {
        key: value.tolist() for key, value in model.state_dict().items()
    }
    leaves = torch.utils._pytree.tree_leaves
    with torch.no_grad():
        for actual, expected in zip(leaves(back(*leaves((x, state)))), leaves(model(x, *state)), strict=True):
            torch.testing.assert_close(actual, expected)


def packed_in_the_graph(order: str) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A GRU whose W, R and B are put together from PyTorch's parameters, with the gates in the given order."""
    parameters = {
        "gru.weight_ih_l0": _array(3 * HIDDEN, INPUT),
        "gru.weight_hh_l0": _array(3 * HIDDEN, HIDDEN),
        "gru.bias_ih_l0": _array(3 * HIDDEN),
        "gru.bias_hh_l0": _array(3 * HIDDEN),
    }
    cuts = {str(i): np.array([i * HIDDEN]) for i in range(4)}
    nodes = []
    for name in parameters:
        nodes += [helper.make_node("Slice", [name, str(i), str(i + 1), "0"], [f"{name}.{i}"]) for i in range(3)]
        nodes.append(helper.make_node("Concat", [f"{name}.{gate}" for gate in order], [f"{name}.all"], axis=0))
    nodes.append(helper.make_node("Unsqueeze", ["gru.weight_ih_l0.all", "0"], ["W"]))
    nodes.append(helper.make_node("Unsqueeze", ["gru.weight_hh_l0.all", "0"], ["R"]))
    nodes.append(helper.make_node("Concat", ["gru.bias_ih_l0.all", "gru.bias_hh_l0.all"], ["b"], axis=0))
    nodes.append(helper.make_node("Unsqueeze", ["b", "0"], ["B"]))
    nodes.append(helper.make_node("GRU", [*"XWRB"], ["Y"], hidden_size=HIDDEN, linear_before_reset=1))
    arrays = {"X": _array(STEPS, BATCH, INPUT), **parameters, **cuts}
    return model_of(nodes, arrays, 17, constants=[*parameters, *cuts]), arrays


def test_parameters_packed_by_the_graph_are_found() -> None:
    model, arrays = packed_in_the_graph("102")
    assert "nn.GRU(4, 6)" in check(model, arrays, atol=1e-5)
    assert set(onnxlift.lift(model).module().state_dict()) == {name for name in arrays if name.startswith("gru.")}


def test_biases_may_be_packed_already() -> None:
    model, arrays = packed_in_the_graph("102")
    bias = np.concatenate(
        [arrays[f"gru.bias_{kind}_l0"].reshape(3, HIDDEN)[[1, 0, 2]].reshape(-1) for kind in ("ih", "hh")]
    )
    nodes = [node for node in model.graph.node if not any("bias" in name or name == "b" for name in node.input)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.append(numpy_helper.from_array(bias[None], "B"))
    assert "nn.GRU(4, 6)" in check(model, arrays, atol=1e-5)
    state = onnxlift.lift(model).state_dict
    assert {name: array.tolist() for name, array in state.items()} == {
        name: array.tolist() for name, array in arrays.items() if name.startswith("gru.")
    }


def test_parameters_packed_otherwise_are_not_taken_for_them() -> None:
    model, arrays = packed_in_the_graph("012")
    assert "onnx_gru(" in check(model, arrays, atol=1e-5)


def stacked(names: tuple[str, str], *, outputs: list[str]) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Two LSTMs on top of one another; `outputs` are those of the model, out of y1, h1, y2, h2 and h (both)."""
    first = {name: array for name, array in inputs("LSTM").items() if name in "XWRB"}
    second = {"W2": _array(1, 4 * HIDDEN, HIDDEN), "R2": _array(1, 4 * HIDDEN, HIDDEN), "B2": _array(1, 8 * HIDDEN)}
    nodes = [
        helper.make_node("LSTM", [*"XWRB"], ["Y1", "h1"], names[0], hidden_size=HIDDEN),
        helper.make_node("Squeeze", ["Y1", "axis"], ["y1"], f"{names[0]}_squeeze"),
        helper.make_node("LSTM", ["y1", "W2", "R2", "B2"], ["Y2", "h2"], names[1], hidden_size=HIDDEN),
        helper.make_node("Squeeze", ["Y2", "axis"], ["y2"], f"{names[1]}_squeeze"),
        helper.make_node("Concat", ["h1", "h2"], ["h"], axis=0),
    ]
    arrays = {**first, **second, "axis": np.array([1])}
    model = model_of(nodes, arrays, 17, constants=[name for name in arrays if name != "X"])
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    return model, arrays


@pytest.mark.parametrize(
    ("names", "outputs", "layers"),
    [
        (("/enc/LSTM", "/enc/LSTM_1"), ["y2"], 1),
        (("/enc/LSTM", "/enc/LSTM_1"), ["y2", "h"], 1),
        (("first", "second"), ["y2", "h"], 1),  # they share a tensor of states
        (("first", "second"), ["y2"], 2),
        (("/a/LSTM", "/b/LSTM"), ["y2"], 2),  # two modules
        (("/a/LSTM", "/b/LSTM"), ["y2", "h"], 2),
        (("/enc/LSTM", "/enc/LSTM_1"), ["y1", "y2"], 2),  # somebody reads what lies between them
        (("/enc/LSTM", "/enc/LSTM_1"), ["y2", "h1"], 2),
        (("/enc/LSTM", "/enc/LSTM_1"), ["y2", "h", "h2"], 2),
        (("/enc/LSTM", "/enc/LSTM_1"), ["y2", "Y2"], 1),
    ],
)
def test_stacking(names: tuple[str, str], outputs: list[str], layers: int) -> None:
    model, arrays = stacked(names, outputs=outputs)
    source = check(model, arrays, atol=1e-5)
    assert source.count("nn.LSTM(") == layers
    assert ("num_layers=2" in source) == (layers == 1)


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([("Transpose", ["Y"], {"perm": [0, 2, 1, 3]}), ("Reshape", [0, "flat"], {})], ".flatten(0, 1)"),
        ([("ReduceSum", ["Y", "axis"], {"keepdims": 0})], ".unflatten(-1, (2, 6)).sum(2)"),
    ],
    ids=["in rows", "summed up"],
)
def test_directions_are_cut_out_where_somebody_asks_for_them(nodes: list[Any], text: str) -> None:
    """As CRNN and DeepSpeech do: without transposes to ONNX's order and back."""
    arrays = {name: array for name, array in inputs("LSTM", 2).items() if name in "XWRB"}
    arrays |= {"flat": np.array([-1, 2 * HIDDEN]), "axis": np.array([1])}
    graph = [helper.make_node("LSTM", [*"XWRB"], ["Y"], hidden_size=HIDDEN, direction="bidirectional")]
    for place, (kind, given, attributes) in enumerate(nodes):
        read = [f"v{place - 1}" if name == 0 else name for name in given]
        graph.append(helper.make_node(kind, read, [f"v{place}"], **attributes))
    used = {name: array for name, array in arrays.items() if any(name in node.input for node in graph)}
    model = model_of(graph, used, 17, constants=[name for name in used if name != "X"])
    del model.graph.output[:]
    model.graph.output.append(onnx.ValueInfoProto(name=graph[-1].output[0]))
    source = check(model, used, atol=1e-5)
    assert text in source and "transpose" not in source, source

"""A plain chain is an `nn.Sequential`, of numbered members and of named ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest
import torch
from torch import Tensor, nn

import onnxlift
from models.network import BATCH, Exporter, Network
from onnxlift.lifting.modules.module import is_list
from small_graphs import Graph, code, compare


def sequential(g: Graph, x: str, path: str, *layers: tuple[int, str, dict[str, Any]]) -> str:
    """Layers with their numbers below `path`: `Linear` or the op type of an activation."""
    for number, kind, attributes in layers:
        own = f"{path}.{number}" if path else str(number)
        scope = f"/{path}/{own}" if path else f"/{own}"
        if kind == "Linear":
            x = g.linear(x, own, name=f"{scope}/Gemm")
        else:
            x = g.node(kind, x, name=f"{scope}/{kind}", **attributes)
    return x


def test_layers_and_activations() -> None:
    g = Graph()
    x = sequential(g, g.input("x", "n", 4), "net", (0, "Linear", {}), (1, "Relu", {}), (2, "Linear", {}))
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert "self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))" in code(lifted)
    assert list(lifted.state_dict) == ["net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias"]


def test_what_the_exporter_left_out_is_an_identity() -> None:
    g = Graph()
    x = sequential(g, g.input("x", "n", 4), "net", (0, "Linear", {}), (1, "Relu", {}), (3, "Linear", {}))
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert "nn.ReLU(), nn.Identity(), nn.Linear" in lifted.source
    assert list(lifted.state_dict)[-1] == "net.3.bias"


def test_equal_layers_without_weights_are_a_member_each() -> None:
    g = Graph()
    layers = (0, "Linear", {}), (1, "Dropout", {}), (2, "Linear", {}), (3, "Dropout", {}), (4, "Linear", {})
    x = sequential(g, g.input("x", "n", 4), "net", *layers)
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    linear, dropout = "nn.Linear(4, 4)", "nn.Dropout()"
    assert f"nn.Sequential({linear}, {dropout}, {linear}, {dropout}, {linear})" in " ".join(
        lifted.source.split()
    ).replace("( ", "(").replace(" )", ")")


@pytest.mark.parametrize(
    ("op_type", "attributes", "layer"),
    [
        ("Relu", {}, "nn.ReLU()"),
        ("Sigmoid", {}, "nn.Sigmoid()"),
        ("Tanh", {}, "nn.Tanh()"),
        ("Elu", {"alpha": 0.5}, "nn.ELU("),
        ("LeakyRelu", {"alpha": 0.2}, "nn.LeakyReLU("),
        ("HardSwish", {}, "nn.Hardswish()"),
        ("Softplus", {}, "nn.Softplus()"),
        ("Selu", {}, "nn.SELU()"),
        ("Celu", {"alpha": 0.7}, "nn.CELU(0.7)"),
        ("Softmax", {"axis": -1}, "nn.Softmax(-1)"),
        ("LogSoftmax", {"axis": 0}, "nn.LogSoftmax(0)"),
    ],
)
def test_activations_that_are_layers(op_type: str, attributes: dict[str, Any], layer: str) -> None:
    g = Graph()
    layers = (0, "Linear", {}), (1, op_type, attributes), (2, "Linear", {})
    x = sequential(g, g.input("x", "n", 4), "net", *layers)
    assert layer in g.lift(g.node("Cos", x, name="/Cos")).source


@pytest.mark.parametrize(
    ("limits", "is_layer"),
    [((-0.5, 0.25), True), ((0.25, -0.5), False), ((None, 0.25), False)],
    ids=["both", "crossed", "one"],
)
def test_limits_are_a_layer(limits: tuple[float | None, float], is_layer: bool) -> None:
    """`nn.Hardtanh` wants both of them, and the lower one first."""
    g = Graph()
    low, high = ("" if limit is None else g.constant(f"onnx::{i}", np.float32(limit)) for i, limit in enumerate(limits))
    x = g.linear(g.input("x", "n", 4), "net.0", name="/net/net.0/Gemm")
    x = g.node("Clip", x, low, high, name="/net/net.1/Clip")
    x = g.linear(x, "net.2", name="/net/net.2/Gemm")
    assert ("nn.Hardtanh(-0.5, 0.25)" in g.lift(g.node("Cos", x, name="/Cos")).source) == is_layer


def test_layers_that_make_an_image_larger_or_smaller() -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[n, 8, 4, 4] x) => (float[n, 2, 16, 16] y)
        <float[4] scales = {1, 1, 2, 2}> {
            ["/0/Conv"] a = Conv(x, "0.weight")
            ["/1/DepthToSpace"] b = DepthToSpace <blocksize = 2, mode = "CRD"> (a)
            ["/2/Resize"] y = Resize <mode = "linear"> (b, , scales)
        }""")
    weight = np.random.default_rng(3).standard_normal((8, 8, 1, 1)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "0.weight"))
    lifted = onnxlift.lift(model)
    upsample = 'nn.Upsample(scale_factor=2, mode="bilinear")'
    assert f"nn.Conv2d(8, 8, 1, bias=False), nn.PixelShuffle(2), {upsample}" in " ".join(lifted.source.split())
    compare(lifted, model, {"x": np.random.default_rng(4).standard_normal((3, 8, 4, 4)).astype(np.float32)})


def pools() -> nn.Module:
    gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(3, 2, 1), nn.ReLU())
    head = nn.Sequential(nn.Conv2d(2, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(4, 3))
    return nn.Sequential(gate, head)


@pytest.mark.parametrize("exporter", ["dynamo", "script"])
def test_pools_over_everything(exporter: Exporter) -> None:
    def inputs(random: np.random.Generator, size: int) -> dict[str, Any]:
        return {"input": random.standard_normal((size, 3, 5, 7), np.float32)}

    network = Network("small", pools, inputs, {"input": BATCH}, "y", optimise=False)
    lifted, original, x = onnxlift.lift(network.export(exporter)), network.module(), torch.randn(3, 3, 5, 7)
    text = " ".join(lifted.source.split())
    assert "nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(3, 2, 1), nn.ReLU())" in text
    assert "nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Identity(), nn.Linear(4, 3)," in text
    module = lifted.module()
    module.load_state_dict(original.state_dict())
    torch.testing.assert_close(module(x), original(x))


@pytest.mark.parametrize(
    ("axes", "keepdims", "layer"),
    [
        ([2, 3], 1, "nn.AdaptiveMaxPool2d(1))"),
        ([-1, -2], 1, "nn.AdaptiveMaxPool2d(1))"),
        ([2, 3], 0, "nn.AdaptiveMaxPool2d(1), nn.Flatten())"),
        ([1, 2], 1, ""),
        ([2], 1, ""),
    ],
)
def test_maxima_over_everything(axes: list[int], keepdims: int, layer: str) -> None:
    sizes = [size for axis, size in enumerate(("n", "8", "4", "5")) if axis not in axes and axis - 4 not in axes]
    shape = ", ".join(sizes if not keepdims else ["a", "b", "c", "d"])
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float[n, 8, 4, 5] x) => (float[{shape}] y) {{
            ["/0/Conv"] a = Conv(x, "0.weight")
            ["/1/ReduceMax"] y = ReduceMax <keepdims = {keepdims}> (a, axes)
        }}""")
    weight = np.random.default_rng(3).standard_normal((8, 8, 1, 1)).astype(np.float32)
    for name, array in (("0.weight", weight), ("axes", np.array(axes))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    lifted = onnxlift.lift(model)
    assert layer in re.sub(r",? \)", ")", " ".join(lifted.source.split()))
    assert bool(layer) == ("AdaptiveMaxPool" in lifted.source)
    compare(lifted, model, {"x": np.random.default_rng(4).standard_normal((3, 8, 4, 5)).astype(np.float32)})


def test_a_reshape_to_one_axis_is_a_layer_that_spares_none() -> None:
    g = Graph()
    x = sequential(g, g.input("x", "n", 4), "net", (0, "Linear", {}), (1, "Relu", {}))
    x = g.node("Reshape", x, g.constant("shape", np.array([-1])), name="/net/net.2/Reshape")
    assert "nn.ReLU(), nn.Flatten(0))" in g.lift(g.node("Cos", x, name="/Cos")).source


def test_a_chain_that_something_else_reads_from_is_none() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    h = sequential(g, x, "net", (0, "Linear", {}), (1, "Relu", {}))
    y = sequential(g, h, "net", (2, "Linear", {}))
    lifted = g.lift(g.node("Cos", g.node("Add", h, y, name="/Add"), name="/Cos"))
    assert "nn.Sequential" not in lifted.source
    assert {key.rpartition(".")[0] for key in lifted.state_dict} == {"net.0", "net.2"}


def test_a_residual_inside_is_none() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    h = sequential(g, x, "net", (0, "Linear", {}), (1, "Sin", {}))
    h = g.node("Add", sequential(g, h, "net", (2, "Linear", {})), x, name="/net/Add")
    lifted = g.lift(g.node("Cos", h, name="/Cos"))
    assert "nn.Sequential" not in lifted.source
    assert {key.rpartition(".")[0] for key in lifted.state_dict} == {"net.0", "net.2"}


def test_the_model_itself_may_be_one() -> None:
    g = Graph()
    lifted = g.lift(sequential(g, g.input("x", "n", 4), "", (0, "Linear", {}), (1, "Relu", {}), (2, "Linear", {})))
    assert "class Small(nn.Sequential):" in lifted.source
    assert list(lifted.state_dict) == ["0.weight", "0.bias", "2.weight", "2.bias"]


class Saturating(nn.Module):
    """A function that is no layer of PyTorch's, as the exporters write it."""

    def forward(self, x: Tensor) -> Tensor:
        return x / (2 + x.abs())


def of_functions() -> nn.Module:
    inner = nn.Sequential(nn.Linear(4, 6), Saturating(), nn.Linear(6, 4))
    return nn.Sequential(inner, nn.Dropout(), nn.Linear(4, 3), Saturating(), nn.BatchNorm1d(3), nn.Linear(3, 5))


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
def test_a_model_that_is_a_sequential_of_functions_keeps_its_keys(exporter: Exporter) -> None:
    def inputs(random: np.random.Generator, size: int) -> dict[str, Any]:
        return {"input": random.standard_normal((size, 4), np.float32)}

    network = Network("small", of_functions, inputs, {"input": BATCH}, "y", optimise=False)
    original = network.module()
    proto = network.export(exporter)
    lifted = onnxlift.lift(proto, name="small")
    function = "Saturating()" if exporter == "dynamo" else "Activation()"
    assert "class Small(nn.Sequential):" in lifted.source
    assert f"nn.Sequential(nn.Linear(4, 6), {function}, nn.Linear(6, 4))" in lifted.source
    assert lifted.source.count("class ") == 2
    module = lifted.module()
    module.load_state_dict(original.state_dict())
    x = torch.randn(3, 4)
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    exported = torch.export.export(module, (x,)).module()
    with torch.no_grad():
        for same in (module, compiled, exported):
            torch.testing.assert_close(same(x), original(x))


def with_a_gate(g: Graph, x: str, gate: str) -> str:
    """A chain of a layer, a product of its halves, one of which goes through `gate`, and a layer."""
    x = g.linear(x, "net.0", columns=8, name="/net/net.0/Gemm")
    sizes = g.constant("sizes", np.array([4, 4]))
    half = g.node("Split", x, sizes, name="/net/net.1/Split", axis=-1)
    g.nodes[-1].output.append("other")
    y = g.node("Mul", half, g.node(gate, "other", name=f"/net/net.1/{gate}"), name="/net/net.1/Mul")
    return g.linear(y, "net.3", name="/net/net.3/Gemm")


@pytest.mark.parametrize(("gate", "name"), [("Relu", "ReGLU"), ("Sin", "Gate")])
def test_code_without_weights_in_a_chain_is_a_layer(gate: str, name: str) -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    y = g.node("Cos", with_a_gate(g, x, gate), name="/Cos")
    lifted = g.lift(y)
    chain = f"nn.Sequential(nn.Linear(4, 8), {name}(), nn.Identity(), nn.Linear(4, 4))"
    assert f"self.net = {chain}" in lifted.source, lifted.source
    assert f"class {name}(nn.Module):\n    def forward(self" in lifted.source
    assert list(lifted.state_dict) == ["net.0.weight", "net.0.bias", "net.3.weight", "net.3.bias"]
    compare(lifted, g.model(y), {"x": np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)})


def test_code_without_weights_in_what_is_no_chain_is_code() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    y = g.node("Add", with_a_gate(g, x, "Relu"), x, name="/net/Add")
    lifted = g.lift(g.node("Cos", y, name="/Cos"))
    assert "nn.Sequential" not in lifted.source
    assert lifted.source.count("class ") == 1


def test_one_step_of_several_layers_is_a_module() -> None:
    g = Graph()
    x = sequential(
        g, g.input("x", "n", 4), "net", (0, "Linear", {}), (1, "Relu", {}), (1, "Tanh", {}), (2, "Linear", {})
    )
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert "nn.Sequential(nn.Linear(4, 4), Activation(), nn.Linear(4, 4))" in lifted.source


def at_the_top(names: Sequence[str]) -> onnxlift.Lifted:
    """Layers with these names, each added to what goes into it."""
    g = Graph()
    x = g.input("x", "n", 4)
    for name in names:
        x = g.node("Add", g.linear(x, name, name=f"/{name}/Gemm"), g.node("Sin", x, name=f"/Sin_{name}"), name="/Add")
    return g.lift(x)


@pytest.mark.parametrize(
    ("names", "base", "calls"),
    [
        (["0", "1"], "nn.ModuleList", ["self[0](", "self[1]("]),
        (["0", "2"], "nn.ModuleDict", ['self["0"](', 'self["2"](']),
        (["0", "fc"], "nn.ModuleDict", ['self["0"](', "self.fc("]),
        (["0", "items"], "nn.Module", ["self.linear_0(", "self.items("]),  # a method of nn.ModuleDict
    ],
)
def test_numbers_at_the_top_that_are_no_chain(names: list[str], base: str, calls: list[str]) -> None:
    lifted = at_the_top(names)
    assert f"class Small({base}):" in lifted.source, lifted.source
    assert all(call in lifted.source for call in calls), lifted.source
    if base != "nn.Module":
        assert list(lifted.module().state_dict()) == [f"{name}.{kind}" for name in names for kind in ("weight", "bias")]


def test_a_parameter_that_is_a_number_keeps_its_key() -> None:
    g = Graph()
    x = g.linear(g.input("x", "n", 4), "0", name="/0/Gemm")
    lifted = g.lift(g.node("Sin", g.node("Mul", x, g.weight("a.7", 4), name="/Mul"), name="/Sin"))
    assert list(lifted.module().state_dict()) == ["0.weight", "0.bias", "a.7"]


def test_a_block_at_the_top_that_is_a_number() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    h = g.node("Sin", g.linear(x, "0.fc", name="/0/fc/Gemm"), name="/0/Sin")
    lifted = g.lift(g.node("Add", g.node("Add", h, x, name="/0/Add"), x, name="/Add"))
    assert list(lifted.module().state_dict()) == ["0.fc.weight", "0.fc.bias"]


def test_blocks_in_a_sequential() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(2):
        scope = f"/net/net.{i}"
        h = g.node("Sin", g.linear(x, f"net.{i}.a", name=f"{scope}/a/Gemm"), name=f"{scope}/Sin")
        x = g.node("Add", g.linear(h, f"net.{i}.b", name=f"{scope}/b/Gemm"), x, name=f"{scope}/Add")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert "self.net = nn.Sequential(Block(), Block())" in lifted.source
    assert {key.rpartition(".")[0] for key in lifted.state_dict} == {"net.0.a", "net.0.b", "net.1.a", "net.1.b"}
    assert code(lifted).count("class ") == 2


def test_whether_a_container_is_a_list_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Mock(wraps=is_list)
    monkeypatch.setattr("onnxlift.lifting.modules.module.is_list", asked)
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(30):
        x = g.node("Tanh", g.node(("Max", "Add")[i in (3, 7, 20)], g.linear(x, f"layers.{i}"), x))
    assert "self.layers[29](" in g.lift(x).source
    assert asked.call_count < 10


Named = tuple[str, str]
"""The name and the kind of a layer: `Linear`, or the op type of an activation."""

NAMED: tuple[Named, ...] = (("fc1", "Linear"), ("act", "Relu"), ("fc2", "Linear"), ("out", "Sigmoid"))


def named(g: Graph, x: str, path: str, *layers: Named, cls: str = "") -> str:
    """Layers with their names below `path`; those without a name are functions. With `cls`, as the newer exporter."""
    for name, kind in layers:
        own = f"{path}.{name}" if name else path
        scopes = [*("" if i == 0 else ".".join(own.split(".")[:i]) for i in range(own.count(".") + 2)), kind]
        classes = ["Small", cls, kind, f"aten.{kind}"] if name else ["Small", cls, f"aten.{kind}"]
        metadata = {"scopes": scopes, "classes": classes} if cls else {}
        label = f"/{path}/{name}/{kind}" if name else f"/{path}/{kind}"
        if kind == "Linear":
            weight, bias = g.weight(f"{own}.weight", 4, 4), g.weight(f"{own}.bias", 4)
            x = g.node("Gemm", x, weight, bias, name=label, transB=1, **metadata)
        else:
            x = g.node(kind, x, name=label, **metadata)
    return x


KEYS = ["head.fc1.weight", "head.fc1.bias", "head.fc2.weight", "head.fc2.bias"]


def test_a_long_chain_with_names() -> None:
    g = Graph()
    lifted = g.lift(g.node("Cos", named(g, g.input("x", "n", 4), "head", *NAMED), name="/Cos"))
    assert code(lifted).count("class ") == 1
    layers = ["fc1 = nn.Linear(4, 4)", "act = nn.ReLU()", "fc2 = nn.Linear(4, 4)", "out = nn.Sigmoid()"]
    lines = ["self.head = nn.Sequential()", *(f"self.head.{layer}" for layer in layers)]
    assert "\n".join(f"        {line}" for line in lines) in lifted.source
    assert list(lifted.state_dict) == KEYS


def test_a_chain_with_names_that_fits_on_a_line() -> None:
    g = Graph()
    lifted = g.lift(g.node("Cos", named(g, g.input("x", "n", 4), "head", *NAMED[:2], cls="Sequential"), name="/Cos"))
    assert "self.head = nn.Sequential(OrderedDict(fc1=nn.Linear(4, 4), act=nn.ReLU()))" in lifted.source
    assert "from collections import OrderedDict\n" in lifted.source


def test_a_chain_with_names_has_the_class_that_the_exporter_tells() -> None:
    g = Graph()
    lifted = g.lift(g.node("Cos", named(g, g.input("x", "n", 4), "head", *NAMED, cls="Head"), name="/Cos"))
    text = code(lifted)
    head = text[text.index("class Head(nn.Sequential):") : text.index("class Small")]
    assert "        super().__init__()\n        self.fc1 = nn.Linear(4, 4)\n        self.act = nn.ReLU()\n" in head
    assert "forward" not in head
    assert list(lifted.state_dict) == KEYS


def test_a_chain_with_names_that_is_there_twice_is_a_class() -> None:
    g = Graph()
    x = named(g, named(g, g.input("x", "n", 4), "a.head", *NAMED), "b.head", *NAMED)
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert "class Head(nn.Sequential):" in lifted.source


@pytest.mark.parametrize(
    "layers",
    [
        NAMED[:3],  # it reads well as a forward of one line
        (*NAMED[:2], ("", "Tanh"), *NAMED[2:]),  # a function was no layer
        (*NAMED, ("act", "Relu")),  # a layer that is called twice
        (("append", "Linear"), *NAMED[1:]),  # nn.Sequential has a method of that name
    ],
)
def test_a_chain_with_names_that_has_a_forward(layers: tuple[Named, ...]) -> None:
    g = Graph()
    lifted = g.lift(g.node("Cos", named(g, g.input("x", "n", 4), "head", *layers), name="/Cos"))
    assert "nn.Sequential" not in lifted.source


def test_a_chain_with_names_shares_the_class_of_those_that_do_more() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    x = g.node("Add", x, named(g, x, "a.0", *NAMED), name="/a/0/Add")
    lifted = g.lift(g.node("Cos", named(g, x, "a.1", *NAMED), name="/Cos"))
    assert code(lifted).count("class ") == 2
    assert "residual" in lifted.source

"""Products with matrices that are no linear layers'."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift

from .recognising import assert_same_numbers, parse


def product(weight: str, shape: tuple[int, int] = (4, 6), bias: str = "", producer: str = "pytorch") -> onnx.ModelProto:
    transposed = int(shape == (4, 6))
    added = f', "{bias}"' if bias else ""
    text = f'y = Gemm <transB = {transposed}> (x, "{weight}"{added})'
    constants = {weight: shape} | ({bias: (4,)} if bias else {})
    model = parse(f"g (float[batch, 6] x) => (float[batch, 4] y) {{ {text} }}", **constants)
    model.producer_name = producer
    assert_same_numbers(model)
    return model


@pytest.mark.parametrize(
    ("weight", "bias", "written"),
    [
        ("inner.kernel", "", "F.linear(x, self.kernel)"),
        ("inner.kernel", "inner.bias", "F.linear(x, self.kernel, self.bias)"),
    ],
)
def test_a_parameter_with_a_name_of_its_own_keeps_it(weight: str, bias: str, written: str) -> None:
    lifted = onnxlift.lift(product(weight, bias=bias))
    assert written.replace("self.", "self.inner.") in lifted.source
    assert sorted(lifted.state_dict) == sorted(name for name in (weight, bias) if name)


@pytest.mark.parametrize(
    ("weight", "shape", "bias"),
    [("weight", (4, 6), ""), ("weight", (4, 6), "bias"), ("onnx::MatMul_7", (6, 4), "bias")],
)
def test_a_layer_that_was_exported_by_itself_has_its_keys(weight: str, shape: tuple[int, int], bias: str) -> None:
    lifted = onnxlift.lift(product(weight, shape, bias))
    assert "(nn.Linear):" in lifted.source
    assert sorted(lifted.state_dict) == sorted(name for name in ("weight", bias) if name)
    assert "= nn.Linear" in onnxlift.lift(product(weight, shape, bias, producer="other")).source


@pytest.mark.parametrize(("weight", "producer"), [("inner.weight", "pytorch"), ("inner.kernel", "other")])
def test_layers_stay(weight: str, producer: str) -> None:
    assert "nn.Linear(6, 4, bias=False)" in onnxlift.lift(product(weight, producer=producer)).source


def test_a_packed_projection_has_the_name_of_its_class() -> None:
    lifted = onnxlift.lift(product("onnx::MatMul_12", (6, 4), "attn.in_proj_bias"))
    assert {key: array.shape for key, array in lifted.state_dict.items()} == {
        "attn.in_proj_weight": (4, 6),
        "attn.in_proj_bias": (4,),
    }


@pytest.mark.parametrize(
    ("weight", "shape", "bias"),
    [("onnx::MatMul_12", (6, 4), "attn.bias"), ("onnx::MatMul_12", (4, 6), "attn.in_proj_bias")],
)
def test_other_nameless_weights_are_layers(weight: str, shape: tuple[int, int], bias: str) -> None:
    assert "nn.Linear(6, 4)" in onnxlift.lift(product(weight, shape, bias)).source


CONV = 'y = Conv(x, "inner.kernel", "inner.shift")'
NORM = 'y = LayerNormalization <axis = -1> (x, "inner.gamma", "inner.beta")'
SHAPES = {
    "kernel": (4, 4, 3),
    "shift": (4,),
    "weight": (4, 4, 3),
    "bias": (4,),
    "weight_bias": (4,),
    "gamma": (9,),
    "beta": (9,),
}


def layer(text: str, producer: str = "pytorch") -> onnx.ModelProto:
    """A convolution or norm of 4 channels, with weights called as in the text."""
    names = [name.partition('"')[0] for name in text.split(' "')[1:]]
    shapes = {name: SHAPES.get(name.rpartition(".")[2], (4, 4, 3)) for name in names}
    width = 7 if "Conv" in text else 9
    model = parse(f"g (float[batch, 4, 9] x) => (float[batch, 4, {width}] y) {{ {text} }}", **shapes)
    model.producer_name = producer
    assert_same_numbers(model)
    return model


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (CONV, "F.conv1d(x, self.inner.kernel, self.inner.shift)"),
        (CONV.replace("kernel", "weight"), "F.conv1d(x, self.inner.weight, self.inner.shift)"),
        (CONV.replace(', "inner.shift"', ""), "F.conv1d(x, self.inner.kernel)"),
        (NORM, "F.layer_norm(x, (9,), self.inner.gamma, self.inner.beta)"),
    ],
)
def test_convolutions_and_norms_by_other_names(text: str, written: str) -> None:
    lifted = onnxlift.lift(layer(text))
    assert written in lifted.source
    assert sorted(lifted.state_dict) == sorted(name.partition('"')[0] for name in text.split(' "')[1:])


@pytest.mark.parametrize(
    ("text", "producer"),
    [
        (CONV, "other"),
        (CONV.replace("kernel", "weight").replace("shift", "bias"), "pytorch"),
        (CONV.replace("kernel", "weight").replace("shift", "weight_bias"), "pytorch"),  # of a folded BatchNorm
        (CONV.replace("inner.kernel", "onnx::Conv_12"), "pytorch"),
        (CONV.replace("inner.kernel", "mul_7").replace("shift", "bias"), "pytorch"),
    ],
)
def test_layers_by_their_names(text: str, producer: str) -> None:
    assert "nn.Conv1d(4, 4, 3)" in onnxlift.lift(layer(text, producer)).source


def noted(model: onnx.ModelProto, **notes: str) -> onnx.ModelProto:
    """The model with what the newer exporter writes beside constants."""
    for name, note in notes.items():
        key = "pkg.onnxscript.optimizer.folded_from"
        if note in ("PARAMETER", "BUFFER"):
            key = "pkg.torch.export.graph_signature.InputSpec.kind"
        model.graph.value_info.add(name=name).metadata_props.add(key=key, value=note)
    model.producer_name = "pytorch"
    assert_same_numbers(model)
    return model


SLOPE = "g (float[batch, 4, 9] x) => (float[batch, 4, 9] y) { y = PRelu(x, val_1) }"


@pytest.mark.parametrize("shape", [(4, 1), (1, 1), (1, 4, 1)])
def test_a_slope_has_the_name_that_it_was_made_from(shape: tuple[int, ...]) -> None:
    lifted = onnxlift.lift(noted(parse(SLOPE, val_1=shape), val_1="['inner.slope', 'val_0']"))
    assert "F.prelu(x, self.inner.slope)" in lifted.source
    assert {key: array.shape for key, array in lifted.state_dict.items()} == {"inner.slope": (max(shape),)}
    assert dict(lifted.module().named_parameters()).keys() == {"inner.slope"}


@pytest.mark.parametrize(
    ("shape", "note"),
    [
        ((4, 1), "['inner.slope', 'exp', 'val_0']"),
        ((4, 1), "['inner.weight', 'val_0']"),
        ((9,), "['inner.slope', 'val_0']"),
    ],
    ids=["computed", "by a layer's name", "no channel's"],
)
def test_other_slopes(shape: tuple[int, ...], note: str) -> None:
    assert "F.prelu" not in onnxlift.lift(noted(parse(SLOPE, val_1=shape), val_1=note)).source


def test_a_matrix_has_the_name_that_it_was_made_from() -> None:
    text = "g (float[batch, 5, 6] x) => (float[batch, 5, 4] y) { y = MatMul(x, val_1) }"
    lifted = onnxlift.lift(noted(parse(text, val_1=(6, 4)), val_1="['inner.matrix']"))
    assert "F.linear(x, self.inner.matrix)" in lifted.source
    assert lifted.state_dict["inner.matrix"].shape == (4, 6)


BATCH_NORM = 'g (float[batch, 4, 9] x) => (float[batch, 4, 9] y) { y = BatchNormalization(x, "w", "b", "m", "v") }'


@pytest.mark.parametrize(
    ("names", "kinds", "is_layer"),
    [
        ({"w": "n.gamma", "b": "n.beta", "m": "n.mean", "v": "n.var"}, {}, False),
        ({"w": "n.weight", "b": "n.bias", "m": "n.running_mean", "v": "n.running_var"}, {}, True),
        ({"w": "n.weight", "b": "n.bias", "m": "n.running_mean", "v": "n.running_var"}, {"n.weight": "BUFFER"}, False),
        ({"w": "n.weight", "b": "n.bias", "m": "n.running_mean", "v": "n.running_var"}, {"n.act.weight": ""}, True),
    ],
    ids=["other names", "a layer", "nothing to train", "with modules below it"],
)
def test_batch_norms(names: dict[str, str], kinds: dict[str, str], is_layer: bool) -> None:
    text = BATCH_NORM
    for short, name in names.items():
        text = text.replace(f'"{short}"', f'"{name}"')
    shapes: dict[str, tuple[int, ...]] = {name: (4,) for short, name in names.items() if short != "v"}
    model = parse(text, **shapes, **{names["v"]: np.array([0.5, 2, 1, 3], np.float32)})
    if "n.act.weight" in kinds:
        text = text.replace("y =", "a =").replace("}", 'y = PRelu(a, "n.act.weight") }')
        model = parse(text, **shapes, **{names["v"]: np.array([0.5, 2, 1, 3], np.float32), "n.act.weight": (1,)})
        kinds = {}
    lifted = onnxlift.lift(noted(model, **kinds))
    assert ("nn.BatchNorm1d(4)" in lifted.source) == is_layer
    assert {"mean", "var"} <= {name.rpartition(".")[2].removeprefix("running_") for name in lifted.state_dict}
    trained = dict(lifted.module().named_parameters())
    assert not any(name.endswith(("mean", "var")) for name in trained)


def beside(name: str, other: str, node: str = "/inner/LayerNormalization") -> onnxlift.Lifted:
    text = f'a = LayerNormalization <axis = -1> (x, "{name}.weight", "{name}.bias") y = PRelu(a, "{other}.weight")'
    shapes: dict[str, tuple[int, ...]] = {f"{name}.weight": (9,), f"{name}.bias": (9,), f"{other}.weight": (1,)}
    model = parse(f"g (float[batch, 4, 9] x) => (float[batch, 4, 9] y) {{ {text} }}", **shapes)
    model.graph.node[0].name = node
    return onnxlift.lift(noted(model))


def test_a_module_with_modules_below_it_is_no_layer() -> None:
    lifted = beside("inner", "inner.act")
    assert "F.layer_norm(x, (9,), self.weight, self.bias)" in lifted.source
    assert sorted(lifted.state_dict) == ["inner.act.weight", "inner.bias", "inner.weight"]
    assert "nn.LayerNorm(9)" in beside("inner", "act").source


@pytest.mark.parametrize("module", ["/inner", "/inner/fc"])
def test_a_matrix_without_a_name_is_in_the_module_of_its_bias(module: str) -> None:
    text = 'h = MatMul(x, "onnx::MatMul_7") y = Add("inner.shift", h)'
    shapes: dict[str, tuple[int, ...]] = {"onnx::MatMul_7": (6, 4), "inner.shift": (4,)}
    model = parse(f"g (float[batch, 5, 6] x) => (float[batch, 5, 4] y) {{ {text} }}", **shapes)
    for node in model.graph.node:
        node.name = f"{module}/{node.op_type}"
    lifted = onnxlift.lift(noted(model))
    assert ("F.linear(x, self.weight, self.shift)" in lifted.source) == (module == "/inner")


def test_a_single_number_is_trained_by_its_name() -> None:
    text = 'g (float[batch, 5] x) => (float[batch, 5] y) { a = Mul(x, "inner.scale") y = Add(a, "onnx::Add_7") }'
    lifted = onnxlift.lift(noted(parse(text, **{"inner.scale": (1,), "onnx::Add_7": (1,)})))
    assert dict(lifted.module().named_parameters()).keys() == {"inner.scale"}
    assert "return x * self.scale + 0.29874554" in lifted.source

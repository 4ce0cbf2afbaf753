from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import onnxlift
from rewriting.idioms.attention.multihead_layers import exported
from rewriting.idioms.recognising import Data, found, parse, simplified

LAYER_NORM = """
    m = ReduceMean <axes = [{axes}]> (x)
    d = Sub(x, m)
    s = Pow(d, two)
    v = ReduceMean <axes = [{axes}]> (s)
    e = Add(v, epsilon)
    r = Sqrt(e)
    n = Div(d, r)
"""
RMS_NORM = """
    s = Mul(x, x)
    v = ReduceMean <axes = [{axes}]> (s)
    e = Add(v, epsilon)
    r = Sqrt(e)
    i = Reciprocal(r)
    n = Mul(x, i)
"""


def model(body: str, axes: str = "-1", opset: int = 13, outputs: str = "", **weights: object) -> onnx.ModelProto:
    text = f"g (float[batch, seq, 4, 6] x) => (float[batch, seq, 4, 6] y{outputs}) {{ {body.format(axes=axes)} }}"
    numbers = {"two": 2.0, "epsilon": 1e-3} | weights
    return parse(text, opset, **{name: value for name, value in numbers.items() if name in body})  # type: ignore[arg-type]


@pytest.mark.parametrize("axes", ["-1", "3", "2, 3", "-1, -2"])
def test_layer_norm(axes: str) -> None:
    assert found(model(f"{LAYER_NORM} y = Identity(n)", axes)) == ["onnxlift.LayerNorm"]


def test_layer_norm_takes_weight_and_bias() -> None:
    affine = model(f"{LAYER_NORM} w = Mul(n, weight) y = Add(bias, w)", weight=(6,), bias=(6,))
    assert found(affine) == ["onnxlift.LayerNorm"]
    (norm,) = simplified(affine).graph
    assert [value.name for value in norm.inputs] == ["x", "weight", "bias"]


def test_layer_norm_of_two_axes_takes_a_weight_of_two() -> None:
    assert found(model(f"{LAYER_NORM} y = Mul(n, weight)", "2, 3", weight=(4, 6))) == ["onnxlift.LayerNorm"]


@pytest.mark.parametrize("shape", [(1,), (4, 6), (4, 1)])
def test_layer_norm_leaves_a_weight_of_another_shape(shape: tuple[int, ...]) -> None:
    assert found(model(f"{LAYER_NORM} y = Mul(n, weight)", weight=shape)) == ["onnxlift.LayerNorm", "Mul"]


def test_layer_norm_leaves_a_bias_alone() -> None:
    assert found(model(f"{LAYER_NORM} y = Add(n, bias)", bias=(6,))) == ["onnxlift.LayerNorm", "Add"]


@pytest.mark.parametrize("inverse", ["i = Reciprocal(r) n = Mul(d, i)", "i = Div(one, r) n = Mul(i, d)"])
def test_layer_norm_by_the_inverse_root(inverse: str) -> None:
    body = LAYER_NORM.replace("n = Div(d, r)", inverse) + "y = Identity(n)"
    assert found(model(body, one=1.0)) == ["onnxlift.LayerNorm"]


def test_layer_norm_by_powers() -> None:
    body = LAYER_NORM.replace("r = Sqrt(e)", "r = Pow(e, power)").replace("n = Div(d, r)", "n = Mul(d, r)")
    assert found(model(body + "y = Identity(n)", power=-0.5)) == ["onnxlift.LayerNorm"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("e = Add(v, epsilon)\n    r = Sqrt(e)", "e = Sqrt(v)\n    r = Add(e, epsilon)"),  # epsilon outside of the root
        ("v = ReduceMean <axes = [{axes}]>", "v = ReduceMean <axes = [1]>"),
        ("m = ReduceMean <axes = [{axes}]> (x)", "m = ReduceMean <axes = [2]> (x)"),
        ("m = ReduceMean <axes = [{axes}]> (x)", "a = Abs(x) m = ReduceMean <axes = [{axes}]> (a)"),
        ("s = Pow(d, two)", "a = Abs(d) s = Pow(a, three)"),
        ("v = ReduceMean", "v = ReduceMax"),
        ("d = Sub(x, m)", "d = Sub(m, x)"),
    ],
)
def test_other_statistics_stay(old: str, new: str) -> None:
    body = LAYER_NORM.replace(old, new)
    assert body != LAYER_NORM
    assert "onnxlift.LayerNorm" not in found(model(f"{body} y = Identity(n)", three=3.0))


@pytest.mark.parametrize("part", ["d", "r", "v", "m"])
def test_layer_norm_stays_if_a_part_is_an_output(part: str) -> None:
    proto = model(f"{LAYER_NORM} y = Identity(n)", outputs=f", float {part}")
    proto.graph.output[1].type.tensor_type.ClearField("shape")
    assert "onnxlift.LayerNorm" not in found(proto)


def test_layer_norm_stays_if_the_axes_are_not_kept() -> None:
    text = """g (float[6, 6] x) => (float[6, 6] y) {
        m = ReduceMean <axes = [1], keepdims = 0> (x) d = Sub(x, m) s = Mul(d, d)
        v = ReduceMean <axes = [1], keepdims = 0> (s) e = Add(v, epsilon) r = Sqrt(e) y = Div(d, r)
    }"""
    assert not any("Norm" in operator for operator in found(parse(text, 13, epsilon=1e-3)))


def test_rms_norm() -> None:
    assert found(model(f"{RMS_NORM} y = Identity(n)")) == ["onnxlift.RMSNorm"]


@pytest.mark.parametrize("product", ["Mul(n, weight)", "Mul(weight, n)"])
def test_rms_norm_takes_its_weight(product: str) -> None:
    assert found(model(f"{RMS_NORM} y = {product}", weight=(6,))) == ["onnxlift.RMSNorm"]


def test_rms_norm_leaves_one_plus_weight() -> None:
    operators = found(model(f"{RMS_NORM} w = Add(one, weight) y = Mul(n, w)", one=1.0, weight=(6,)))
    assert "onnxlift.RMSNorm" in operators and "Mul" in operators


def test_rms_norm_of_another_value_stays() -> None:
    body = RMS_NORM.replace("n = Mul(x, i)", "a = Abs(x) n = Mul(a, i)")
    assert "onnxlift.RMSNorm" not in found(model(f"{body} y = Identity(n)"))


def test_rms_norm_stays_if_the_root_is_an_output() -> None:
    operators = found(model(f"{RMS_NORM} y = Identity(n)", outputs=", float[batch, seq, 4, 1] r"))
    assert "onnxlift.RMSNorm" not in operators


def test_rms_norm_of_half_precision_needs_no_casts() -> None:
    text = """g (float16[batch, seq, 6] h) => (float16[batch, seq, 6] y) {
        x = Cast <to = 1> (h) s = Pow(x, two) v = ReduceMean <axes = [-1]> (s) e = Add(v, epsilon)
        r = Sqrt(e) i = Reciprocal(r) n = Mul(x, i) c = Cast <to = 10> (n) y = Mul(weight, c)
    }"""
    weight = np.random.default_rng(0).standard_normal(6).astype(np.float16)
    assert found(parse(text, 13, two=2.0, epsilon=1e-5, weight=weight), atol=4e-3) == ["onnxlift.RMSNorm"]


GROUP_NORM = """g (float[batch, 6, seq, keys] x) => (float[batch, 6, seq, keys] y) {{
    split = Reshape(x, groups)
    n = InstanceNormalization <epsilon = 0.01> (split, scale, shift)
    shape = Shape(x)
    h = Reshape(n, shape)
    {affine}
}}"""
ONES, ZEROS = np.ones(3, np.float32), np.zeros(3, np.float32)
GROUPS = np.array([0, 3, -1])


def test_group_norm() -> None:
    model = parse(GROUP_NORM.format(affine="y = Identity(h)"), groups=GROUPS, scale=ONES, shift=ZEROS)
    assert found(model) == ["onnxlift.GroupNorm"]


def test_group_norm_takes_weight_and_bias() -> None:
    text = GROUP_NORM.format(affine="w = Mul(h, weight) y = Add(w, bias)")
    shapes = {"weight": (6, 1, 1), "bias": (1, 6, 1, 1)}
    assert found(parse(text, groups=GROUPS, scale=ONES, shift=ZEROS, **shapes)) == ["onnxlift.GroupNorm"]


def test_group_norm_takes_weights_that_get_their_axes_in_the_graph() -> None:
    affine = "a = Unsqueeze(weight, axes) b = Unsqueeze(bias, axes) w = Mul(h, a) y = Add(w, b)"
    weights = {"weight": (6,), "bias": (6,), "axes": np.array([1, 2])}
    model = parse(GROUP_NORM.format(affine=affine), groups=GROUPS, scale=ONES, shift=ZEROS, **weights)
    assert found(model) == ["onnxlift.GroupNorm"]


@pytest.mark.parametrize(
    ("bias", "rest"), [(np.zeros(1), []), (np.full(1, 2.0), ["Add"]), (np.zeros((7, 1, 1, 1, 1)), ["Add"])]
)
def test_group_norm_takes_an_addition_of_nothing(bias: np.ndarray, rest: list[str]) -> None:
    text = GROUP_NORM.format(affine="y = Add(h, bias)")
    if bias.ndim > 1:
        text = text.replace("(float[batch, 6, seq, keys] y)", "(float[7, batch, 6, seq, keys] y)")
    model = parse(text, groups=GROUPS, scale=ONES, shift=ZEROS, bias=bias.astype(np.float32))
    assert found(model) == ["onnxlift.GroupNorm", *rest]


def test_group_norm_leaves_weights_of_another_shape() -> None:
    text = GROUP_NORM.format(affine="w = Mul(h, weight) y = Add(w, bias)")
    operators = found(parse(text, groups=GROUPS, scale=ONES, shift=ZEROS, weight=(6, 1, 1), bias=(1,)))
    assert operators == ["onnxlift.GroupNorm", "Mul", "Add"]


def test_instance_norm_with_its_own_scale_stays() -> None:
    text = GROUP_NORM.format(affine="y = Identity(h)")
    assert "onnxlift.GroupNorm" not in found(parse(text, groups=GROUPS, scale=ONES * 2, shift=ZEROS))


@pytest.mark.parametrize(
    ("scale", "operators"), [(1, ["onnxlift.GroupNorm"]), (2, ["InstanceNormalization", "Mul", "Add"])]
)
def test_group_norm_of_as_many_groups_as_channels(scale: int, operators: list[str]) -> None:
    text = """g (float[batch, 3, seq] x) => (float[batch, 3, seq] y) {
        n = InstanceNormalization <epsilon = 0.01> (x, scale, shift) m = Mul(n, weight) y = Add(m, bias)
    }"""
    model = parse(text, scale=ONES * scale, shift=ZEROS, weight=(3, 1), bias=(3, 1))
    assert found(model) == operators


def ones_as_weight(name: str, data: np.ndarray, more: str = "") -> onnx.ModelProto:
    body = f"y = LayerNormalization <axis = -1, epsilon = 1e-4> (x, {name}{more})"
    known = {name: data} | ({"bias": np.zeros(8, np.float32)} if more else {})
    return parse(f"g (float[batch, seq, 8] x) => (float[batch, seq, 8] y) {{ {body} }}", **known)


def test_ones_that_an_exporter_made_are_no_weight() -> None:
    model = ones_as_weight("val_3", np.ones(8, np.float32))
    assert found(model) == ["onnxlift.LayerNorm"]
    assert not onnxlift.lift(model).state_dict


@pytest.mark.parametrize(
    ("name", "data", "more"),
    [
        ("weight", np.ones(8, np.float32), ""),
        ("val_3", np.array([1, 1, 1, 1, 1, 1, 1, 2], np.float32), ""),
        ("val_3", np.ones(8, np.float32), ", bias"),
    ],
    ids=["named", "other numbers", "bias"],
)
def test_other_weights_stay(name: str, data: np.ndarray, more: str) -> None:
    assert found(ones_as_weight(name, data, more)) == ["LayerNormalization"]


NAMES = ("val_1", "val_2")


def without_weights(
    op: str,
    names: tuple[str, str] = NAMES,
    scale: tuple[float, ...] = (1, 1, 1, 1),
    bias: tuple[float, ...] = (0, 0, 0, 0),
    shape: str = "4, seq, 6",
) -> onnx.ModelProto:
    known: dict[str, Data] = {name: np.float32(data) for name, data in zip(names, (scale, bias), strict=True)}
    if op.startswith("Batch"):
        known |= {"mean": (4,), "var": np.float32([0.3, 0.5, 0.7, 1.2])}
    body = f"y = {op} (x, {', '.join(known)})"
    return parse(f"g (float[batch, {shape}] x) => (float[batch, {shape}] y) {{ {body} }}", **known)


@pytest.mark.parametrize(
    ("op", "layer"),
    [
        ("InstanceNormalization", "nn.InstanceNorm2d(4)"),
        ("BatchNormalization <epsilon = 0.001>", "nn.BatchNorm2d(4, eps=0.001, affine=False)"),
    ],
)
def test_norms_without_weights(op: str, layer: str) -> None:
    model = without_weights(op)
    [operator] = found(model)
    assert operator in ("onnxlift.InstanceNorm", "onnxlift.BatchNorm")
    assert layer in onnxlift.lift(model).source


@pytest.mark.parametrize("op", ["InstanceNormalization", "BatchNormalization"])
@pytest.mark.parametrize(
    ("names", "scale", "bias"),
    [
        (("weight", "val_2"), (1, 1, 1, 1), (0, 0, 0, 0)),
        (("val_1", "bias"), (1, 1, 1, 1), (0, 0, 0, 0)),
        (NAMES, (1, 1, 2, 1), (0, 0, 0, 0)),
        (NAMES, (1, 1, 1, 1), (0, 0, 0, 1)),
    ],
)
def test_norms_with_weights_stay(
    op: str, names: tuple[str, str], scale: tuple[float, ...], bias: tuple[float, ...]
) -> None:
    assert found(without_weights(op, names, scale, bias)) == [op]


def test_an_instance_norm_of_single_elements_stays() -> None:
    assert found(without_weights("InstanceNormalization", shape="4, 1, 1")) == ["InstanceNormalization"]


def test_a_batch_norm_that_trains_stays() -> None:
    model = without_weights("BatchNormalization <training_mode = 1>")
    model.graph.node[0].output.extend(["running_mean", "running_var"])
    operators = [node.op_type for node in simplified(model).graph]
    assert operators == ["BatchNormalization"]


def test_rms_norm_with_the_epsilon_of_pytorch() -> None:
    text = "g (float[batch, 8] x) => (float[batch, 8] y) {{ y = RMSNormalization <epsilon = {}> (x, weight) }}"
    sources = [onnxlift.lift(parse(text.format(eps), 23, weight=(8,))).source for eps in ("1.1920929e-07", "1e-06")]
    assert "nn.RMSNorm(8)" in sources[0] and "nn.RMSNorm(8, eps=1e-6)" in sources[1]


@pytest.mark.parametrize("affine", [False, True])
def test_group_norm_that_has_no_weights_and_one_that_nobody_has_trained(affine: bool) -> None:
    original = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4, affine=affine), nn.Conv2d(4, 2, 1))
    lifted = onnxlift.lift(exported(original, (torch.randn(2, 3, 6, 7),), "dynamo", trained=False))
    assert sorted(lifted.state_dict) == sorted(original.state_dict())


class Flattened(nn.Module):
    """The attention of guided diffusion normalises positions in a row: the exporters' two reshapes become one."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, 6)
        self.qkv = nn.Conv1d(6, 9, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.qkv(self.norm(x.reshape(x.shape[0], 6, -1)))


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
def test_group_norm_of_what_was_flattened_has_its_weights(exporter: str) -> None:
    module, x = Flattened(), torch.randn(2, 6, 4, 5)
    lifted = onnxlift.lift(exported(module, (x,), exporter, trained=True))
    assert "self.norm = nn.GroupNorm(2, 6)" in lifted.source, lifted.source
    assert lifted.module().state_dict().keys() == module.state_dict().keys()
    torch.testing.assert_close(lifted.module()(x), module(x))


@pytest.mark.parametrize(
    ("groups", "sizes"),
    [(3, (0, 3, -1)), (3, (0, 12, -1)), (6, (0, 6, 0))],
    ids=["fewer channels", "more channels", "a size of the groups"],
)
def test_group_norm_is_not_of_what_has_other_sizes(groups: int, sizes: tuple[int, ...]) -> None:
    text = "g (float[batch, 6, 4, 5] x) => (float[b, c, n] y) {"
    text += " split = Reshape(x, groups) n = InstanceNormalization(split, scale, shift) y = Reshape(n, whole) }"
    numbers = {"scale": np.ones(groups, np.float32), "shift": np.zeros(groups, np.float32)}
    model = parse(text, groups=np.array([0, groups, -1]), whole=np.array(sizes), **numbers)
    assert "onnxlift.GroupNorm" not in found(model)

"""Layers compute what those of PyTorch compute, with the same arguments and the same weights, at old and new opsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from onnx import numpy_helper

from onnxlift import build
from onnxlift.build import nn
from onnxlift.errors import OnnxLiftError

LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("Linear", (5, 3), {}, (2, 5)),
    ("Linear", (5, 3), {"bias": False}, (2, 4, 5)),
    ("Linear", (5, 3), {}, (5,)),
    ("Identity", (), {}, (2, 3)),
    ("Dropout", (0.3,), {}, (2, 3)),
    ("Flatten", (), {}, (2, 3, 4, 5)),
    ("Flatten", (0, 1), {}, (2, 3, 4, 5)),
    ("Flatten", (2,), {}, (2, 3, 4, 5)),
    ("Flatten", (1, 2), {}, (2, 3, 4, 5)),
    ("Unflatten", (1, (2, 3)), {}, (2, 6, 5)),
    ("Unflatten", (-1, (2, -1)), {}, (2, 5, 6)),
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}, (2, 4, 11)),
    ("Conv1d", (4, 6, 4), {"padding": "same"}, (2, 4, 11)),
    ("Conv1d", (4, 6, 3), {"padding": 2, "padding_mode": "reflect"}, (2, 4, 11)),
    ("Conv2d", (3, 8, 3), {"padding": 1}, (2, 3, 7, 9)),
    ("Conv2d", (3, 8, (3, 2)), {"stride": (2, 1), "padding": (1, 0), "bias": False}, (3, 7, 9)),
    ("Conv2d", (3, 8, (4, 2)), {"padding": "same", "dilation": (1, 3)}, (2, 3, 7, 9)),
    ("Conv2d", (3, 8, 3), {"padding": 1, "padding_mode": "replicate"}, (2, 3, 7, 9)),
    ("Conv2d", (3, 8, 3), {"padding": "valid"}, (2, 3, 7, 9)),
    ("Conv3d", (2, 4, 2), {"padding": 1}, (2, 2, 4, 5, 3)),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "groups": 2}, (2, 4, 5)),
    ("ConvTranspose2d", (3, 8, 3), {"stride": 2, "padding": 1, "output_padding": 1}, (2, 3, 5, 4)),
    ("ConvTranspose2d", (3, 8, (3, 2)), {"dilation": 2, "bias": False}, (3, 5, 4)),
    ("ConvTranspose3d", (2, 4, 2), {"stride": 2}, (2, 2, 3, 3, 3)),
    ("BatchNorm1d", (5,), {}, (3, 5)),
    ("BatchNorm1d", (5,), {"affine": False}, (3, 5, 4)),
    ("BatchNorm2d", (5,), {"eps": 1e-3, "momentum": None}, (3, 5, 4, 2)),
    ("BatchNorm2d", (5,), {"track_running_stats": False}, (3, 5, 4, 2)),
    ("BatchNorm3d", (5,), {}, (3, 5, 4, 2, 2)),
    ("InstanceNorm1d", (5,), {}, (3, 5, 4)),
    ("InstanceNorm2d", (5,), {"affine": True}, (3, 5, 4, 2)),
    ("InstanceNorm2d", (5,), {"track_running_stats": True}, (3, 5, 4, 2)),
    ("InstanceNorm3d", (5,), {}, (3, 5, 4, 2, 2)),
    ("GroupNorm", (2, 6), {}, (3, 6, 4)),
    ("GroupNorm", (3, 6), {"affine": False}, (3, 6, 4, 2)),
    ("LayerNorm", (6,), {}, (3, 5, 6)),
    ("LayerNorm", ((5, 6),), {"bias": False, "eps": 1e-6}, (3, 5, 6)),
    ("LayerNorm", (6,), {"elementwise_affine": False}, (3, 5, 6)),
    ("RMSNorm", (6,), {}, (3, 5, 6)),
    ("RMSNorm", ((5, 6),), {"eps": 1e-5, "elementwise_affine": False}, (3, 5, 6)),
    ("MaxPool1d", (3,), {"stride": 2}, (2, 3, 10)),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1}, (2, 3, 9, 10)),
    ("MaxPool2d", ((3, 2),), {"ceil_mode": True}, (2, 3, 10, 9)),
    ("MaxPool2d", (2,), {"dilation": 2, "stride": 1}, (3, 9, 10)),
    ("MaxPool3d", (2,), {}, (2, 3, 4, 5, 6)),
    ("AvgPool1d", (3,), {"stride": 2, "padding": 1}, (2, 3, 10)),
    ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}, (2, 3, 9, 10)),
    ("AvgPool2d", ((3, 2),), {"ceil_mode": True}, (2, 3, 10, 9)),
    ("AvgPool2d", (3,), {"padding": 1, "divisor_override": 4}, (2, 3, 9, 10)),
    ("AvgPool3d", (2,), {}, (2, 3, 4, 5, 6)),
    ("AdaptiveAvgPool1d", (3,), {}, (2, 3, 7)),
    ("AdaptiveAvgPool2d", (1,), {}, (2, 3, 7, 5)),
    ("AdaptiveAvgPool2d", ((2, None),), {}, (2, 3, 8, 5)),
    ("AdaptiveAvgPool2d", ((3, 4),), {}, (2, 3, 7, 5)),
    ("AdaptiveAvgPool3d", (2,), {}, (2, 3, 4, 5, 3)),
    ("AdaptiveMaxPool1d", (3,), {}, (2, 3, 7)),
    ("AdaptiveMaxPool2d", (1,), {}, (2, 3, 7, 5)),
    ("AdaptiveMaxPool2d", ((3, 4),), {}, (3, 7, 5)),
    ("AdaptiveMaxPool3d", (2,), {}, (2, 3, 4, 4, 2)),
    *((name, (), {}, (2, 3, 5)) for name in (
        "ReLU ReLU6 Sigmoid LogSigmoid Tanh Tanhshrink Softsign SiLU Mish Hardsigmoid Hardswish SELU GELU LeakyReLU "
        "ELU CELU PReLU Softplus Hardtanh Hardshrink Softshrink").split()),
    ("GELU", ("tanh",), {}, (2, 3, 5)),
    ("LeakyReLU", (0.2,), {}, (2, 3, 5)),
    ("ELU", (0.7,), {}, (2, 3, 5)),
    ("CELU", (0.7,), {}, (2, 3, 5)),
    ("PReLU", (3,), {}, (2, 3, 5)),
    ("PReLU", (3,), {}, (2, 3)),
    ("Softplus", (2.0, 3.0), {}, (2, 3, 5)),
    ("Hardtanh", (-0.5, 2.0), {}, (2, 3, 5)),
    ("Hardshrink", (0.8,), {}, (2, 3, 5)),
    ("Softshrink", (0.8,), {}, (2, 3, 5)),
    ("Threshold", (0.1, 20.0), {}, (2, 3, 5)),
    ("Softmax", (1,), {}, (2, 3, 5)),
    ("Softmin", (-1,), {}, (2, 3, 5)),
    ("LogSoftmax", (0,), {}, (2, 3, 5)),
    ("GLU", (1,), {}, (2, 4, 5)),
]  # fmt: skip
TOO_OLD = {"CELU": 12, "RMSNorm": 8}
"""The opset that a layer needs at least."""


def drawn(shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 2


def torch_layer(name: str, *arguments: Any, **options: Any) -> torch.nn.Module:
    """A layer of PyTorch in which no weight is at its default value."""
    torch.manual_seed(0)
    layer = getattr(torch.nn, name)(*arguments, **options).eval()
    with torch.no_grad():
        for value in layer.state_dict().values():
            if value.is_floating_point():
                value.add_(torch.rand(value.shape) * 0.5)
    return layer


def outputs(model: build.Model, *arrays: Any) -> list[Any]:
    return list(model(*arrays).values())


@pytest.mark.parametrize("opset", [11, 21])
@pytest.mark.parametrize(("name", "arguments", "options", "shape"), LAYERS, ids=lambda each: str(each))
def test_a_layer_is_that_of_pytorch(
    name: str, arguments: Any, options: Any, shape: tuple[int, ...], opset: int
) -> None:
    theirs = torch_layer(name, *arguments, **options)
    ours: Any = getattr(nn, name)(*arguments, **options)
    ours.load_state_dict(theirs.state_dict())
    array = drawn(shape)
    with build.opset(max(opset, TOO_OLD.get(name, 1))):
        x = build.input("x", "float32", shape)
        model = build.model([x], {"y": ours(x)})
    with torch.no_grad():
        expected = theirs(torch.from_numpy(array)).numpy()
    (got,) = outputs(model, array)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    wanted = [key for key in theirs.state_dict() if not key.endswith("num_batches_tracked")]
    assert list(ours.state_dict()) == wanted


@pytest.mark.parametrize("shape", [(4, 3, 16, 16), ("n", 3, 16, 16), ("n", 3, "h", "w")])
def test_sizes_may_be_open(shape: tuple[Any, ...]) -> None:
    x = build.input("x", "float32", shape)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(2), nn.LogSoftmax(-1), nn.Unflatten(1, (2, 2))
    )
    (got,) = outputs(build.model([x], {"y": net(x)}), drawn((4, 3, 16, 16)))
    assert got.shape == (4, 2, 2, 196)


def test_places_of_max_pooling() -> None:
    array = drawn((2, 3, 9, 10))
    x = build.input("x", "float32", ["n", 3, 9, "w"])
    y, places = nn.MaxPool2d(3, return_indices=True)(x)  # type: ignore[misc]
    got, at = outputs(build.model([x], {"y": y, "places": places}), array)
    expected, expected_at = torch.nn.MaxPool2d(3, return_indices=True)(torch.from_numpy(array))
    np.testing.assert_array_equal(got, expected.numpy())
    np.testing.assert_array_equal(at, expected_at.numpy())


def test_embedding_and_bilinear() -> None:
    ids = np.array([[0, 3], [6, 1], [2, 2]])
    theirs = torch_layer("Embedding", 7, 4, padding_idx=2)
    ours = nn.Embedding(7, 4, padding_idx=2)
    assert not ours.weight.numpy()[2].any() and ours.weight.numpy()[1].all()
    ours.load_state_dict(theirs.state_dict())
    x = build.input("x", "int64", ["n", 2])
    np.testing.assert_array_equal(
        outputs(build.model([x], {"y": ours(x)}), ids)[0], theirs(torch.from_numpy(ids)).detach()
    )
    pair = torch_layer("Bilinear", 3, 4, 5)
    both = nn.Bilinear(3, 4, 5)
    both.load_state_dict(pair.state_dict())
    a, b = build.input("a", "float32", ["n", 3]), build.input("b", "float32", ["n", 4])
    arrays = drawn((2, 3)), drawn((2, 4), 1)
    (got,) = outputs(build.model([a, b], {"y": both(a, b)}), *arrays)
    expected = pair(*map(torch.from_numpy, arrays)).detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_layers": 2, "bidirectional": True},
        {"bias": False, "batch_first": True},
        {"num_layers": 3, "batch_first": True},
        {"bidirectional": True, "batch_first": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("states", [False, True])
def test_recurrent_layers_are_those_of_pytorch(name: str, options: dict[str, Any], states: bool) -> None:
    theirs = torch_layer(name, 3, 4, **options)
    ours: Any = getattr(nn, name)(3, 4, **options)
    ours.load_state_dict(theirs.state_dict())
    layers = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    x = build.input("x", "float32", ["batch", "time", 3] if options.get("batch_first") else ["time", "batch", 3])
    inputs, arrays = [x], [drawn((5, 2, 3))]
    batch = 5 if options.get("batch_first") else 2
    for index in range((1 + (name == "LSTM")) if states else 0):
        inputs.append(build.input(f"h{index}", "float32", [layers, "batch", 4]))
        arrays.append(drawn((layers, batch, 4), index + 1))
    given = [torch.from_numpy(each) for each in arrays]
    started, begun = inputs[1:], given[1:]
    hx = None if not started else tuple(started) if name == "LSTM" else started[0]
    theirs_hx = None if not begun else tuple(begun) if name == "LSTM" else begun[0]
    y, last = ours(x, hx)
    named = {"y": y} | {f"last{i}": each for i, each in enumerate(last if name == "LSTM" else (last,))}
    got = outputs(build.model(inputs, named), *arrays)
    with torch.no_grad():
        expected_y, expected_last = theirs(given[0], theirs_hx)
    expected = [expected_y, *(expected_last if name == "LSTM" else (expected_last,))]
    for ours_, theirs_ in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours_, theirs_.numpy(), rtol=1e-4, atol=1e-5)
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_recurrent_layers_without_a_batch_and_with_relu() -> None:
    theirs = torch_layer("RNN", 3, 4, nonlinearity="relu", bidirectional=True)
    ours = nn.RNN(3, 4, nonlinearity="relu", bidirectional=True)
    ours.load_state_dict(theirs.state_dict())
    x = build.input("x", "float32", ["time", 3])
    y, last = ours(x)
    array = drawn((5, 3))
    for got, expected in zip(
        outputs(build.model([x], {"y": y, "last": last}), array), theirs(torch.from_numpy(array)), strict=True
    ):
        np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-4, atol=1e-5)


MASKS = {
    "none": {},
    "bool": {"attn_mask": np.triu(np.ones((3, 5), bool), 3)},
    "float": {"attn_mask": drawn((3, 5), 7)},
    "heads": {"attn_mask": drawn((4, 3, 5), 8)},
    "padding": {"key_padding_mask": np.array([[False, False, False, True, True], [False, True, False, False, False]])},
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", ["self", "cross", "kdim"])
@pytest.mark.parametrize("options", [{}, {"batch_first": True, "bias": False}], ids=str)
def test_attention_is_that_of_pytorch(mask: str, kind: str, options: dict[str, Any]) -> None:
    if kind == "kdim":
        options = {**options, "kdim": 7, "vdim": 6}
    theirs: Any = torch_layer("MultiheadAttention", 8, 2, **options)
    ours = nn.MultiheadAttention(8, 2, **options)
    ours.load_state_dict(theirs.state_dict())
    length = 5 if kind == "self" else 3
    sizes = [(2, length, 8), (2, 5, options.get("kdim", 8)), (2, 5, options.get("vdim", 8))]
    if not options.get("batch_first"):
        sizes = [(size[1], size[0], size[2]) for size in sizes]
    sizes = sizes[:1] if kind == "self" else sizes
    given = MASKS[mask]
    if kind == "self":  # as many queries as keys
        given = {
            key: np.concatenate([each, each], -2)[..., :5, :] if key == "attn_mask" else each
            for key, each in given.items()
        }
    arrays = [drawn(size, seed) for seed, size in enumerate(sizes)]
    values = [build.input(f"x{i}", "float32", size) for i, size in enumerate(sizes)]
    masks = {key: build.input(key, str(each.dtype), each.shape) for key, each in given.items()}
    q, k, v = values if len(values) == 3 else values * 3
    made, weights = ours(q, k, v, **masks)
    each_head = ours(q, k, v, average_attn_weights=False, **masks)[1]
    assert weights is not None and each_head is not None and ours(q, k, v, need_weights=False)[1] is None
    got = outputs(
        build.model([*values, *masks.values()], {"y": made, "weights": weights, "each": each_head}),
        *arrays,
        *given.values(),
    )
    tensors = [torch.from_numpy(each) for each in arrays]
    tensors = tensors if len(tensors) == 3 else tensors * 3
    told = {key: torch.from_numpy(each) for key, each in given.items()}
    with torch.no_grad():
        expected = [*theirs(*tensors, **told), theirs(*tensors, average_attn_weights=False, **told)[1]]
    for ours_, theirs_ in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours_, theirs_.numpy(), rtol=1e-4, atol=1e-5)
    assert list(ours.state_dict()) == list(theirs.state_dict())


@pytest.mark.parametrize(
    "options",
    [{}, {"norm_first": True, "activation": "gelu"}, {"batch_first": True, "bias": False, "layer_norm_eps": 1e-3}],
    ids=str,
)
@pytest.mark.parametrize("causal", [False, True])
def test_layers_of_a_transformer_are_those_of_pytorch(options: dict[str, Any], causal: bool) -> None:
    theirs: Any = torch_layer("TransformerEncoderLayer", 8, 2, 16, **options)
    theirs = torch.nn.TransformerEncoder(theirs, 2, torch.nn.LayerNorm(8), enable_nested_tensor=False).eval()
    ours = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, **options), 2, nn.LayerNorm(8))
    ours.load_state_dict(theirs.state_dict())
    array = drawn((4, 4, 8))
    x = build.input("x", "float32", ["a", "b", 8])
    (got,) = outputs(build.model([x], {"y": ours(x, is_causal=causal)}), array)
    mask = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1) if causal else None
    with torch.no_grad():
        expected = theirs(torch.from_numpy(array), mask).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict())


def test_attention_without_a_batch() -> None:
    theirs: Any = torch_layer("MultiheadAttention", 8, 2)
    ours = nn.MultiHeadAttention(8, 2)
    ours.load_state_dict(theirs.state_dict())
    x, array = build.input("x", "float32", ["n", 8]), drawn((3, 8))
    made, weights = ours(x, x, x)
    got = outputs(build.model([x], {"y": made, "weights": weights}), array)
    tensor = torch.from_numpy(array)
    for ours_, theirs_ in zip(got, theirs(tensor, tensor, tensor), strict=True):
        np.testing.assert_allclose(ours_, theirs_.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"bidirectional": True, "num_layers": 2}])
def test_weights_in_onnxs_order_of_gates_are_those_of_the_operator(name: str, options: dict[str, Any]) -> None:
    layer = getattr(nn, name)(4, 3, **options)
    given: dict[str, np.ndarray[Any, Any]] = {}
    for number in range(layer.num_layers):
        of_layer = [weight for key, weight in layer.state_dict().items() if key.endswith(f"_l{number}")]
        rows, directions = of_layer[0].shape[0], 1 + layer.bidirectional
        shapes = {"W": (rows, of_layer[0].shape[1]), "R": (rows, 3)} | ({"B": (2 * rows,)} if layer.bias else {})
        arrays = {
            letter: np.random.default_rng(number).standard_normal((directions, *shape)).astype(np.float32)
            for letter, shape in shapes.items()
        }
        layer.set_onnx_weights(**arrays, layer=number)
        given |= {f"{letter}_l{number}": array for letter, array in arrays.items()}
    x = build.input("x", "float32", [5, 2, 4])
    proto = build.model([x], {"y": layer(x)[0]}).proto()
    found = {tensor.name.rpartition(".")[2]: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    for key, array in given.items():
        np.testing.assert_array_equal(found[key], array)


def test_weights_of_the_operator_must_fit() -> None:
    layer = nn.GRU(4, 3)
    w, r, b = np.zeros((1, 9, 4)), np.zeros((1, 9, 3)), np.zeros((1, 18))
    with pytest.raises(OnnxLiftError, match=r"W is \(9, 4\), and must be \(1, 9, 4\), as the operator GRU has it"):
        layer.set_onnx_weights(w[0], r, b)
    with pytest.raises(OnnxLiftError, match="B is missing, and it has biases"):
        layer.set_onnx_weights(w, r)
    with pytest.raises(OnnxLiftError, match="there is no layer 1: it has 1"):
        layer.set_onnx_weights(w, r, b, layer=1)

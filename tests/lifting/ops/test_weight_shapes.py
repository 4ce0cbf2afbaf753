"""The shapes of weights by constructor arguments are those that torch makes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from onnxlift.executing import execute
from onnxlift.lifting import kernels
from onnxlift.lifting.ops.kinds import REQUIRED, LayerKind, layer_kind, layer_kinds
from onnxlift.lifting.ops.weight_shapes import spectral_normed, weight_normed

WIDTHS = {"in_channels": 6, "out_channels": 9, "groups": 3}
LAYERS: list[tuple[str, dict[str, Any]]] = [
    *(("Linear", {"in_features": 3, "out_features": 5, "bias": bias}) for bias in (True, False)),
    *(("Bilinear", {"in1_features": 3, "in2_features": 4, "out_features": 5, "bias": bias}) for bias in (True, False)),
    ("Embedding", {"num_embeddings": 7, "embedding_dim": 3}),
    *((f"Conv{n}d", {**WIDTHS, "kernel_size": 4, "bias": n != 2}) for n in (1, 2, 3)),
    ("Conv2d", {**WIDTHS, "kernel_size": (2, 3)}),
    *((f"ConvTranspose{n}d", {**WIDTHS, "kernel_size": 4, "bias": n != 2}) for n in (1, 2, 3)),
    ("ConvTranspose2d", {**WIDTHS, "kernel_size": (2, 3)}),
    *((f"BatchNorm{n}d", {"num_features": 4}) for n in (1, 2, 3)),
    ("BatchNorm2d", {"num_features": 4, "affine": False, "track_running_stats": False}),
    *((f"InstanceNorm{n}d", {"num_features": 4}) for n in (1, 2, 3)),
    ("InstanceNorm2d", {"num_features": 4, "affine": True, "track_running_stats": True}),
    *(("GroupNorm", {"num_groups": 2, "num_channels": 4, "affine": affine}) for affine in (True, False)),
    *(("LayerNorm", {"normalized_shape": shape}) for shape in (4, (4, 5))),
    ("LayerNorm", {"normalized_shape": 4, "bias": False}),
    ("LayerNorm", {"normalized_shape": 4, "elementwise_affine": False}),
    *(("RMSNorm", {"normalized_shape": shape}) for shape in (4, (4, 5))),
    ("RMSNorm", {"normalized_shape": 4, "elementwise_affine": False}),
    *((name, {"input_size": 3, "hidden_size": 5}) for name in ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell")),
    *((name, {"input_size": 3, "hidden_size": 5, "bias": False}) for name in ("LSTM", "GRUCell")),
    ("GRU", {"input_size": 3, "hidden_size": 5, "num_layers": 3, "bidirectional": True}),
    ("MultiheadAttention", {"embed_dim": 8, "num_heads": 2}),
    ("MultiheadAttention", {"embed_dim": 8, "num_heads": 2, "bias": False}),
    ("MultiheadAttention", {"embed_dim": 8, "num_heads": 2, "kdim": 3, "vdim": 5, "add_bias_kv": True}),
    *(("PReLU", {"num_parameters": count}) for count in (1, 4)),
    *(
        (name, {"in_features": 3, "out_features": 5, "bias": bias, "per_channel": bias})
        for name in ("QuantizedLinear", "DynamicQuantizedLinear")
        for bias in (True, False)
    ),
    *(
        (name, {**WIDTHS, "kernel_size": size, "bias": size == 3, "per_channel": size == 3})
        for name in ("QuantizedConv2d", "DynamicQuantizedConv2d", "RoundedBiasConv2d", "QLinearConv2d")
        for size in (3, (2, 3))
    ),
    *(
        (name, {**WIDTHS, "kernel_size": 3, "bias": each, "per_channel": each})
        for name in ("QuantizedConv1d", "DynamicQuantizedConv1d", "QLinearConv1d")
        for each in (True, False)
    ),
    *((name, {"signed": each}) for name in ("Quantize", "Dequantize", "FakeQuantize") for each in (True, False)),
    *(
        (f"QLinear{name}", {"signed": name == "Mul"})
        for name in ("Add", "Mul", "Where", "MatMul", "Sigmoid", "LeakyReLU", "GlobalAvgPool")
    ),
    *(("QLinearConcat", {"inputs": count, "dim": 1}) for count in (2, 3)),
    ("QLinearSoftmax", {"dim": -1}),
    ("QLinearAvgPool2d", {"kernel_size": 3, "stride": 2}),
    *(("QLinear", {"in_features": 3, "out_features": 5, "per_channel": each}) for each in (True, False)),
    *(("QuantizedEmbedding", {"num_embeddings": 7, "embedding_dim": 3, "per_channel": each}) for each in (True, False)),
    *(
        ("BlockQuantizedLinear", {"in_features": 70, "out_features": 5, "bits": bits, "zero_points": z, "bias": z})
        for bits in (2, 4, 8)
        for z in (True, False)
    ),
]


def constructor(name: str) -> Any:
    """The class of this name: of torch, or among the layers that are copied into generated files."""
    if name not in kernels.layers():
        return getattr(nn, name)
    text = "\n\n".join(kernels.sources({name}, 100).values())
    imports = "import torch\nfrom torch import Tensor, nn\nfrom torch.nn import functional as F\n\n"
    return execute(imports + text, "layers")[name]


def shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {key: tuple(tensor.shape) for key, tensor in module.state_dict().items()}


@pytest.mark.parametrize(("name", "arguments"), LAYERS, ids=str)
def test_shapes_are_those_that_the_constructor_makes(name: str, arguments: dict[str, Any]) -> None:
    kind = layer_kind(name)
    assert kind.shapes is not None
    with torch.device("meta"):
        assert kind.shapes({**kind.signature, **arguments}) == shapes(constructor(name)(**arguments))


def test_every_kind_with_weights_knows_their_shapes() -> None:
    """Layers without weights are told by torch itself."""
    tried = {name for name, _ in LAYERS}
    for kind in layer_kinds():
        assert (kind.shapes is not None) == (kind.name in tried), kind.name
        if kind.shapes is None:
            assert not shapes(constructor(kind.name)(**_any_arguments(kind))), kind.name


def _any_arguments(kind: LayerKind) -> dict[str, Any]:
    return {name: number for number, name in enumerate(kind.signature, 1) if kind.signature[name] is REQUIRED}


@pytest.mark.parametrize("dim", [0, 1, -1, None])
@pytest.mark.parametrize("layer", [nn.Linear(3, 5), nn.Conv2d(3, 5, 2), nn.ConvTranspose1d(3, 5, 2)])
def test_parts_of_a_weight_norm_have_these_shapes(layer: nn.Module, dim: int | None) -> None:
    weight = tuple(layer.weight.shape)
    normed = nn.utils.parametrizations.weight_norm(copy.deepcopy(layer), dim=dim)
    parts = [shapes(normed)[f"parametrizations.weight.original{i}"] for i in (0, 1)]
    assert [*weight_normed(weight, dim)] == parts


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("layer", [nn.Linear(3, 5), nn.Conv2d(3, 5, 2), nn.ConvTranspose1d(3, 5, 2)])
def test_parts_of_a_spectral_norm_have_these_shapes(layer: nn.Module, dim: int) -> None:
    weight = tuple(layer.weight.shape)
    normed = nn.utils.parametrizations.spectral_norm(copy.deepcopy(layer), dim=dim)
    parts = [shapes(normed)[f"parametrizations.weight.{part}"] for part in ("original", "0._u", "0._v")]
    assert [*spectral_normed(weight, dim)] == parts

"""Batch normalisation that keeps no statistics, and what only looks like it."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import onnxlift
from rewriting.idioms.recognising import found, parse, simplified

TEXT = """m = ReduceMean <keepdims = 0> (x, axes) a = ReduceMean <keepdims = 1> (x, axes) d = Sub(x, a) s = Mul(d, d)
    v = ReduceMean <keepdims = 0> (s, axes) y = BatchNormalization <epsilon = 0.001> (x, w, b, m, v)"""
TRAINED = TEXT.replace("y = BatchNormalization <", "y, f, g = BatchNormalization <training_mode = 1, ")


def model(
    text: str = TEXT, outputs: str = "y", producer: str = "pytorch", axes: tuple[int, ...] = (0, 2)
) -> onnx.ModelProto:
    x = "float[batch, 4, seq]" if len(axes) == 2 else "float[4, 4]"
    proto = parse(f"g ({x} x, float[4] k) => ({outputs}) {{ {text} }}", w=(4,), b=(4,), axes=np.array(axes))
    proto.producer_name = producer
    return proto


@pytest.mark.parametrize("text", [TEXT, TRAINED])
def test_the_layer(text: str) -> None:
    assert found(model(text)) == ["onnxlift.BatchStatisticsNorm"]
    assert "nn.BatchNorm1d(4, eps=0.001, track_running_stats=False)" in onnxlift.lift(model(text)).source


@pytest.mark.parametrize(
    "proto",
    [
        model(producer="somebody"),
        model(TEXT.replace("b, m, v)", "b, k, v)")),
        model(TEXT.replace("(x, w, b", "(e, w, b").replace("y =", "e = Exp(x) y =")),
        model(axes=(1,)),
        model(TEXT.replace("m, v)", "m, r)").replace("y =", "r = Sqrt(v) y =")),
        model(TRAINED, outputs="y, f"),
    ],
    ids=["producer", "mean", "input", "axes", "deviation", "new statistics"],
)
def test_what_is_none(proto: onnx.ModelProto) -> None:
    assert "onnxlift.BatchStatisticsNorm" not in found(proto)


def test_statistics_of_a_layer_in_training_are_its_own() -> None:
    graph = simplified(model(TRAINED.replace("m, v)", "w, w)")))
    assert [node.op_type for node in graph.graph] == ["BatchNormalization"]


@pytest.mark.parametrize("is_affine", [True, False])
@pytest.mark.parametrize("dynamo", [True, False])
def test_what_exporters_write(tmp_path: Path, is_affine: bool, dynamo: bool) -> None:
    torch.manual_seed(5)
    layer = nn.BatchNorm2d(4, affine=is_affine, track_running_stats=False)
    for weight in layer.parameters():
        nn.init.normal_(weight)
    original, x = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), layer).eval(), torch.randn(2, 3, 5, 6)
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(original, (x,), tmp_path / "m.onnx", dynamo=dynamo, verbose=False, external_data=False)
    lifted = onnxlift.lift(tmp_path / "m.onnx")
    assert "track_running_stats=False" in lifted.source
    module = lifted.module()
    module.load_state_dict(original.state_dict(), strict=True)
    torch.testing.assert_close(module(x), original(x))


@pytest.mark.parametrize(
    "proto",
    [
        model(TEXT.replace("(x, w, b", "(x, k, b")),
        model(TEXT.replace("(x, w, b", "(x, w, k")),
        model(TRAINED.replace("(x, w, b", "(x, k, b")),
        model(f"{TRAINED} o = Exp(f)", outputs="y, o"),
    ],
    ids=["weight", "bias", "weight in training", "new statistics that are read on"],
)
def test_what_no_layer_has(proto: onnx.ModelProto) -> None:
    assert "onnxlift.BatchStatisticsNorm" not in found(proto)


def statistics_of(shape: str, dtype: str = "float", channels: int = 4) -> list[str]:
    """The operators of a normalisation of this shape, by statistics of the batch."""
    text = "y = BatchNormalization <training_mode = 1> (x, w, b, k, k)"
    size = (channels,)
    proto = parse(f"g ({dtype}[{shape}] x, float[{channels}] k) => (y) {{ {text} }}", w=size, b=size)
    proto.producer_name = "pytorch"
    return [node.op_type for node in simplified(proto).graph]


def test_layers_are_of_two_to_five_axes_and_of_one_type() -> None:
    assert statistics_of("batch, 4") == statistics_of("batch, 4, 2, 3, 2") == ["BatchStatisticsNorm"]
    assert statistics_of("batch", channels=1) == statistics_of("batch, 4, 2, 3, 2, 3") == ["BatchNormalization"]
    assert statistics_of("batch, 4", "float16") == ["BatchNormalization"]


@pytest.mark.parametrize(
    ("weight", "bias", "inputs"),
    [("val_1", "val_2", 0), ("val_1", "b", 2), ("w", "val_2", 2)],
    ids=["neither", "bias", "weight"],
)
def test_both_weights_or_neither(weight: str, bias: str, inputs: int) -> None:
    text = TEXT.replace("(x, w, b", f"(x, {weight}, {bias}")
    known = {"val_1": np.ones(4, np.float32), "val_2": np.zeros(4, np.float32), "w": (4,), "b": (4,)}
    used = {name: known[name] for name in (weight, bias)}
    proto = parse(f"g (float[batch, 4, seq] x) => (y) {{ {text} }}", axes=np.array([0, 2]), **used)
    proto.producer_name = "pytorch"
    assert found(proto) == ["onnxlift.BatchStatisticsNorm"]
    (norm,) = simplified(proto).graph
    assert sum(value is not None for value in norm.inputs[1:]) == inputs

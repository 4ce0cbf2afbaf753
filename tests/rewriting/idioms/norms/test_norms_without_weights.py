"""Instance and batch normalisations without weights: those that PyTorch has no such layer for."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriting.idioms.recognising import Data, found, parse, simplified

INSTANCE = "y = InstanceNormalization(x, val_1, val_2)"
BATCH = "y = BatchNormalization(x, val_1, val_2, mean, variance)"


def model(body: str, shape: str, opset: int = 18, inputs: str = "", **changed: Data | None) -> onnx.ModelProto:
    known: dict[str, Data | None] = {"val_1": np.ones(4, np.float32), "val_2": np.zeros(4, np.float32), "mean": (4,)}
    known |= {"variance": np.float32([0.3, 0.5, 0.7, 1.2])} | changed
    used = {name: value for name, value in known.items() if f"{name})" in body or f"{name}," in body}
    text = f"g (float[{shape}] x{inputs}) => (float[{shape}] y) {{ {body} }}"
    return parse(text, opset, **{name: value for name, value in used.items() if value is not None})


@pytest.mark.parametrize(
    ("body", "shape", "operator"),
    [
        (INSTANCE, "batch, 4, seq", "onnxlift.InstanceNorm"),
        (INSTANCE, "batch, 4, 3, 1, 1", "onnxlift.InstanceNorm"),
        (INSTANCE, "batch, 4, 1", "InstanceNormalization"),
        (INSTANCE, "batch, 4, 2, 3, 2, 3", "InstanceNormalization"),
        (BATCH, "batch, 4", "onnxlift.BatchNorm"),
        (BATCH, "batch, 4, 2, 3, 2", "onnxlift.BatchNorm"),
        (BATCH, "batch, 4, 2, 3, 2, 3", "BatchNormalization"),
    ],
)
def test_numbers_of_axes(body: str, shape: str, operator: str) -> None:
    assert found(model(body, shape)) == [operator]


def test_a_batch_of_one_channel_stays() -> None:
    changed = {"val_1": np.ones(1, "f"), "val_2": np.zeros(1, "f"), "mean": (1,), "variance": np.float32([0.3])}
    assert [node.op_type for node in simplified(model(BATCH, "batch", **changed)).graph] == ["BatchNormalization"]


@pytest.mark.parametrize("name", ["mean", "variance"])
def test_statistics_that_are_given_stay(name: str) -> None:
    proto = model(BATCH, "batch, 4, seq", inputs=f", float[4] {name}", **{name: None})
    assert [node.op_type for node in simplified(proto).graph] == ["BatchNormalization"]


@pytest.mark.parametrize(
    ("old", "new", "opset"),
    [
        ("Normalization", "Normalization <training_mode = 1> ", 15),
        ("Normalization", "Normalization <spatial = 0> ", 7),
        ("y =", "y, m, v, s, t =", 9),
    ],
    ids=["of the batch", "of each place", "more outputs"],
)
def test_statistics_that_are_computed_stay(old: str, new: str, opset: int) -> None:
    graph = simplified(model(BATCH.replace(old, new), "batch, 4, 3", opset))
    assert [node.op_type for node in graph.graph] == ["BatchNormalization"]


@pytest.mark.parametrize(("dtype", "operator"), [(np.float16, "BatchNorm"), (np.float32, "BatchNormalization")])
def test_statistics_of_another_type_stay(dtype: type, operator: str) -> None:
    ones, mean = np.ones(4, np.float16), np.random.default_rng(1).uniform(0.5, 2, 4).astype(dtype)
    proto = model(BATCH, "batch, 4, 3", val_1=ones, val_2=ones * 0, mean=mean, variance=mean)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    assert [node.op_type for node in simplified(proto).graph] == [operator]

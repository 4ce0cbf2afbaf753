from __future__ import annotations

import numpy as np
import onnx
import pytest

from .recognising import found, parse

IMAGE = "float[batch, 3, 5, seq] x"


def pooled(body: str, output: str = "float[batch, 3] y", opset: int = 18) -> onnx.ModelProto:
    numbers = {"space": np.array([2, 3]), "width": np.array([3]), "flat": np.array([0, 3]), "pair": np.array([0, -1])}
    return parse(f"g ({IMAGE}) => ({output}) {{ {body} }}", opset, **numbers)


@pytest.mark.parametrize("after", ["Flatten(p)", "Squeeze(p, space)", "Reshape(p, flat)"])
@pytest.mark.parametrize("pool", ["GlobalAveragePool(x)", "ReduceMean(x, space)"])
def test_pool_and_flatten(pool: str, after: str) -> None:
    assert found(pooled(f"p = {pool} y = {after}")) == ["onnxlift.SpatialMean"]


def test_axes_as_an_attribute() -> None:
    assert found(pooled("p = ReduceMean <axes = [-1, -2]> (x) y = Flatten(p)", opset=13)) == ["onnxlift.SpatialMean"]


def test_a_pool_that_is_read_elsewhere_stays() -> None:
    both = "float[batch, 3] y, float[batch, 3, 1, 1] p"
    assert found(pooled("p = GlobalAveragePool(x) y = Flatten(p)", both)) == ["GlobalAveragePool", "Flatten"]


def test_a_mean_over_one_axis_is_no_global_mean() -> None:
    body = "p = ReduceMean(x, width) y = Reshape(p, pair)"
    assert found(pooled(body, "float[batch, n] y")) == ["ReduceMean", "Reshape"]

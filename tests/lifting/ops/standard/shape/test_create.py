"""Tensors made of sizes and numbers: ranges, fills, diagonals, one-hot codes, random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper, numpy_helper

import onnxlift
from lifting.ops.checking import check, check_official, model_of, official_cases


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


FILLS = [
    (None, "torch.zeros_like(x)"),
    (np.float32([1]), "torch.ones_like(x)"),
    (np.float32([-0.0]), "torch.full_like(x, -0.0)"),
    (np.float32([0.1]), "torch.full_like(x, 0.1)"),
    (np.int64([7]), "torch.full_like(x, 7, dtype=torch.int64)"),
    (np.array([True]), "torch.ones_like(x, dtype=torch.bool)"),
    (np.uint64([2**64 - 1]), "expand(x.shape[0], x.shape[1])"),
]


@pytest.mark.parametrize("axes", [(0,), (1, 0), (0, 0)])
def test_some_sizes_of_a_tensor_are_not_its_shape(axes: tuple[int, ...]) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "axes"], ["some"]),
        helper.make_node("ConstantOfShape", ["some"], ["y"]),
    ]
    inputs = {"x": np.ones((2, 3), np.float32), "axes": ints(*axes)}
    assert "torch.zeros(" in check(nodes, inputs, constants=["axes"], dynamic=True)


@pytest.mark.parametrize(("value", "written"), FILLS)
def test_constant_of_shape(value: np.ndarray | None, written: str) -> None:
    attributes = {} if value is None else {"value": numpy_helper.from_array(value)}
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["y"], **attributes),
    ]
    expected = [np.full((2, 3), 0 if value is None else value[0], np.float32 if value is None else value.dtype)]
    source = check(nodes, {"x": np.ones((2, 3), np.float32)}, dynamic=True, expected=expected)
    assert written in source
    check(nodes[1], {"shape": ints(2, 3)}, expected=expected)
    check(nodes[1], {"shape": ints(2, 3)}, constants=["shape"], expected=expected)
    check(nodes[1], {"shape": ints()}, dynamic=True, expected=[expected[0][0, 0].reshape(())])


RANGES: list[Any] = [
    (0, 5, 1, np.int64),
    (3, 9, 3, np.int32),
    (10, 4, -2, np.int64),
    (5, 3, 1, np.int64),
    (0, 7, 3, np.int16),
    (-2.5, 2, 0.75, np.float32),
    (0, 1, 0.1, np.float32),
    (0, 0.3, 0.1, np.float64),
    (4, 0, -0.5, np.float64),
    (1, 0, 0.5, np.float32),
]


@pytest.mark.parametrize(("start", "limit", "delta", "dtype"), RANGES)
@pytest.mark.parametrize("constants", [[], ["delta"], ["start", "delta"]])
def test_range(start: Any, limit: Any, delta: Any, dtype: Any, constants: list[str]) -> None:
    inputs = {"start": np.array(start, dtype), "limit": np.array(limit, dtype), "delta": np.array(delta, dtype)}
    check(helper.make_node("Range", list(inputs), ["y"]), inputs, constants=constants)


def test_range_to_a_size_is_plain() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], start=1, end=2),
        helper.make_node("Squeeze", ["shape"], ["n"]),
        helper.make_node("Range", ["zero", "n", "one"], ["y"]),
    ]
    inputs = {"x": np.ones((2, 3), np.float32), "zero": np.array(0), "one": np.array(1)}
    assert "torch.arange(x.shape[1], device=x.device)" in check(nodes, inputs, constants=["zero", "one"], dynamic=True)


@pytest.mark.parametrize("k", [-2, 0, 1, 9])
@pytest.mark.parametrize("dtype", [None, np.float64, np.int32, np.bool_, np.uint16])
def test_eye_like(k: int, dtype: Any) -> None:
    attributes = {} if dtype is None else {"dtype": helper.np_dtype_to_tensor_dtype(np.dtype(dtype))}
    node = helper.make_node("EyeLike", ["x"], ["y"], k=k, **attributes)
    x = np.ones((3, 4), np.float32)
    check(node, {"x": x}, expected=[np.eye(3, 4, k, dtype or np.float32)])
    check(node, {"x": x}, expected=[np.eye(3, 4, k, dtype or np.float32)], dynamic=True)


@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32])
@pytest.mark.parametrize("values", [np.float32([0, 1]), np.int64([-3, 4])])
def test_one_hot(axis: int, dtype: Any, values: np.ndarray) -> None:
    node = helper.make_node("OneHot", ["i", "depth", "values"], ["y"], axis=axis)
    indices = np.array([[0, -1, 2], [7, 1, -9]]).astype(dtype)
    # ONNX Runtime has no kernel for some combinations of types: the rule in numpy.
    hot = np.where(indices < 0, indices + 4, indices)[..., None] == np.arange(4)
    expected = [np.moveaxis(np.where(hot, values[1], values[0]), -1, axis)]
    inputs = {"i": indices, "depth": np.array(4), "values": values}
    check(node, inputs, expected=expected, constants=["depth", "values"])
    check(node, {**inputs, "depth": np.float32([4])}, expected=expected, dynamic=True)


def test_one_hot_of_opset_9_does_not_wrap() -> None:
    node = helper.make_node("OneHot", ["i", "depth", "values"], ["y"])
    inputs = {"i": ints(1, -1), "depth": np.array(3), "values": np.float32([0, 1])}
    check(node, inputs, opset=9, expected=[np.float32([[0, 1, 0], [0, 0, 0]])])


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -1, 0, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int64, np.uint32])
def test_trilu(upper: int, k: int | None, dtype: Any) -> None:
    x = np.random.default_rng(3).integers(0, 9, (2, 3, 4)).astype(dtype)
    inputs = {"x": x} if k is None else {"x": x, "k": np.array(k)}
    expected = [(np.triu if upper else np.tril)(x, k or 0)]
    node = helper.make_node("Trilu", list(inputs), ["y"], upper=upper)
    check(node, inputs, expected=expected)
    source = check(node, inputs, expected=expected, constants=["k"] if k is not None else [], dynamic=True)
    assert dtype != np.float32 or f".tri{'u' if upper else 'l'}({k or ''})" in source


def draw(node: Any, **inputs: np.ndarray) -> torch.Tensor:
    torch.manual_seed(0)
    module = onnxlift.lift(model_of([node], inputs, 15)).module()
    result = module(*map(torch.from_numpy, inputs.values()))
    assert isinstance(result, torch.Tensor)
    return result


@pytest.mark.parametrize("like", [False, True])
def test_random(like: bool) -> None:
    inputs = {"x": np.zeros((200, 300), np.float32)} if like else {}
    attributes: dict[str, Any] = {} if like else {"shape": [200, 300]}
    suffix = "Like" if like else ""
    normal = draw(
        helper.make_node(f"RandomNormal{suffix}", [*inputs], ["y"], mean=3.0, scale=2.0, **attributes), **inputs
    )
    assert normal.shape == (200, 300) and normal.dtype == torch.float32
    assert abs(normal.mean() - 3) < 0.05 and abs(normal.std() - 2) < 0.05
    node = helper.make_node(
        f"RandomUniform{suffix}", [*inputs], ["y"], low=-1.0, high=3.0, dtype=11, seed=2.0, **attributes
    )
    uniform = draw(node, **inputs)
    assert uniform.dtype == torch.float64
    assert -1 <= uniform.min() < -0.99 and 2.99 < uniform.max() <= 3 and abs(uniform.mean() - 1) < 0.05


def test_random_choices() -> None:
    p = np.random.default_rng(0).random((300, 400)).astype(np.float32)
    drawn = draw(helper.make_node("Bernoulli", ["x"], ["y"], dtype=7), x=p)
    assert drawn.dtype == torch.int64 and set(drawn.unique().tolist()) == {0, 1}
    assert abs((drawn - torch.from_numpy(p)).mean()) < 0.01
    logits = np.log(np.float32([[0.1, 0.7, 0.2]])) + 5
    drawn = draw(helper.make_node("Multinomial", ["x"], ["y"], sample_size=20000), x=logits)
    assert drawn.dtype == torch.int32 and drawn.shape == (1, 20000)
    np.testing.assert_allclose(drawn.flatten().bincount() / 20000, [0.1, 0.7, 0.2], atol=0.02)


OPERATORS = ("Constant", "ConstantOfShape", "EyeLike", "Range", "OneHot", "Trilu")


@pytest.mark.parametrize("case", official_cases(*OPERATORS, alone=True))
def test_official(case: Any) -> None:
    check_official(case)

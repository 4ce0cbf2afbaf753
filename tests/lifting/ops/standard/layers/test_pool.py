"""Poolings against ONNX Runtime: pads, dilations, the last window of ceil_mode, and what only kernels can do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from lifting.ops.checking import check, check_official, official_cases


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((9,), {"kernel_shape": [3]}),
    ((9,), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    ((8, 9), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ((8, 9), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 1, 1]}),
    ((8, 9), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 1, 1, 0]}),
    ((8, 9), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((8, 9), {"kernel_shape": [2, 3], "strides": [1, 2], "auto_pad": "SAME_LOWER"}),
    ((8, 9), {"kernel_shape": [3, 3], "strides": [2, 3], "auto_pad": "VALID"}),
    ((5, 6, 7), {"kernel_shape": [2, 3, 2], "strides": [2, 1, 3], "pads": [1, 0, 1, 0, 1, 0]}),
]
CEILED: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((size, size + 1), {"kernel_shape": [3, 2], "strides": strides, "pads": pads, "ceil_mode": 1})
    for size in (6, 7, 8)
    for strides in ([2, 2], [3, 4])
    for pads in ([0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0])
]
DILATED: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((9, 8), {"kernel_shape": [3, 2], "dilations": [2, 3]}),
    ((9, 8), {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ((9, 8), {"kernel_shape": [2, 2], "dilations": [2, 2], "ceil_mode": 1, "strides": [2, 3]}),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("spatial", "attributes"), WINDOWS + CEILED + DILATED)
def test_max_pool(spatial: tuple[int, ...], attributes: dict[str, Any], dynamic: bool) -> None:
    check(helper.make_node("MaxPool", ["x"], ["y"], **attributes), {"x": rand(2, 3, *spatial)}, dynamic=dynamic)


@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("spatial", "attributes"), WINDOWS + CEILED[:9] + DILATED)
def test_max_pool_indices(spatial: Any, attributes: dict[str, Any], storage_order: int, dynamic: bool) -> None:
    node = helper.make_node("MaxPool", ["x"], ["y", "indices"], storage_order=storage_order, **attributes)
    check(node, {"x": rand(2, 3, *spatial)}, dynamic=dynamic)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float64, np.float16])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0]])
def test_max_pool_of_other_types(dtype: type, pads: list[int]) -> None:
    x = (rand(2, 3, 6, 7) * 60).clip(-128 if dtype != np.uint8 else 0, 127).astype(dtype)
    check(helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], pads=pads), {"x": x})


def test_max_pool_reads_as_a_layer() -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    assert "nn.MaxPool2d(3, stride=2, padding=1)" in check(node, {"x": rand(2, 3, 8, 8)})
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    assert "nn.MaxPool2d(2)" in check(node, {"x": rand(2, 3, 8, 8)})


@pytest.mark.parametrize("count_include_pad", [0, 1])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("spatial", "attributes"), WINDOWS + CEILED + DILATED)
def test_average_pool(spatial: Any, attributes: dict[str, Any], count_include_pad: int, dynamic: bool) -> None:
    node = helper.make_node("AveragePool", ["x"], ["y"], count_include_pad=count_include_pad, **attributes)
    check(node, {"x": rand(2, 3, *spatial)}, dynamic=dynamic)


def test_average_pool_reads_as_a_layer() -> None:
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    assert "nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False)" in check(node, {"x": rand(2, 3, 8, 8)})
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    assert "nn.AvgPool2d(2)" in check(node, {"x": rand(2, 3, 8, 8)}, opset=7)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("spatial", "attributes"), WINDOWS + CEILED[:2] + DILATED[:2])
def test_lp_pool(spatial: Any, attributes: dict[str, Any], p: int, dynamic: bool) -> None:
    node = helper.make_node("LpPool", ["x"], ["y"], p=p, **attributes)
    check(node, {"x": rand(2, 3, *spatial)}, dynamic=dynamic, rtol=1e-4)


@pytest.mark.parametrize("how", [{}, {"dynamic": True}, {"unranked": True}])
@pytest.mark.parametrize("spatial", [(5,), (5, 6), (3, 4, 5)])
@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_global_pools(op_type: str, spatial: tuple[int, ...], how: dict[str, bool]) -> None:
    check(helper.make_node(op_type, ["x"], ["y"]), {"x": rand(2, 3, *spatial)}, **how)


def test_global_average_pool_reads_as_a_mean() -> None:
    source = check(helper.make_node("GlobalAveragePool", ["x"], ["y"]), {"x": rand(2, 3, 5, 6)})
    assert "return x.mean((2, 3), keepdim=True)" in source


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 0, 1]])
def test_max_unpool_undoes_max_pool(pads: list[int], dynamic: bool) -> None:
    window = {"kernel_shape": [2, 3], "strides": [2, 3], "pads": pads}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["pooled", "indices"], **window),
        helper.make_node("MaxUnpool", ["pooled", "indices"], ["y"], **window),
    ]
    x = rand(2, 3, 8 - pads[0], 9 - pads[3])
    check(nodes, {"x": x}, dynamic=dynamic)


@pytest.mark.parametrize("constant", [False, True])
def test_max_unpool_to_a_larger_shape(constant: bool) -> None:
    rng = np.random.default_rng(3)
    indices = np.stack([rng.permutation(16)[:4] + 16 * plane for plane in range(6)]).reshape(2, 3, 2, 2)
    inputs = {"x": rand(2, 3, 2, 2), "indices": indices, "shape": np.array([2, 3, 5, 6])}
    node = helper.make_node("MaxUnpool", ["x", "indices", "shape"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    check(node, inputs, constants=["shape"] if constant else [], reference=True)


POOLS = "AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool MaxUnpool".split()


@pytest.mark.parametrize("case", official_cases(*POOLS))
def test_official(case: Any) -> None:
    check_official(case)

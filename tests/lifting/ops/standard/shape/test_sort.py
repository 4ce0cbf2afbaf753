"""TopK and Unique, with ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from lifting.ops.checking import check, check_official, official_cases


def ties(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(shape).integers(0, 4, shape).astype(dtype)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("constants", [[], ["k"]])
def test_top_k_takes_the_first_of_equals(axis: int, largest: int, k: int, constants: list[str]) -> None:
    node = helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=axis, largest=largest)
    check(node, {"x": ties(5, 6, 4), "k": np.array([k])}, constants=constants, dynamic=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_slices_of_strings(axis: int) -> None:
    words = np.array(["b", "", "a", "ab"], object)[ties(4, 5, 2, dtype=np.int64)]
    words[2], words[:, 3] = words[0], words[:, 1]
    node = helper.make_node("Unique", ["x"], ["y", "first", "inverse", "counts"], axis=axis)
    check(node, {"x": words})
    (places,) = np.unique(
        words.swapaxes(0, axis).reshape(words.shape[axis], -1).astype(str), axis=0, return_index=True
    )[1:]
    in_turn = helper.make_node("Unique", ["x"], ["y", "first"], axis=axis, sorted=0)
    check(in_turn, {"x": words}, expected=[words.take(np.sort(places), axis), np.sort(places)])


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_unique_complex_numbers(axis: int | None) -> None:
    x = (ties(4, 5) + 1j * ties(5, 4).T).astype(np.complex64)
    x[2], x[:, 3] = x[0], x[:, 1]
    node = helper.make_node(
        "Unique", ["x"], ["y", "first", "inverse", "counts"], **({} if axis is None else {"axis": axis})
    )
    check(node, {"x": x}, reference=True)
    check(helper.make_node("Unique", ["x"], ["y"]), {"x": x}, reference=True)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float64])
def test_top_k_element_types(dtype: Any) -> None:
    x = ties(3, 8, dtype=dtype)
    if dtype == np.uint64:
        x[:, ::2] += np.uint64(2**63)
    order = np.argsort(-x.astype(object), axis=1, kind="stable")[:, :3]
    node = helper.make_node("TopK", ["x", "k"], ["values", "places"])
    expected = [np.take_along_axis(x, order, 1), order]
    check(node, {"x": x, "k": np.array([3])}, constants=["k"], expected=expected)


def test_top_k_opsets() -> None:
    expected = [np.float32([[3, 3]]), np.array([[1, 3]])]
    x = np.float32([[0, 3, 1, 3]])
    check(helper.make_node("TopK", ["x"], ["v", "i"], k=2), {"x": x}, opset=1, expected=expected)
    check(helper.make_node("TopK", ["x", "k"], ["v", "i"]), {"x": x, "k": np.array([2])}, opset=10)


def test_plain_topk_where_nobody_wants_places() -> None:
    nodes = [helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=1), helper.make_node("Neg", ["v"], ["y"])]
    source = check(nodes, {"x": ties(2, 5, 3), "k": np.array([2])}, constants=["k"], dynamic=True)
    assert "x.topk(2, 1).values" in source


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("count", [1, 4])
def test_unique(axis: int | None, ordered: int, count: int) -> None:
    attributes = {"sorted": ordered} | ({} if axis is None else {"axis": axis})
    names = ["y", "first", "inverse", "counts"][:count]
    node = helper.make_node("Unique", ["x"], names, **attributes)
    x = ties(6, 5)
    x[4], x[:, 3] = x[1], x[:, 0]
    check(node, {"x": x}, dynamic=True)


@pytest.mark.parametrize("ordered", [0, 1])
def test_unique_strings(ordered: int) -> None:
    node = helper.make_node("Unique", ["x"], ["y", "first", "inverse", "counts"], sorted=ordered)
    check(node, {"x": np.array(["b", "a", "ü", "b", "", "a"], object)})


@pytest.mark.parametrize("case", official_cases("TopK", "Unique", alone=True))
def test_official(case: Any) -> None:
    check_official(case)

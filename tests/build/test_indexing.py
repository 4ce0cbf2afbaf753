"""Indexing means in a model what it means in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxlift import build

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
SHAPES = [[3, 4, 5], ["a", "b", "c"]]


def same(index: Any, shape: list[Any]) -> None:
    x = build.input("x", "float32", shape)
    y = x[index]
    actual, expected = build.model([x], {"y": y})(X)["y"], X[index]
    assert actual.shape == expected.shape and (actual == expected).all()
    assert y.shape is not None and len(y.shape) == expected.ndim
    assert all(isinstance(size, str) or size == known for size, known in zip(y.shape, expected.shape, strict=True))


def axis(size: int) -> st.SearchStrategy[Any]:
    bound = st.none() | st.integers(-size - 1, size + 1)
    slices = st.builds(slice, bound, bound, st.none() | st.sampled_from([-2, -1, 1, 2, 3]))
    return st.integers(-size, size - 1) | slices


@st.composite
def indices(draw: st.DrawFn) -> Any:
    count = draw(st.integers(0, 3))
    items = [draw(axis(size)) for size in X.shape[:count]]
    if draw(st.booleans()):
        behind = draw(st.integers(0, 3 - count))
        items += [Ellipsis, *(draw(axis(size)) for size in X.shape[3 - behind :])]
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    return tuple(items)


@settings(max_examples=150, deadline=None)
@given(index=indices(), shape=st.sampled_from(SHAPES))
def test_any_index(index: Any, shape: list[Any]) -> None:
    same(index, shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("start", [-5, -4, -3, -2])
@pytest.mark.parametrize("stop", [None, -6, -4, -3, -2, -1, 0, 1, 4])
def test_a_slice_goes_backwards_from_before_the_first_element(shape: list[Any], start: int, stop: int | None) -> None:
    for step in (-1, -2):
        same((slice(start, stop, step),), shape)


@pytest.mark.parametrize("shape", SHAPES, ids=["numbers", "names"])
@pytest.mark.parametrize(
    "index",
    [
        0,
        [2, 0, 0],
        np.array([[0, -1], [1, 0]]),
        (slice(None), np.array([1, 3]), slice(1, 4), None),
        np.array([True, False, True]),
        (slice(None), np.array([True, False, True, True])),
        X[:, :, 0] > 20,
        X > 20,
    ],
    ids=str,
)
def test_arrays_and_masks(index: Any, shape: list[Any]) -> None:
    same(index, shape)


def test_bounds_and_indices_that_are_values() -> None:
    x, n = build.input("x", "float32", [3, 4, 5]), build.input("n", "int32", [])
    y = build.model([x, n], {"a": x[:, :n, 1:n], "b": x[n], "c": x[n:]})
    found = y(X, np.int32(2))
    for name, expected in (("a", X[:, :2, 1:2]), ("b", X[2]), ("c", X[2:])):
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize("opset", [1, 9, 10, 12, 13])
def test_the_older_opsets(opset: int) -> None:
    with build.opset(opset):
        x = build.input("x", "float32", [3, 4, 5])
        y = x[-1, 1:, None]
    model = build.model([x], {"y": y}, opset=max(opset, 7))
    np.testing.assert_array_equal(model(X)["y"], X[-1, 1:, None])

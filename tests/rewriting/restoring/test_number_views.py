"""Where the numbers of one array lie in another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxlift.rewriting.restoring.numbers.number_views import find_view

Array = np.ndarray[Any, Any]


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@st.composite
def parts(draw: st.DrawFn) -> tuple[Array, Array]:
    """An array, and some of it: cut, reversed, picked, turned, with axes less and more."""
    whole = numbers(*draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    part = whole
    for axis, size in reversed(list(enumerate(whole.shape))):
        start = draw(st.integers(0, size - 1))
        stop = draw(st.integers(start + 1, size))
        pick: Any = draw(
            st.sampled_from([slice(None), slice(None, None, -1), slice(start, stop), slice(start, None, 2), start])
            | st.permutations(range(size)).map(lambda order, stop=stop: list(order[:stop]))
        )
        part = part[(slice(None),) * axis + (pick,)]
    part = part.transpose(draw(st.permutations(range(part.ndim))))
    return whole, np.expand_dims(part, 0) if part.ndim < 4 and draw(st.booleans()) else part


@given(parts())
def test_what_is_found_is_the_part(arrays: tuple[Array, Array]) -> None:
    whole, part = arrays
    view = find_view(part, whole)
    if view is not None:
        np.testing.assert_array_equal(view.of(whole), part)


@pytest.mark.parametrize(
    "take",
    [
        lambda w: w.T,
        lambda w: w[2:5],
        lambda w: w[2:5].T,
        lambda w: w[:, 1:3],
        lambda w: w[1:4, 2:],
        lambda w: w[1:4, 2:].T,
        lambda w: w[::2],
        lambda w: w[::-1],
        lambda w: w[::-1, ::-1].T,
        lambda w: w[5:1:-2],
        lambda w: w[[4, 0, 5]],
        lambda w: w[[4, 0, 5]][:, [3, 0, 2]].T,
        lambda w: w[3],
        lambda w: w[:, 3],
        lambda w: w[3:4],
        lambda w: w[3][:, None],
        lambda w: w[2:, 1][None, :, None],
    ],
)
def test_parts_of_a_matrix_are_found(take: Any) -> None:
    whole = numbers(7, 4)
    part = take(whole)
    view = find_view(part, whole)
    assert view is not None
    np.testing.assert_array_equal(view.of(whole), part)
    spoilt = part.copy()
    spoilt.flat[-1] += 1
    assert find_view(spoilt, whole) is None


@pytest.mark.parametrize(
    "take",
    [
        lambda w: w[::-1, ::-1, ::-1],
        lambda w: w[:2],
        lambda w: w.swapaxes(0, 1),
        lambda w: w[..., ::-1],
        lambda w: w[:, :, 0],
    ],
)
def test_parts_of_a_kernel_are_found(take: Any) -> None:
    whole = numbers(5, 4, 3)
    part = take(whole)
    view = find_view(part, whole)
    assert view is not None
    np.testing.assert_array_equal(view.of(whole), part)


def test_axes_stay_where_none_is_lost() -> None:
    """Rather a slice of one than an index and a new axis."""
    view = find_view(numbers(7, 4)[3:4], numbers(7, 4))
    assert view is not None and view.picks == (slice(3, 4), slice(None)) and not view.new_axes


def test_the_whole_is_told_from_its_parts() -> None:
    whole = numbers(5, 5)
    for part, is_all in ((whole, True), (whole.T, False), (whole[:, ::-1], False), (whole[None], False)):
        view = find_view(part, whole)
        assert view is not None and view.is_all == is_all


def test_what_is_computed_can_be_a_part() -> None:
    whole = numbers(7, 4)
    view = find_view(-whole[2:5].T, whole, lambda some, expected: np.equal(-some, expected))
    assert view is not None
    np.testing.assert_array_equal(-view.of(whole), -whole[2:5].T)
    assert find_view(-whole[2:5].T, whole) is None


def test_an_array_without_axes() -> None:
    whole = np.array(0.25, np.float32)
    for part in (whole, whole[None, None]):
        view = find_view(part, whole)
        assert view is not None
        np.testing.assert_array_equal(view.of(whole), part)
    assert find_view(whole + 1, whole) is None

"""What counts as equal: rounding passes, mistakes do not, and NaN and infinity have to be where they belong."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from onnxlift.verification.compare import Comparison, Judgement, compare

RANDOM = np.random.default_rng(0)
VALUES = RANDOM.standard_normal((4, 5))


def one(actual: Any, expected: Any, **tolerances: float) -> Comparison:
    (comparison,) = compare("y", actual, expected, Judgement(**tolerances))
    return comparison


@pytest.mark.parametrize(
    ("dtype", "rounding", "mistake"),
    [
        (np.float64, 1e-9, 1e-4),
        (np.float32, 1e-5, 1e-2),
        (np.float16, 5e-3, 0.2),
        (ml_dtypes.bfloat16, 1e-2, 0.5),
        (ml_dtypes.float8_e4m3fn, 0.0, 2.0),
        (np.complex64, 1e-5, 1e-2),
    ],
)
def test_tolerance_fits_the_type(dtype: type, rounding: float, mistake: float) -> None:
    expected = VALUES.astype(dtype)
    assert one((VALUES * (1 + rounding)).astype(dtype), expected).passed
    wrong = VALUES.copy()
    wrong[2, 3] *= 1 + mistake
    found = one(wrong.astype(dtype), expected)
    assert not found.passed
    assert found.problem == "1 of 20 elements are too far off"


def test_small_elements_beside_large_ones_may_be_off_by_what_the_large_ones_lose() -> None:
    expected = np.array([1e-6, 1000.0], np.float32)
    assert one(np.array([1e-4, 1000.0], np.float32), expected).passed
    assert not one(np.array([1e-4], np.float32), expected[:1]).passed


def test_where_zero_is_expected_rounding_is_allowed() -> None:
    assert one(np.full(3, 5e-9, np.float32), np.zeros(3, np.float32)).passed
    assert not one(np.full(3, 1e-4, np.float32), np.zeros(3, np.float32)).passed


def test_given_tolerances_are_absolute() -> None:
    expected = np.array([1e-6, 1000.0], np.float32)
    actual = np.array([1e-4, 1000.0], np.float32)
    assert not one(actual, expected, atol=1e-5).passed
    assert one(actual, expected, atol=1e-3).passed
    assert one(np.array([1.4], np.float32), np.array([1.0], np.float32), rtol=0.5).passed


def test_measures() -> None:
    found = one(np.array([1.0, 2.5], np.float32), np.array([1.0, 2.0], np.float32))
    assert (found.max_abs, found.max_rel) == (0.5, 0.25)
    assert found.cosine == pytest.approx(6 / (7.25 * 5) ** 0.5)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity(odd: float) -> None:
    values = np.array([odd, 1.0], np.float32)
    assert one(values, values.copy()).passed
    for other in (0.0, np.nan, np.inf, -np.inf):
        if not np.array_equal(other, odd, equal_nan=True):
            found = one(np.array([other, 1.0], np.float32), values)
            assert found.problem == "1 of 2 elements are NaN or infinite on one side only"


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_integers_and_bools_are_exact(dtype: type) -> None:
    expected = np.array([0, 1, 1, 0]).astype(dtype)
    assert one(expected.copy(), expected).passed
    assert one(np.array([0, 1, 0, 0]).astype(dtype), expected).problem == "1 of 4 elements differ"


def test_strings() -> None:
    expected = np.array([["a", "ü"]], dtype=object)
    assert one(np.array([["a", "ü"]]), expected).passed
    assert not one(np.array([["a", "u"]], dtype=object), expected).passed


def test_types_and_shapes() -> None:
    assert one(VALUES, VALUES.astype(np.float32)).problem == "is float64, and should be float32"
    assert one(VALUES.T, VALUES).problem == "has shape (5, 4), and should have (4, 5)"


def test_types_that_torch_lacks_are_compared_as_they_are_carried() -> None:
    expected = np.array([-8, 7, 3]).astype(ml_dtypes.int4)
    assert one(np.array([-8, 7, 3], np.int8), expected).passed
    assert not one(np.array([-8, 7, 2], np.int8), expected).passed
    assert one(np.array([0.5, 6], np.float32), np.array([0.5, 6]).astype(ml_dtypes.float4_e2m1fn)).passed


def test_sequences_optionals_and_maps() -> None:
    pair = [VALUES, VALUES + 1]
    assert [c.name for c in compare("y", pair, [*pair])] == ["y[0]", "y[1]"]
    assert not all(c.passed for c in compare("y", pair, pair[::-1]))
    assert compare("y", pair, pair[:1])[0].problem == "is a sequence of 2, and should be a sequence of 1"
    assert compare("y", None, None)[0].passed
    assert compare("y", None, VALUES)[0].problem == "is nothing, and should be a tensor"
    assert all(c.passed for c in compare("y", [{"a": 0.5}], [{"a": 0.5}]))
    assert not all(c.passed for c in compare("y", [{"a": 0.5}], [{"a": 0.7}]))


def test_empty_tensors_match() -> None:
    assert one(np.empty((0, 3), np.float32), np.empty((0, 3), np.float32)).passed

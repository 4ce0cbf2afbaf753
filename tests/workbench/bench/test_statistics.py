"""Percentiles and ratios have intervals that hold what is true, and say so if they tell nothing."""

from __future__ import annotations

import numpy as np
import pytest

from onnxlift.workbench.bench.statistics import Estimate, mean, noise, percentile, ratio, verdict


def rounds(seed: int, scale: float = 1.0, shared: float = 0.0, count: int = 30) -> list[list[float]]:
    """Rounds of ten samples. `shared` is how far whole rounds are off; it is the same for all that have one seed."""
    whole = np.random.default_rng(7).lognormal(0, shared, count) if shared else np.ones(count)
    own = np.random.default_rng(seed).lognormal(0, 0.02, (count, 10))
    return (scale * whole[:, None] * own).tolist()


def test_an_interval_holds_the_true_median_about_as_often_as_it_says() -> None:
    found = [percentile(rounds(seed), 50) for seed in range(40)]
    held = sum(each is not None and each.low <= 1 <= each.high for each in found)
    assert held >= 34
    assert all(each is not None and each.low <= each.value <= each.high for each in found)


def test_what_slows_whole_rounds_down_cancels_in_a_ratio() -> None:
    """Single medians are 30 % off from round to round, and the ratio of two sides is within a percent or two."""
    slow, fast = rounds(1, 1.05, shared=0.3), rounds(2, 1.0, shared=0.3)
    found = ratio(slow, fast)
    assert found.low <= 1.05 <= found.high and found.spread < 0.1
    alone = percentile(slow, 50)
    assert alone is not None and alone.spread > found.spread
    assert noise(slow) > 0.1 > noise(rounds(1))


@pytest.mark.parametrize(("scale", "expected"), [(1.2, "slower"), (0.8, "faster"), (1.0, "same")])
def test_verdicts(scale: float, expected: str) -> None:
    assert verdict(ratio(rounds(1, scale), rounds(2))) == expected


def test_an_interval_that_is_wide_and_holds_1_tells_nothing() -> None:
    assert verdict(Estimate(1.02, 0.8, 1.3)) == "unclear"
    assert verdict(Estimate(1.02, 0.99, 1.04)) == "same"


def test_a_percentile_needs_samples() -> None:
    assert percentile([[1.0] * 9], 90) is None and percentile([[1.0] * 5] * 2, 90) is not None
    assert percentile([[1.0] * 50], 99) is None and percentile([[1.0] * 50] * 2, 99) is not None
    many = percentile([[float(number) for number in range(1000)]] * 3, 99)
    assert many is not None and many.value == pytest.approx(989, abs=2)


def test_one_round_has_no_interval() -> None:
    found = mean([[1.0, 3.0]])
    assert (found.value, found.low, found.high) == (2, 2, 2)

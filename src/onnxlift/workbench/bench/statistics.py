"""What samples of latency tell: percentiles and ratios, each with the interval in which it lies.

Samples come in rounds: in each, every contender has its turn. What else the machine does lasts longer than one run, so
samples of one turn are alike, and rounds are what may be taken as independent. Intervals come from a bootstrap over
rounds; a ratio takes the same rounds of both sides, so that what slows a whole round down cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RESAMPLES = 1000
CONFIDENCE = 0.95
TELLABLE = 0.05
"""A ratio whose interval is no wider than this to either side tells enough; a wider one that holds 1 tells nothing."""
NEGLIGIBLE = 0.02
"""A ratio closer to 1 than this is no difference, however sure it is: where a process lies in memory can make it."""
NOISY = 0.10
"""Rounds whose medians are spread by more than this are a sign of a machine that does something else as well."""
_LEAST = {50: 1, 90: 10, 99: 100}
"""The fewest samples that say anything of a percentile."""

Array = np.ndarray[Any, Any]
Rounds = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Estimate:
    """A number, and the interval in which it lies with 95 % confidence."""

    value: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """How far the interval reaches to the farther side, as a share of the value."""
        return max(self.high - self.value, self.value - self.low) / self.value if self.value else 0.0

    def to_dict(self) -> dict[str, float]:
        """Return it as plain data."""
        return {"value": self.value, "low": self.low, "high": self.high}


def percentile(rounds: Rounds, percent: int, seed: int = 0) -> Estimate | None:
    """Return a percentile of all samples; None if there are too few of them."""
    if sum(map(len, rounds)) < _LEAST[percent]:
        return None
    return _bootstrap([rounds], lambda sides: float(np.percentile(sides[0], percent)), seed)


def mean(rounds: Rounds, seed: int = 0) -> Estimate:
    """Return the mean of all samples."""
    return _bootstrap([rounds], lambda sides: float(sides[0].mean()), seed)


def ratio(rounds: Rounds, baseline: Rounds, seed: int = 0) -> Estimate:
    """Return the median of one side over that of another, measured in the same rounds."""
    return _bootstrap(
        [rounds, baseline], lambda sides: float(np.median(sides[0])) / max(float(np.median(sides[1])), 1e-12), seed
    )


def noise(rounds: Rounds) -> float:
    """Return how far the medians of rounds are spread, as a share: half the distance of the quartiles."""
    medians = np.array([np.median(each) for each in rounds])
    low, middle, high = np.percentile(medians, [25, 50, 75])
    return float((high - low) / 2 / middle) if middle else 0.0


def verdict(found: Estimate) -> str:
    """Say what a ratio tells: `slower`, `faster`, `same`, or `unclear` if the interval is too wide to tell."""
    if found.low > 1 and found.value >= 1 + NEGLIGIBLE:
        return "slower"
    if found.high < 1 and found.value <= 1 - NEGLIGIBLE:
        return "faster"
    return "same" if found.spread <= TELLABLE else "unclear"


def _bootstrap(sides: Sequence[Rounds], statistic: Callable[[list[Array]], float], seed: int) -> Estimate:
    """Return a statistic of the samples, and its interval over resampled rounds."""
    arrays = [[np.asarray(each, np.float64) for each in rounds] for rounds in sides]
    value = statistic([np.concatenate(side) for side in arrays])
    count = min(len(side) for side in arrays)
    if count < 2:
        return Estimate(value, value, value)
    random = np.random.default_rng(seed)
    found = np.empty(RESAMPLES)
    for number, chosen in enumerate(random.integers(0, count, (RESAMPLES, count))):
        found[number] = statistic([np.concatenate([side[place] for place in chosen]) for side in arrays])
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(found, [tail, 100 - tail])
    return Estimate(value, min(float(low), value), max(float(high), value))

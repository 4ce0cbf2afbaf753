"""How much noise a value has: the ratio of signal to quantisation noise, added up over samples.

    SQNR = 10 log10(sum of squares of the original / sum of squares of the difference)   in decibels

Ten decibels more are a tenth of the noise; a bit more in every number is about six.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

MEASURED, EXACT, NOT_FINITE, OTHER_SHAPE, NO_NUMBERS = "measured", "exact", "not finite", "other shape", "no numbers"


@dataclass
class Noise:
    """Signal and noise of one value, as far as samples have been added."""

    signal: float = 0.0
    noise: float = 0.0
    largest: float = 0.0
    """The largest difference of a number."""
    equal: float = 0.0
    elements: int = 0
    finite: int = 0
    samples: int = 0
    other_shapes: int = 0
    whole: bool = False
    """Whether these are whole numbers or truth values, of which one counts how many are equal."""
    broken: int = 0
    """Samples of which the original has numbers, and the result has none (inf, nan)."""

    def add(self, expected: Any, actual: Any) -> None:
        """Add what one sample gives: the value of the original, and that of the result."""
        self.samples += 1
        if not isinstance(expected, np.ndarray) or expected.dtype.kind in "OUS":
            return
        self.whole = expected.dtype.kind in "biu"
        wide, own = expected.astype(np.float64), np.asarray(actual).astype(np.float64)
        if wide.shape != own.shape:
            self.other_shapes += 1
            return
        # Where both are infinite or not a number alike, there is no noise.
        alike = (wide == own) | (np.isnan(wide) & np.isnan(own))
        self.equal += float(alike.sum())
        self.elements += wide.size
        self.finite += int(np.isfinite(wide).sum())
        if not np.isfinite(own[~alike]).all() or not np.isfinite(wide[~alike]).all():
            self.broken += 1
            return
        error = np.subtract(own, wide, out=np.zeros_like(wide), where=~alike)
        self.add_sums(float(np.square(wide[np.isfinite(wide)]).sum()), float(np.square(error).sum()))
        self.largest = max(self.largest, float(np.abs(error).max(initial=0.0)))

    def add_sums(self, signal: float, noise: float) -> None:
        """Add the sums of squares of the original, and of the difference."""
        if math.isfinite(signal) and math.isfinite(noise):
            self.signal += signal
            self.noise += noise
        else:
            self.broken += 1

    @property
    def state(self) -> str:
        """What can be said of it."""
        if self.other_shapes:
            return OTHER_SHAPE
        if self.broken:
            return NOT_FINITE
        if not self.finite and not self.signal and not self.noise:
            return NO_NUMBERS
        return MEASURED if self.noise else EXACT

    @property
    def decibels(self) -> float | None:
        """The SQNR, if there is noise to measure."""
        if self.state != MEASURED:
            return None
        return 10 * math.log10(max(self.signal, 1e-300) / self.noise)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        share = self.equal / self.elements if self.elements else None
        return {
            "state": self.state,
            "sqnr": self.decibels,
            "largest": self.largest,
            "equal": share,
            "whole": self.whole,
        }

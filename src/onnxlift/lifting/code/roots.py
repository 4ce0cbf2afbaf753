"""Write numbers as the root or logarithm of a whole number, as people do.

    2.8284271247461903 -> math.sqrt(8)        0.3535533905932738 -> 8**-0.5        2.772588722239781 -> math.log(16)

Models hold such numbers in single precision (2.828427), where many texts round to one number. The text of the root is
right if it rounds to the same number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

LARGEST_ROOT, LARGEST_LOG = 8192, 1024  # larger ones are so many that one may match by chance
FEWEST_DIGITS = 7  # a number with fewer digits is written as it is


def root_of_single(number: float) -> float:
    """Return the root or logarithm that rounds to `number` in single precision; `number` itself if there is none."""
    digits = repr(number).partition("e")[0].lstrip("-0.").replace(".", "")
    if len(digits) < FEWEST_DIGITS:
        return number
    single = np.float32(number)
    return next((root for root, _ in _candidates(number) if np.float32(root) == single), number)


def root_text(number: float) -> str | None:
    """Return the text of the root or logarithm that equals `number` to the last bit; None if there is none."""
    return next((text for root, text in _candidates(number) if root == number), None)


def _candidates(number: float) -> Iterator[tuple[float, str]]:
    size = abs(number)
    sign = "-" if number < 0 else ""
    if not 1 / LARGEST_ROOT < size < LARGEST_ROOT:
        return
    square = round(size * size)
    if 1 < square <= LARGEST_ROOT and math.isqrt(square) ** 2 != square:
        yield math.copysign(math.sqrt(square), number), f"{sign}math.sqrt({square})"
    square = round(1 / (size * size))
    if 1 < square <= LARGEST_ROOT and math.isqrt(square) ** 2 != square:
        yield math.copysign(square**-0.5, number), f"{sign}{square}**-0.5"
    power = round(math.exp(size)) if size < math.log(LARGEST_LOG) + 1 else 0
    if 1 < power <= LARGEST_LOG:
        yield math.copysign(math.log(power), number), f"{sign}math.log({power})"

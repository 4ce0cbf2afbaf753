"""Tell numbers that were trained from those that people write into models."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxlift.ir.editing.edit import Array

FEWEST = 4
ROUND = 5
ROUND_HALF = 3  # the same for float16 and bfloat16
SAMPLE = 64


def looks_trained(numbers: Array) -> bool:
    """Tell whether several of the numbers have many digits. Positions or halves do not."""
    round_numbers = ROUND if numbers.dtype.itemsize > 2 else ROUND_HALF
    return sum(digits(number) > round_numbers for number in np.unique(numbers.flat[:SAMPLE])) >= FEWEST


def digits(number: np.floating[Any]) -> int:
    """Return how many digits it takes to write a number."""
    known = number if isinstance(number, np.floating) else np.float32(number)  # numpy has no bfloat16 of its own
    return len(np.format_float_scientific(known).partition("e")[0].strip("-").replace(".", ""))

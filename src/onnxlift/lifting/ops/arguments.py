"""Write arguments of PyTorch calls as people do: defaults left out, one number for equal ones, short floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxlift.ir.graph.types import DataType

from .operand import Tensor


def attribute_number(value: float, x: Tensor) -> float:
    """Return a float attribute as people write it. Attributes are float32, so this is the shortest text that rounds to
    the same float32. A double tensor uses the number in double precision, so for it all digits are written."""
    return float(value) if x.type.dtype == DataType.DOUBLE else float(str(np.float32(value)))


def trimmed(*inputs: Any) -> list[Any]:
    """Return the inputs as arguments of a kernel, without missing optional ones at the end."""
    present = [place for place, value in enumerate(inputs, 1) if value is not None]
    return list(inputs[: max(present, default=0)])


def changed(options: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """Return the options that differ from PyTorch's defaults: those that a person would write."""
    return {name: value for name, value in options.items() if value != defaults[name]}


def compact(values: tuple[int, ...]) -> int | tuple[int, ...]:
    """Return `3` for `(3, 3)`: PyTorch repeats a single number over the spatial axes, and people use that."""
    return values[0] if len(set(values)) == 1 else values

"""Sizes as layers take them: one number for all axes, or one for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxlift.build.errors import BuildError
from onnxlift.build.value import Value

Sizes = int | Sequence[int]
"""One number for all axes, or one for each."""


def repeated(layer: str, name: str, given: Any, axes: int, least: int = 1) -> tuple[int, ...]:
    """Return a number for each axis, or raise a BuildError."""
    numbers = tuple(given) if isinstance(given, list | tuple) else (given,) * axes
    right = all(isinstance(each, int) and not isinstance(each, bool) and each >= least for each in numbers)
    if len(numbers) != axes or not right:
        kind = f"{axes} numbers" if axes > 1 else "a number"
        raise BuildError(f"{layer}: {name} is {given!r}, and must be a number from {least}, or {kind} like that.")
    return numbers


def sizes_of(value: Value, start: int, end: int) -> list[int | str]:
    """Return some sizes of a value whose number of axes is known."""
    assert value.shape is not None
    return list(value.shape[start:end])

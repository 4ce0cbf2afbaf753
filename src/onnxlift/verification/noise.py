"""How far the outputs of a lifted model that was dequantised are from those of its ONNX model."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxlift.lifted import Lifted

from .children.child import Limits
from .given import Given
from .sides import Sides
from .values import write_values


@dataclass(frozen=True)
class OutputNoise:
    """The signal to noise ratio of each output of floats, in decibels: infinite if all numbers are equal. It is None
    for an output that cannot be compared: other shapes, no floats, numbers that are not finite."""

    outputs: Mapping[str, float | None]

    def to_dict(self) -> dict[str, float | None]:
        """Return decibels by output; None also where all numbers are equal, since JSON has no infinity."""
        return {name: None if value is None or math.isinf(value) else value for name, value in self.outputs.items()}

    def texts(self) -> dict[str, str]:
        """Return what to print of each output."""
        return {name: _text(value) for name, value in self.outputs.items()}


def output_noise(source: Any, lifted: Lifted, *, seed: int = 0, timeout: float = 300.0) -> OutputNoise:
    """Run a lifted model and the ONNX model that it was lifted from on the same made-up inputs, each in a child."""
    graph = lifted.model.graph
    values = Given({}, None, {}, seed).make(graph, lifted.stored_types)
    with tempfile.TemporaryDirectory(prefix="onnxlift-") as folder:
        sides = Sides(Path(folder), source, lifted, None, Limits(timeout, None), False)
        write_values(sides.job / "inputs", values)
        result = sides.run(look_inside=False)
        names = [value.name or "" for value in graph.outputs]
        return OutputNoise({name: _decibels(result.expected.get(name), result.actual.get(name)) for name in names})


def _decibels(expected: Any, actual: Any) -> float | None:
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray) or expected.shape != actual.shape:
        return None
    wide, own = expected.astype(np.float64), actual.astype(np.float64)
    signal, noise = float(np.square(wide).sum()), float(np.square(own - wide).sum())
    if expected.dtype.kind != "f" or not math.isfinite(signal) or not math.isfinite(noise):
        return None
    if noise == 0:
        return math.inf
    return round(10 * math.log10(signal / noise), 2) if signal > 0 else None


def _text(value: float | None) -> str:
    if value is None:
        return "not comparable"
    return (
        "none"
        if math.isinf(value)
        else f"{value:g} dB of signal to noise, against the quantised model, on made-up inputs"
    )

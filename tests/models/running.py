"""Both sides of a comparison: ONNX Runtime on the model, torch on what it was lifted to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from models import Inputs

Outputs = tuple[np.ndarray, ...]


def run_onnxruntime(path: Path, samples: tuple[Inputs, ...]) -> list[Outputs]:
    """The outputs for each of the samples."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # torch declares a wrong shape for the output of a GRU: each run would warn
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return [tuple(session.run(None, inputs)) for inputs in samples]


def run_torch(module: Callable[..., object], inputs: Inputs) -> Outputs:
    """The outputs of a module that takes the inputs by position, in the order of the model."""
    with torch.no_grad():
        outputs = module(*map(torch.from_numpy, inputs.values()))
    return tuple(output.numpy() for output in (outputs if isinstance(outputs, tuple) else (outputs,)))


def assert_close(actual: Outputs, expected: Outputs) -> None:
    """Equal count, types and shapes, and numbers as close as float32 allows after reordering sums."""
    assert [(a.dtype, a.shape) for a in actual] == [(e.dtype, e.shape) for e in expected]
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=2e-5)

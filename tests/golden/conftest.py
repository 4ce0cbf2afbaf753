"""Every example model in turn, what it lifts to, and what ONNX Runtime makes of its samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import onnxlift
from models import Example
from models.every import EXAMPLES
from models.running import Outputs, run_onnxruntime


@pytest.fixture(scope="module", params=EXAMPLES, ids=str)
def example(request: pytest.FixtureRequest) -> Example:
    return request.param


@pytest.fixture(scope="module")
def path(example: Example, model_file: Callable[[Example], Path]) -> Path:
    return model_file(example)


@pytest.fixture(scope="module")
def lifted(example: Example, path: Path) -> onnxlift.Lifted:
    return onnxlift.lift(path, name=example.model)


@pytest.fixture(scope="module")
def expected(example: Example, path: Path) -> list[Outputs]:
    return run_onnxruntime(path, example.samples())

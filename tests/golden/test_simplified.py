"""A model that was simplified as ONNX lifts to what ONNX Runtime computes of the original."""

from __future__ import annotations

from pathlib import Path

import pytest

import onnxlift
from models import Example
from models.every import EXAMPLES
from models.running import Outputs, assert_close, run_torch
from onnxlift.workbench.opset import opset
from onnxlift.workbench.simplify import simplify

WITH_STANDARD = [example for example in EXAMPLES if example.name in ("llama_script", "unet_script", "vit_script")]


def test_lifts_to_the_numbers_of_the_original(example: Example, path: Path, expected: list[Outputs]) -> None:
    module = onnxlift.lift(simplify(path, verify=False)).module()
    for inputs, outputs in zip(example.samples(), expected, strict=True):
        assert_close(run_torch(module, inputs), outputs)


@pytest.mark.parametrize("example", WITH_STANDARD, ids=str, indirect=True)
def test_lifts_from_standard_operators(example: Example, path: Path, expected: list[Outputs]) -> None:
    report = simplify(opset(path, 24, verify=False), fuse_standard=True, verify=False)
    assert report.steps["standard"]
    module = onnxlift.lift(report).module()
    for inputs, outputs in zip(example.samples(), expected, strict=True):
        assert_close(run_torch(module, inputs), outputs)

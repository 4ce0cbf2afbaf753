"""A model that another verb has changed lifts to what ONNX Runtime computes of the original."""

from __future__ import annotations

from pathlib import Path

import pytest

import onnxlift
from models import Example
from models.every import EXAMPLES
from models.running import Outputs, assert_close, run_torch
from onnxlift.workbench.opset import NEWEST, opset
from onnxlift.workbench.simplify import simplify

WITH_STANDARD = [example for example in EXAMPLES if example.name in ("llama_script", "unet_script", "vit_script")]


def test_lifts_after_simplify(example: Example, path: Path, expected: list[Outputs]) -> None:
    module = onnxlift.lift(simplify(path, verify=False)).module()
    for inputs, outputs in zip(example.samples(), expected, strict=True):
        assert_close(run_torch(module, inputs), outputs)


def test_lifts_after_opset(example: Example, path: Path, expected: list[Outputs]) -> None:
    """Up to the newest opset and down to 13: what comes down went through all revisions in between."""
    module = onnxlift.lift(opset(opset(path, NEWEST[""], verify=False), 13, verify=False)).module()
    for inputs, outputs in zip(example.samples(), expected, strict=True):
        assert_close(run_torch(module, inputs), outputs)


@pytest.mark.parametrize("example", WITH_STANDARD, ids=str, indirect=True)
def test_lifts_from_standard_operators(example: Example, path: Path, expected: list[Outputs]) -> None:
    report = simplify(opset(path, 24, verify=False), fuse_standard=True, verify=False)
    assert report.steps["standard"]
    module = onnxlift.lift(report).module()
    for inputs, outputs in zip(example.samples(), expected, strict=True):
        assert_close(run_torch(module, inputs), outputs)

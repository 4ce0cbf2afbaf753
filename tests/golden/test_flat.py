"""A flat transcript is one class without idioms, and computes the same."""

from __future__ import annotations

from pathlib import Path

import onnxlift
from models import Example
from models.running import Outputs, assert_close, run_torch


def test_one_class_of_the_same_numbers(example: Example, path: Path, expected: list[Outputs]) -> None:
    lifted = onnxlift.lift(path, name=f"{example.model}_flat", structure="flat")
    assert lifted.report.classes == 1
    assert "idioms" not in lifted.report.steps
    module = lifted.module()
    for inputs, outputs in zip(example.samples(), expected, strict=True):
        assert_close(run_torch(module, inputs), outputs)

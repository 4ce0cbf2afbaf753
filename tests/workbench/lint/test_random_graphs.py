"""Random models that ONNX Runtime takes: lint finds no error in them, and what it mends computes exactly the same."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from fuzz.generate import generate
from onnxlift.workbench.lint.lint import lint

SEEDS = 40


def run(proto, feeds):
    return onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_sound_model_has_no_errors_and_fixes_are_exact(seed):
    case = generate(seed)
    report = lint(case.model)
    assert [str(finding) for finding in report.findings if finding.severity == "error"] == []
    fix = report.fix(verify=False)
    assert [str(finding) for finding in fix.left.findings if finding.fixable] == []
    expected, actual = run(case.model, case.feeds[0]), run(fix.proto(), case.feeds[0])
    for one, other in zip(expected, actual, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(other, one)
        else:
            assert str(other) == str(one)

"""Each rule of lint: a model that breaks it, one next to it that does not, its fix, and its section of the page."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxlift.workbench.lint.lint import lint
from onnxlift.workbench.lint.page import page
from onnxlift.workbench.lint.rule import SEVERITIES
from onnxlift.workbench.lint.table import gate_rules, lint_rules

from .cases import CASES

PAGE = Path(__file__).parents[3] / "docs" / "workbench" / "lint-rules.md"
RULES = {rule.identifier: rule for rule in lint_rules()}


def found(model, identifier, **options):
    return [finding for finding in lint(model, **options).findings if finding.rule == identifier]


@pytest.mark.parametrize("identifier", RULES)
def test_what_breaks_a_rule_is_found(identifier):
    case = CASES[identifier]
    for model, message in case.broken:
        before = copy.deepcopy(model)
        findings = found(model, identifier, **case.options)
        assert message in "\n".join(f"{finding.place}: {finding.text}" for finding in findings)
        assert {finding.severity for finding in findings} == {RULES[identifier].severity}
        assert model == before


@pytest.mark.parametrize("identifier", RULES)
def test_what_keeps_a_rule_is_left_alone(identifier):
    for model in CASES[identifier].sound:
        assert found(model, identifier, **CASES[identifier].options) == []


@pytest.mark.parametrize("identifier", [each for each, rule in RULES.items() if rule.fix is not None])
def test_a_fix_leaves_nothing_to_mend_and_a_model_that_runtimes_take(identifier):
    for model, _ in CASES[identifier].broken:
        report = lint(model, select=identifier)
        fixable = [finding for finding in report.findings if finding.fixable]
        if not fixable:
            continue
        fix = report.fix(verify=False)
        assert fix.mended == {identifier: len(fixable)}
        assert [finding for finding in fix.left.findings if finding.fixable] == []
        assert fix.passed
        result = fix.proto()
        onnx.checker.check_model(result, full_check=True)
        onnxruntime.InferenceSession(result.SerializeToString(), providers=["CPUExecutionProvider"])


def test_every_rule_has_models():
    assert CASES.keys() == RULES.keys()


def test_identifiers_and_names_are_unique_and_rules_say_what_to_do():
    names = [rule.name for rule in RULES.values()] + list(gate_rules())
    assert len(set(names)) == len(names)
    assert not RULES.keys() & {rule.identifier for rule in gate_rules().values()}
    for rule in RULES.values():
        assert rule.severity in SEVERITIES
        assert len(rule.paragraphs) >= 3, rule.identifier
        assert all(paragraph.endswith(".") for paragraph in rule.paragraphs), rule.identifier
        assert ("--fix" in rule.advice) == (rule.fix is not None), rule.identifier


def test_the_page_of_rules_is_of_today(request):
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page(), "run pytest tests/workbench/lint --update-golden"


def test_two_nodes_of_one_name_are_refused_by_the_runtime_and_taken_after_the_fix():
    """The claim of the page, tried."""
    model, _ = CASES["OL102"].broken[0]
    with pytest.raises(Exception, match="two nodes with same node name"):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    fixed = lint(model).fix(verify=False).proto()
    session = onnxruntime.InferenceSession(fixed.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.array([[1, -2, 3, -4]], np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], -np.maximum(x, 0))


@pytest.mark.parametrize("identifier", ["OL103", "OL113", "OL201"])
def test_what_is_called_an_error_of_a_file_is_refused_by_the_runtime(identifier):
    for model, _ in CASES[identifier].broken:
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

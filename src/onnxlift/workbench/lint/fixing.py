"""Mend what can be mended exactly, and look at the result again."""

from __future__ import annotations

from collections import Counter

from onnxlift.ir.inference.infer import infer
from onnxlift.stages import Record
from onnxlift.unforeseen import answered
from onnxlift.workbench.report import Checking, open_model

from .lint import lint
from .report import LintFix, LintReport
from .table import lint_rules


def fixed(report: LintReport, checking: Checking) -> LintFix:
    """Return the model of a report with all findings mended that can be, and what is found in the result.

    The fixes of the rules that were selected run in the order of their identifiers."""
    found = Counter(finding.rule for finding in report.findings if finding.fixable)
    record = Record()
    with answered(record):
        model = open_model(report.source, record)
        infer(model)
        for rule in lint_rules():
            if rule.fix is not None and found[rule.identifier]:
                rule.fix(model)
                infer(model)
        left = lint(model, **report.options)
        remaining = Counter(finding.rule for finding in left.findings if finding.fixable)
    mended = {rule: count - remaining[rule] for rule, count in sorted(found.items()) if count > remaining[rule]}
    result = LintFix(report.name, model, mended=mended, left=left)
    return result.verified(report.source, checking)

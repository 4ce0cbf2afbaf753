"""Mend what can be mended exactly, and look at the result again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from onnxlift.ir.inference.infer import infer
from onnxlift.stages import Record
from onnxlift.unforeseen import answered
from onnxlift.workbench.report import Checking, open_model

from .lint import lint
from .report import LintFix, LintReport
from .table import lint_rules

MOST_ROUNDS = 8


def fixed(report: LintReport, checking: Checking) -> LintFix:
    """Return the model of a report with all findings mended that can be, and what is found in the result.

    The fixes of the rules that were selected run in the order of their identifiers, and again as long as one leaves
    work for another: what was read only by a branch that is gone is dead."""
    record = Record()
    mended: Counter[str] = Counter()
    of_weights = [rule for rule in lint_rules() if rule.kind == "weight" and rule.fix is not None]
    with answered(record):
        model = open_model(report.source, record)
        infer(model)
        found = _fixable(report)
        for _ in range(MOST_ROUNDS):
            for rule in lint_rules():
                if rule.fix is not None and found[rule.identifier]:
                    rule.fix(model)
                    infer(model)
            with_weights = report.options["weights"] and any(found[rule.identifier] for rule in of_weights)
            left = _fixable(lint(model, **{**report.options, "weights": with_weights}))
            mended += found - left
            if not left or left == found:
                break
            found = left
        after = lint(model, **report.options)
    result = LintFix(report.name, model, mended=dict(sorted(mended.items())), left=replace(after, name=report.name))
    return result.verified(report.source, checking)


def _fixable(report: LintReport) -> Counter[str]:
    """Return how many findings of each rule can be mended."""
    return Counter(finding.rule for finding in report.findings if finding.fixable)

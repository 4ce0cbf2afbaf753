"""`lint`: find what may trouble whoever ships a model.

    reading, checking ─▶ rules on the file ─▶ building, types ─▶ rules on the graph ─▶ rules on weights, one by one

What the gate refuses becomes errors; then the rules that rely on it are not asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from onnxlift.errors import Finding, OnnxLiftError
from onnxlift.ir.checking.form import MOST_FINDINGS
from onnxlift.ir.reading.draft import Source, unwrapped
from onnxlift.stages import Record
from onnxlift.unforeseen import answered
from onnxlift.workbench.runtimes import runtime_for

from .opening import Opened, held, open_for_lint
from .report import LintFinding, LintReport
from .rule import SEVERITIES, Found, LintRule, Severity
from .table import GATE_ADVICE, chosen, gate_rules, lint_rules
from .weights import weights as weights_of

Choice = Callable[[str], bool]


def lint(
    source: Source,
    *,
    select: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    target: str | None = None,
    weights: bool = True,
    fail_on: Severity = "warning",
) -> LintReport:
    """Return what was found in the model in `source`: a report with `findings`, the worst first.

    `select` and `ignore` choose rules by identifier, prefix (`OL3`) or name. `target` is a runtime that must take the
    model, like `onnxruntime==1.17`. If not `weights`, the numbers of weights are not looked at. The report is false if
    it has findings that are as bad as `fail_on`: "error", "warning" or "info"."""
    if fail_on not in SEVERITIES:
        raise OnnxLiftError(f"fail_on is {fail_on!r}; it can be {', '.join(SEVERITIES)}.")
    wanted = chosen(_listed(select), _listed(ignore))
    runtime = None if target is None else runtime_for(target)
    source = held(source)
    record = Record()
    with answered(record):
        opened = open_for_lint(source, record, runtime)
        found = sorted(_findings(opened, wanted, weights), key=_order)
        options = {"select": select, "ignore": ignore, "target": target, "weights": weights, "fail_on": fail_on}
        return LintReport(_name(source, opened), tuple(found), _notes(opened), fail_on, options, source)


def _listed(texts: str | Sequence[str]) -> list[str]:
    """Return the texts of an option, each of which may name several rules, separated by commas."""
    each = [texts] if isinstance(texts, str) else texts
    return [part.strip() for text in each for part in text.split(",") if part.strip()]


def _order(finding: LintFinding) -> tuple[int, str]:
    return SEVERITIES.index(finding.severity), finding.rule


def _findings(opened: Opened, wanted: frozenset[str], with_weights: bool) -> Iterator[LintFinding]:
    yield from (each for each in map(_refusal, opened.refused) if each.rule in wanted)
    rules = [each for each in lint_rules() if each.identifier in wanted]
    if opened.file is not None:
        yield from _asked(rules, "file", opened.file)
    if opened.graph is None:
        return
    yield from _asked(rules, "graph", opened.graph)
    if with_weights and any(each.kind == "weight" for each in rules):
        for weight in weights_of(opened.graph):
            yield from _asked(rules, "weight", weight)


def _asked(rules: Iterable[LintRule], kind: str, subject: object) -> Iterator[LintFinding]:
    for each in rules:
        if each.kind == kind:
            yield from map(partial(_finding, each), each.check(subject))


def _finding(rule: LintRule, found: Found) -> LintFinding:
    return LintFinding(
        rule.identifier,
        rule.name,
        rule.severity,
        str(found.place),
        found.text,
        rule.advice,
        found.place.node,
        found.place.value,
        rule.fix is not None and found.fixable,
    )


def _refusal(finding: Finding) -> LintFinding:
    declared = gate_rules()[finding.rule]
    return LintFinding(declared.identifier, declared.name, "error", finding.place, finding.text, GATE_ADVICE)


def _notes(opened: Opened) -> tuple[str, ...]:
    notes = []
    if opened.graph is None:
        which = "OL1 to OL5" if opened.file is None else "on types, sizes, weights and nodes without use"
        notes.append(f"the rules {which} were not asked: they rely on a model that passes the gate.")
    if len(opened.refused) >= MOST_FINDINGS:
        notes.append(f"after {MOST_FINDINGS:,} errors, the rest of the model was not looked at.")
    return tuple(notes)


def _name(source: Any, opened: Opened) -> str:
    if isinstance(source, str | os.PathLike):
        return Path(source).name
    held_name = getattr(source, "name", None) if unwrapped(source) is not source else None
    graph = "" if opened.file is None else opened.file.proto.graph.name
    return str(held_name or graph or "model")

"""Findings as SARIF 2.1.0, which code scanning services show beside a change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote as url_quote

from onnxlift import __version__

from .report import LintFinding
from .rule import Severity
from .table import GATE_ADVICE, gate_rules, lint_rules

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


def sarif_log(
    models: Sequence[tuple[str, Sequence[LintFinding]]], errors: Sequence[tuple[str, str]] = ()
) -> dict[str, Any]:
    """Return one log for several models, each with its path and findings. `errors` are paths that gave no answer."""
    rules = _rules({finding.rule for _, findings in models for finding in findings})
    position = {rule["id"]: index for index, rule in enumerate(rules)}
    results = [_result(path, finding, position[finding.rule]) for path, findings in models for finding in findings]
    notes = [{"level": "error", "message": {"text": f"{path}: {text}"}} for path, text in errors]
    invocation: dict[str, Any] = {"executionSuccessful": not errors}
    if notes:
        invocation["toolExecutionNotifications"] = notes
    driver = {"name": "onnxlift", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "invocations": [invocation], "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rules(used: set[str]) -> list[dict[str, Any]]:
    """Return what there is to say of the rules that are broken."""
    gate = [(each.identifier, each.name, each.summary, GATE_ADVICE, "error") for each in gate_rules().values()]
    own = [
        (each.identifier, each.name, each.summary, " ".join(each.paragraphs[1:]), _LEVELS[each.severity])
        for each in lint_rules()
    ]
    return [
        {
            "id": identifier,
            "name": "".join(part.capitalize() for part in name.split("-")),
            "shortDescription": {"text": text},
            "help": {"text": help_text},
            "defaultConfiguration": {"level": level},
        }
        for identifier, name, text, help_text, level in sorted(gate + own)
        if identifier in used
    ]


def _result(path: str, finding: LintFinding, index: int) -> dict[str, Any]:
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": url_quote(path.replace("\\", "/"))}}}
    name = finding.node or finding.value
    if name is not None:
        location["logicalLocations"] = [{"name": name, "kind": "function" if finding.node else "variable"}]
    text = f"{finding.place}: {finding.text} {finding.advice}".strip()
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [location],
    }

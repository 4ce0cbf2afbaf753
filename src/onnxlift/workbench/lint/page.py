"""The page of all rules, docs/workbench/lint-rules.md, made of their docstrings."""

from __future__ import annotations

from collections.abc import Iterator

from .rule import LintRule
from .table import gate_rules, lint_rules

_HEAD = """# The rules of lint

`onnxlift lint` asks each of these ([how to use it](lint.md)). An identifier is stable, and is never given to another
rule. This page is made of the rules themselves: `pytest tests/workbench/lint --update-golden` writes it.

| | rule | severity | `--fix` | |
|---|---|---|---|---|
"""
_SECTIONS = {
    "OL1": "Names, and what the file says",
    "OL2": "Types and sizes",
    "OL3": "Weights",
    "OL4": "Nodes",
    "OL5": "Runtimes",
}
_GATE = """
## The gate

Whatever breaks one of these is no valid model, and an error: neither `lift` nor any other verb takes it.
[The rules that a model must keep](../rules.md) says more of them. What trips those who build models by hand is here:
names that are given twice (OL005), pads that are no list of both ends (OL080), and attributes that have become inputs,
like the axes of a Squeeze since opset 13 and the shape of a Reshape since 5 (OL030).

| | rule | what it wants |
|---|---|---|
"""


def page() -> str:
    """Return the text of the page."""
    lines = [_HEAD.rstrip("\n")]
    lines += [
        f"| [{each.identifier}](#{each.identifier.lower()}) | `{each.name}` | {each.severity} | "
        f"{'yes' if each.fix else ''} | {each.summary} |"
        for each in lint_rules()
    ]
    for prefix, title in _SECTIONS.items():
        lines += ["", f"## {title}"]
        for each in lint_rules():
            if each.identifier.startswith(prefix):
                lines += _section(each)
    lines += [_GATE.rstrip("\n")]
    lines += [f"| {each.identifier} | `{each.name}` | {each.summary} |" for each in gate_rules().values()]
    return "\n".join(lines) + "\n"


def _section(rule: LintRule) -> Iterator[str]:
    first, *middle, last = rule.paragraphs
    yield from ("", f"### {rule.identifier}", "", f"`{rule.name}`, {rule.severity}. {first}")
    for paragraph in middle:
        yield from ("", f"*Why.* {paragraph}")
    yield from ("", f"*What to do.* {last}")

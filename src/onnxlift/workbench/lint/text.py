"""Findings for people: grouped by rule, equal ones together, so that a thousand of them are still read."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .rule import SEVERITIES

if TYPE_CHECKING:
    from .report import LintFinding

WIDTH = 110
MOST_TEXTS = 5
"""How many different messages of a rule are shown."""
MOST_PLACES = 3
"""How many places with the same message are shown."""


def summary(findings: Sequence[LintFinding]) -> str:
    """Return how many findings there are, in a few words: `1 error, 2 warnings`."""
    counts = Counter(finding.severity for finding in findings)
    words = {"error": "error", "warning": "warning", "info": "info"}
    parts = [
        f"{counts[each]:,} {words[each]}{'s' if counts[each] > 1 and each != 'info' else ''}"
        for each in SEVERITIES
        if counts[each]
    ]
    fixable = sum(finding.fixable for finding in findings)
    told = f" ({fixable:,} can be mended with --fix)" if fixable else ""
    return ", ".join(parts) + told if parts else "nothing found"


def listing(findings: Sequence[LintFinding], every_place: bool = False) -> list[str]:
    """Return the lines for all findings, in groups by rule."""
    by_rule: dict[str, list[LintFinding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    lines: list[str] = []
    for rule, found in by_rule.items():
        first = found[0]
        count = f", {len(found):,} places" if len(found) > 1 else ""
        lines += ["", f"  {rule} {first.severity}: {first.name}{count}"]
        lines += [f"    {line}" for line in (_all(found) if every_place else _grouped(found))]
        if first.advice:
            lines += textwrap.wrap(first.advice, WIDTH, initial_indent="    -> ", subsequent_indent=" " * 7)
    return lines


def _all(found: Sequence[LintFinding]) -> list[str]:
    return [f"{finding.place}: {finding.text}" for finding in found]


def _grouped(found: Sequence[LintFinding]) -> list[str]:
    """Return a line for each message, with the first places that have it; of many messages, only the first."""
    by_text: dict[str, list[str]] = {}
    for finding in found:
        by_text.setdefault(finding.text, []).append(finding.place)
    lines: list[str] = []
    for text, places in list(by_text.items())[:MOST_TEXTS]:
        shown = "; ".join(places[:MOST_PLACES])
        more = f" and {len(places) - MOST_PLACES:,} more" if len(places) > MOST_PLACES else ""
        lines.append(f"{shown}{more}: {text}")
    hidden = sum(len(places) for places in list(by_text.values())[MOST_TEXTS:])
    if hidden:
        lines.append(f"... and {hidden:,} more (--all lists them)")
    return lines

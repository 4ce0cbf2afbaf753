"""What `lint` returns: the findings of a model, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onnxlift.workbench.report import Checking, ModelReport

from .rule import SEVERITIES, Severity
from .text import listing, summary


@dataclass(frozen=True)
class LintFinding:
    """One finding: the rule's identifier and name, how bad it is, where, what, and what to do about it.

    `node` or `value` is the name of what is meant, if it is one. `fixable` tells whether `--fix` mends it."""

    rule: str
    name: str
    severity: Severity
    place: str
    text: str
    advice: str = ""
    node: str | None = None
    value: str | None = None
    fixable: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.rule} {self.severity}: {self.text}"

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a plain dict, for `json.dumps`."""
        return dict(vars(self))


@dataclass(frozen=True)
class LintReport:
    """All findings of a model, the worst first. It is true if there is none that is as bad as `fail_on`."""

    name: str
    findings: tuple[LintFinding, ...] = ()
    notes: tuple[str, ...] = ()
    fail_on: Severity = "warning"
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The options that `lint` was called with."""
    source: Any = field(default=None, repr=False, compare=False)

    @property
    def passed(self) -> bool:
        """Tell whether nothing was found that is as bad as `fail_on`."""
        bad = SEVERITIES[: SEVERITIES.index(self.fail_on) + 1]
        return not any(finding.severity in bad for finding in self.findings)

    def __bool__(self) -> bool:
        return self.passed

    @property
    def counts(self) -> dict[str, int]:
        """The number of findings by severity."""
        counts = Counter(finding.severity for finding in self.findings)
        return {severity: counts[severity] for severity in SEVERITIES}

    def fix(self, *, verify: bool = True, **checking: Any) -> LintFix:
        """Mend what can be mended exactly, and return the new model with what was found in it afterwards.

        Unless `verify` is False, the result is compared with the original; `checking` takes the options of `verify`."""
        from .fixing import fixed

        return fixed(self, Checking(verify, **checking))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists, for `json.dumps`."""
        return {
            "passed": self.passed,
            "counts": self.counts,
            "fixable": sum(finding.fixable for finding in self.findings),
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": list(self.notes),
        }

    def text(self, *, every_place: bool = False) -> str:
        """Return the report for people: grouped by rule, with a few places each, or with all of them."""
        return "\n".join(
            [f"{self.name}: {summary(self.findings)}", *listing(self.findings, every_place), *self._notes()]
        )

    def _notes(self) -> list[str]:
        return [f"  note     {note}" for note in self.notes]

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True)
class LintFix(ModelReport):
    """A model after its fixes: what was mended by rule, and the findings that are left."""

    mended: Mapping[str, int] = field(default_factory=dict)
    """Identifier of a rule -> number of findings that are gone."""
    left: LintReport = field(default_factory=lambda: LintReport(""))

    @property
    def ok(self) -> bool:
        """Tell whether the result computes the same, and nothing is left in it that is as bad as `fail_on`."""
        return self.passed and self.left.passed

    def facts(self) -> dict[str, Any]:
        return {"fixed": dict(self.mended), "left": self.left.to_dict()}

    def lines(self) -> list[str]:
        count = sum(self.mended.values())
        which = ", ".join(f"{rule} {number:,}" for rule, number in self.mended.items())
        told = f"{count:,} ({which})" if count else "nothing"
        return [
            f"  fixed          {told}",
            f"  left           {summary(self.left.findings)}",
            *listing(self.left.findings),
        ]

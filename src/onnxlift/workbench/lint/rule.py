"""The form of a rule of `lint`, and what it yields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import onnx_ir as ir

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""From the worst to the least: what a runtime refuses or what computes nonsense, what should be looked at, and what is
merely good to know."""

Kind = Literal["file", "graph", "weight"]
"""What a rule looks at: the file as it was read (`File`), the graph with its types (`Graph`), or one weight after the
other (`Weight`)."""


@dataclass(frozen=True)
class Place:
    """Where something was found: a text for people, and the name of the node or the value for programs."""

    text: str
    node: str | None = None
    value: str | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Found:
    """One thing that a rule has found. `fixable` is False where the rule's fix would not mend this one."""

    place: Place
    text: str
    fixable: bool = True


Check = Callable[[Any], Iterable[Found]]
Fix = Callable[[ir.Model], object]
"""Mends a model, which was opened for writing and has types, in place."""


def by_reading(_: ir.Model) -> None:
    """Do nothing: a model that was read and is written again is in one spelling, without what the rule has found."""


@dataclass(frozen=True)
class LintRule:
    """A rule: identifier, name, how bad it is, what it looks at, and how it can be mended exactly, if it can.

    Its docstring has three paragraphs or more: what was found in a sentence, why that matters, and what to do."""

    identifier: str
    name: str
    severity: Severity
    kind: Kind
    check: Check
    fix: Fix | None = None

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """The paragraphs of the docstring, each in one line."""
        text = inspect.cleandoc(self.check.__doc__ or "")
        return tuple(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))

    @property
    def summary(self) -> str:
        """What the rule finds, in a sentence."""
        return self.paragraphs[0]

    @property
    def advice(self) -> str:
        """What to do about it."""
        return self.paragraphs[-1]


def lint_rule(
    identifier: str, name: str, severity: Severity, kind: Kind, *, fix: Fix | None = None
) -> Callable[[Check], LintRule]:
    """Declare the decorated function a rule; see `LintRule` for the arguments."""

    def declare(check: Check) -> LintRule:
        return LintRule(identifier, name, severity, kind, check, fix)

    return declare

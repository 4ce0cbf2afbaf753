"""All rules: those of this verb, which are found by file, and those of the gate. Which of them the user wants."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Sequence
from functools import cache

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.checking.declared import Declared
from onnxlift.ir.checking.gate import declared_rules

from . import rules as package
from .rule import LintRule, Severity

GATE_ADVICE = "No runtime can be relied on to run this: mend the place, or export the model again (docs/rules.md)."


@cache
def lint_rules() -> tuple[LintRule, ...]:
    """Return every rule that a file of the folder rules/ declares, in the order of their identifiers."""
    modules = (
        importlib.import_module(f"{package.__name__}.{found.name}") for found in pkgutil.iter_modules(package.__path__)
    )
    found = (item for module in modules for item in vars(module).values() if isinstance(item, LintRule))
    return tuple(sorted({each.identifier: each for each in found}.values(), key=lambda each: each.identifier))


@cache
def gate_rules() -> dict[str, Declared]:
    """Return the rules of the gate by name."""
    return {each.name: each for each in declared_rules()}


@cache
def names() -> dict[str, str]:
    """Return the names of all rules by identifier, in the order of these."""
    gate = {each.identifier: each.name for each in gate_rules().values()}
    return dict(sorted((gate | {each.identifier: each.name for each in lint_rules()}).items()))


def severity_of(identifier: str) -> Severity:
    """Return how bad the findings of a rule are. What the gate refuses is an error."""
    return next((each.severity for each in lint_rules() if each.identifier == identifier), "error")


def chosen(select: Sequence[str] = (), ignore: Sequence[str] = ()) -> frozenset[str]:
    """Return the identifiers that are selected and not ignored: by identifier, prefix (`OL3`) or name.

    Where both name a rule, the longer one decides, as it does for ruff: `select=["OL301"], ignore=["OL3"]` leaves
    OL301. Without `select`, all rules are."""
    wanted = {each: _strength(each, select) if select else 1 for each in names()}
    unwanted = {each: _strength(each, ignore) for each in names()}
    for option, texts in (("select", select), ("ignore", ignore)):
        _check_known(option, texts)
    return frozenset(each for each in wanted if wanted[each] and wanted[each] > unwanted[each])


def _strength(identifier: str, texts: Iterable[str]) -> int:
    """Return how much of the identifier the longest of the texts names; at equal length, to ignore is stronger."""
    own = {names()[identifier], identifier}
    found = [
        len(identifier) if text in own else len(text) for text in texts if text in own or _is_prefix(text, identifier)
    ]
    return max(found, default=0)


def _is_prefix(text: str, identifier: str) -> bool:
    return text == "ALL" or (re.fullmatch(r"OL\d*", text) is not None and identifier.startswith(text))


def _check_known(option: str, texts: Iterable[str]) -> None:
    for text in texts:
        if text not in names().values() and not any(_is_prefix(text, each) for each in names()):
            raise OnnxLiftError(
                f"--{option} {text!r} names no rule: give identifiers or their beginnings, like OL301 or OL3, or a "
                "rule's name. docs/workbench/lint-rules.md lists them."
            )

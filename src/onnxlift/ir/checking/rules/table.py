"""All rules, and the findings of a model: every node that breaks a rule, with the reason."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Iterator
from functools import cache

import onnx_ir as ir

from onnxlift.errors import Finding
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.inference.node_view import Unknown

from . import __name__ as package
from . import __path__ as folder
from .rule import Rule, Subject


@cache
def rules() -> tuple[Rule, ...]:
    """Return every rule that a file of this folder declares, in the order of the files."""
    modules = (importlib.import_module(f"{package}.{found.name}") for found in pkgutil.iter_modules(folder))
    return tuple(item for module in modules for item in vars(module).values() if isinstance(item, Rule))


@cache
def _rules_for(op_type: str, domain: str, typed: bool) -> tuple[Rule, ...]:
    standard = domain == ""
    return tuple(
        each
        for each in rules()
        if each.typed is typed and (not each.operators or (standard and op_type in each.operators))
    )


def broken(model: ir.Model, *, typed: bool, told: Collection[ir.Node] = ()) -> Iterator[tuple[ir.Node, Finding]]:
    """Yield each node that breaks a rule, with what is wrong: of the rules that need types, or of the others.

    Nodes of which something was `told` already are left out: a rule on sizes relies on the attributes."""
    for region in regions(model):
        for node in region.graph:
            if node in told or not _rules_for(node.op_type, node.domain, typed):
                continue
            subject = Subject.of(model, region, node)
            for each, text in broken_by(subject, typed=typed):
                yield node, Finding(each.name, subject.place(), text)


def broken_by(subject: Subject, *, typed: bool) -> Iterator[tuple[Rule, str]]:
    """Yield each rule that one node breaks, with what is wrong: of the rules that need types, or of the others."""
    for each in _rules_for(subject.node.op_type, subject.node.domain, typed):
        if not _concerns(each, subject):
            continue
        try:
            texts = list(each.check(subject))
        except Unknown:
            continue
        for text in texts:
            yield each, text


def _concerns(each: Rule, subject: Subject) -> bool:
    """Tell whether a rule holds for this node: what is said of an operator does not hold for a function of its name."""
    if each.operators and subject.function is not None:
        return False
    return subject.always_runs or not each.about_sizes

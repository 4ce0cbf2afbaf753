"""Plan modules: decide which nodes each will have, before it is known how they are written.

A plan may still turn out to be no module (`modules/lowered_code.py`). Its code then becomes part of the module around
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from .paths import Path


@dataclass(eq=False)
class ModulePlan:
    """A module to be: its items (nodes, and plans inside it) in the order of execution, and the values that cross its
    border."""

    path: Path
    items: list[ir.Node | ModulePlan] = field(default_factory=list)
    class_hint: str | None = None
    called: bool = False
    inputs: list[ir.Value] = field(default_factory=list)
    outputs: list[ir.Value] = field(default_factory=list)
    parent: ModulePlan | None = None
    calls: list[ModulePlan] = field(default_factory=list)  # all calls of this module, itself too; none if called once
    is_step: bool = False  # True for code without weights that is a layer of a chain (`steps.py`)

    def nodes(self) -> Iterator[ir.Node]:
        """Yield all nodes inside, with those of its children, in order."""
        for item in self.items:
            if isinstance(item, ModulePlan):
                yield from item.nodes()
            else:
                yield item

    def children(self) -> list[ModulePlan]:
        return [item for item in self.items if isinstance(item, ModulePlan)]


def walk(plan: ModulePlan) -> Iterator[ModulePlan]:
    """Yield the plan and all plans inside it, an outer one before those in it."""
    yield plan
    for child in plan.children():
        yield from walk(child)


def moved_up(plan: ModulePlan) -> list[ir.Node | ModulePlan]:
    """Return the items of a plan that is dissolved, so that its parent can take them."""
    for child in plan.children():
        child.parent = plan.parent
    return plan.items


def homes(root: ModulePlan) -> dict[ir.Node, ModulePlan]:
    """Return the plan that each node is directly in."""
    return {item: plan for plan in walk(root) for item in plan.items if isinstance(item, ir.Node)}


def is_within(plan: ModulePlan | None, ancestor: ModulePlan) -> bool:
    """Tell whether `plan` is `ancestor`, or inside it."""
    while plan is not None and plan is not ancestor:
        plan = plan.parent
    return plan is not None


def child_around(plan: ModulePlan, ancestor: ModulePlan) -> ModulePlan:
    """Return the child of `ancestor` that `plan` is in; `plan` itself or the root if it is in none."""
    while plan.parent is not None and plan is not ancestor and plan.parent is not ancestor:
        plan = plan.parent
    return plan


def kind(plan: ModulePlan) -> object:
    """Return a key that is equal for modules of one class. If the class is not known, it is equal for modules whose
    paths differ only in numbers."""
    return plan.class_hint or tuple(part.rstrip("0123456789") for part in plan.path)

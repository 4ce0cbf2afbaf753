"""A module to be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from .scopes import Path


@dataclass(eq=False)
class Scope:
    """A module to be: its items in the order of execution, and the values that cross its border."""

    path: Path
    items: list[ir.Node | Scope] = field(default_factory=list)
    class_hint: str | None = None
    called: bool = False
    inputs: list[ir.Value] = field(default_factory=list)
    outputs: list[ir.Value] = field(default_factory=list)
    parent: Scope | None = None
    calls: list[Scope] = field(default_factory=list)  # of one module, this one among them; none if it is called once
    is_step: bool = False  # whether it is code without weights, which is a layer of a chain (`steps.py`)

    def nodes(self) -> Iterator[ir.Node]:
        """Yield all nodes inside, those of children included, in order."""
        for item in self.items:
            if isinstance(item, Scope):
                yield from item.nodes()
            else:
                yield item

    def children(self) -> list[Scope]:
        return [item for item in self.items if isinstance(item, Scope)]


def walk(scope: Scope) -> Iterator[Scope]:
    """Yield the scope and all inside it, an outer one before those in it."""
    yield scope
    for child in scope.children():
        yield from walk(child)


def moved_up(scope: Scope) -> list[ir.Node | Scope]:
    """Return the items of a scope that is to be none, for its parent to have them."""
    for child in scope.children():
        child.parent = scope.parent
    return scope.items


def homes(root: Scope) -> dict[ir.Node, Scope]:
    """Return the scope that each node is directly in."""
    return {item: scope for scope in walk(root) for item in scope.items if isinstance(item, ir.Node)}


def is_within(scope: Scope | None, ancestor: Scope) -> bool:
    """Tell whether `scope` is `ancestor`, or inside it."""
    while scope is not None and scope is not ancestor:
        scope = scope.parent
    return scope is not None


def child_around(scope: Scope, ancestor: Scope) -> Scope:
    """Return the child of `ancestor` that `scope` is in; `scope` itself or the root if it is in none."""
    while scope.parent is not None and scope is not ancestor and scope.parent is not ancestor:
        scope = scope.parent
    return scope


def kind(scope: Scope) -> object:
    """Return what is equal for modules of one class, and where that is not known for those whose names differ by
    numbers alone."""
    return scope.class_hint or tuple(part.rstrip("0123456789") for part in scope.path)

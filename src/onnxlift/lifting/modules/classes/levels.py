"""Order the modules for comparison: children before parents, relatives together.

Modules can only be of one class if they are compared with each other, and they can only be compared when the classes of
their children are known. So the modules of one family are on one level, above those of all their children. In some
models families contain each other (a block within a block of its own kind). Then other rules tell which modules are
related, each with fewer relatives than the one before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

from onnxlift.lifting.modules.module import Module

from .canonical import Canonical

_NUMBERS = re.compile(r"\d+([-_]\d+)*$")  # at the end of a name: `layer2`, `block2-1`
MOST_COMPARED = 16  # modules of a family that are compared with other families


def family_of(module: Module) -> object:
    """Return a key that is equal for modules that may be of one class: the exporter's class, or else the place
    (`layer1.0`, `layer2.1`). Return None for a module that has no relatives."""
    if module.sequential:
        return None
    if module.class_hint is not None:
        return module.class_hint
    place = tuple("#" if part.isdigit() else _NUMBERS.sub("", part) for part in module.path)
    return place if place != module.path else None


def levels(root: Module) -> list[list[Module]]:
    """Return all modules by levels, children before parents. Related modules are on one level."""
    structures = _Structures(root)
    relations: tuple[Callable[[Module], object], ...] = (
        structures.joined_family,
        structures.shared_structure,
        _own_family,
        lambda module: module,
    )
    for related in relations:
        with suppress(CycleError):  # families lie in each other: try the next rule
            return _by_height(root, related)
    raise AssertionError("a module lies in itself")


def _own_family(module: Module) -> object:
    """Return the key of a module's family, which may be the module alone."""
    return family_of(module) or module


def _by_height(root: Module, related: Callable[[Module], object]) -> list[list[Module]]:
    """Return the modules by height: the longest row of families below theirs. Raise CycleError if families lie in each
    other."""
    children: dict[object, set[object]] = {}
    for module in root.walk():
        children.setdefault(related(module), set()).update(related(child) for _, child in module.children())
    heights: dict[object, int] = {}
    for key in TopologicalSorter(children).static_order():
        heights[key] = 1 + max((heights[child] for child in children[key]), default=0)
    by_height: dict[int, list[Module]] = {}
    for module in root.walk():
        by_height.setdefault(heights[related(module)], []).append(module)
    return [by_height[height] for height in sorted(by_height)]


class _Structures:
    """The families that have modules of the same structure: equal members and forward up to numbers. `blocks.0.attn`
    and `mid_attn` may be equal, although their places do not tell.

    The first modules of a family stand for all. If the exporter names all classes, these are the families.
    """

    def __init__(self, root: Module) -> None:
        self._numbers: dict[object, int] = {}  # structure -> its number
        self._structure_of: dict[object, int] = {}  # module -> the number of its structure
        self._first_family: dict[int, object] = {}  # structure -> the first family that has it
        self._joined: dict[object, object] = {}  # family -> the one that it has joined
        self._structures_in: dict[object, set[int]] = {}  # family -> the structures in it
        self._shared: set[int] = set()  # structures that several families have
        if any(module.class_hint is None for module in root.walk()):
            known: Counter[object] = Counter()
            for module in root.walk():
                known[_own_family(module)] += 1
                if known[_own_family(module)] <= MOST_COMPARED:
                    self._add(module)

    def joined_family(self, module: Module) -> object:
        """Return one key for all modules of a family, and of all families that share a structure with it."""
        return self._top(_own_family(module))

    def shared_structure(self, module: Module) -> object:
        """Return one key for a structure that several families have, and one key for the rest of a family: in a list of
        all kinds, `layers.0` may be equal to `layers.1.conv`."""
        own = _own_family(module)
        in_family = self._structures_in.get(own, set())
        structure = self._structure_of.get(module, min(in_family) if len(in_family) == 1 else 0)
        return ("structure", structure) if structure in self._shared else own

    def _add(self, module: Module) -> None:
        members = [(p, self._structure_of.get(m) or getattr(m, "kind", "")) for p, m in module.members.items()]
        text = "" if module.sequential else Canonical(module, []).describe()
        key = (module.class_hint, module.sequential, tuple(members), text, module.class_key)
        structure = self._structure_of[module] = self._numbers.setdefault(key, len(self._numbers) + 1)
        if module.class_hint is None and not module.sequential:
            own = _own_family(module)
            family = self._top(own)
            self._structures_in.setdefault(own, set()).add(structure)
            first = self._top(self._first_family.setdefault(structure, family))
            if first != family:
                self._joined[family] = first
                self._shared.add(structure)

    def _top(self, family: object) -> object:
        while family in self._joined:
            family = self._joined[family]
        return family

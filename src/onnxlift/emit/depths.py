"""Lists of equal modules, however long: stages of different depth share a class.

    self.layers = nn.ModuleList(Layer(16) for _ in range(2))   ->   self.layers = nn.ModuleList(
    self.layers = nn.ModuleList(Layer(24) for _ in range(4))            Layer(dim) for _ in range(depth))

Applies to modules that are equal but for how many members such lists have. These members are of one class and made from
the same arguments in each list. Not to modules that differ in more, and not to a list of one member, which is called as
`self.layers[0]`. Sound because `forward` is the same text, which is right for each of the modules as it is: it goes
through a list of any length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .class_arguments import Number
from .module import Module, is_list

if TYPE_CHECKING:
    from .classes import ModuleClass

SHORTEST = 2


def equal_lists(module: Module, class_of: Mapping[int, ModuleClass]) -> dict[str, int]:
    """The lists of equal modules that a module holds, and how long they are."""
    lists: dict[str, dict[str, object]] = {}
    for path, member in module.members.items():
        lists.setdefault(path[0], {})[".".join(path[1:])] = member
    return {
        name: len(members)
        for name, members in lists.items()
        if len(members) >= SHORTEST and is_list({*members}) and _are_equal([*members.values()], class_of)
    }


def _are_equal(members: list[object], class_of: Mapping[int, ModuleClass]) -> bool:
    cls = class_of.get(id(members[0]))
    if cls is None:
        return False
    first = cls.arguments[id(members[0])]
    return all(class_of.get(id(each)) is cls and cls.arguments[id(each)] == first for each in members)


def depth(module: Module, name: str, length: int) -> Number:
    """The place where the length of a list stands."""
    return Number((module, f"depth of {name}"), "depth", length, (name, "0"))

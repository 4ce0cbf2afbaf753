"""Lists of equal modules, however long: stages of different depth share a class.

    self.layers = nn.ModuleList(Layer(16) for _ in range(2))   ->   self.layers = nn.ModuleList(
    self.layers = nn.ModuleList(Layer(24) for _ in range(4))            Layer(dim) for _ in range(depth))

    self.blocks = nn.Sequential(Block(16))                     ->   self.blocks = nn.Sequential(
    self.blocks = nn.Sequential(Block(24), Block(24))                   *(Block(dim) for _ in range(depth)))

Applies to modules that are equal but for how many members such lists have. These members are of one class and made from
the same arguments in each list. Not to modules that differ in more. An `nn.ModuleList` of one member is called as
`self.layers[0]`, and gone through like the others if there are any (`single_rounds.py`). Sound because `forward` is the
same text, which is right for each of the modules as it is: it goes through a list of any length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from onnxlift.lifting.modules.module import Module, is_list
from onnxlift.lifting.tree.paths import Path

from .number_groups import Number

if TYPE_CHECKING:
    from .classes import ModuleClass


def equal_lists(module: Module, class_of: Mapping[int, ModuleClass]) -> dict[str, int]:
    """The lists of equal modules that a module holds, and how long they are."""
    lists: dict[str, dict[str, object]] = {}
    chains: dict[str, list[Module]] = {}
    for path, member in module.members.items():
        if len(path) == 1 and isinstance(member, Module) and _is_plain_chain(member, class_of):
            chains[path[0]] = [child for _, child in member.children()]
        else:
            lists.setdefault(path[0], {})[".".join(path[1:])] = member
    lengths = {name: len(members) for name, members in chains.items() if _are_equal(members, class_of)}
    for name, members in lists.items():
        if is_list({*members}) and _are_equal([*members.values()], class_of):
            lengths[name] = len(members)
    return lengths


def first_of(member: object) -> Module:
    """The first module of a list of which `member` is the first entry, or the whole of an `nn.Sequential`."""
    assert isinstance(member, Module)
    return next(child for _, child in member.children()) if member.sequential else member


def _is_plain_chain(module: Module, class_of: Mapping[int, ModuleClass]) -> bool:
    """Whether it is an `nn.Sequential` of modules, without names for them or for itself."""
    is_chain = module.sequential and id(module) not in class_of and is_list({path[0] for path in module.members})
    return is_chain and all(isinstance(member, Module) for member in module.members.values())


def _are_equal(members: Sequence[object], class_of: Mapping[int, ModuleClass]) -> bool:
    cls = class_of.get(id(members[0]))
    if cls is None:
        return False
    first = cls.arguments[id(members[0])]
    return all(class_of.get(id(each)) is cls and cls.arguments[id(each)] == first for each in members)


def depth(module: Module, path: Path, length: int) -> Number:
    """The place where the length of a list stands whose first entry, or whole, is at `path`."""
    return Number((module, f"depth of {path[0]}"), "depth", length, path)

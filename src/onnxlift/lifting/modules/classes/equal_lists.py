"""Find lists of equal modules, however long, so that stages of different depth can share a class.

    self.layers = nn.ModuleList(Layer(16) for _ in range(2))   ->   self.layers = nn.ModuleList(
    self.layers = nn.ModuleList(Layer(24) for _ in range(4))            Layer(dim) for _ in range(depth))

    self.blocks = nn.Sequential(Block(16))                     ->   self.blocks = nn.Sequential(
    self.blocks = nn.Sequential(Block(24), Block(24))                   *(Block(dim) for _ in range(depth)))

Applies to modules that are equal except for the number of members in such lists. The members of each list are of one
class and made from the same arguments. Does not apply to modules that differ in more. An `nn.ModuleList` of one member
is called as `self.layers[0]`; if it has relatives with loops, it gets a loop, too (`single_iterations.py`). Sound
because `forward` is the same text, which is right for each of the modules as it is: it goes through a list of any
length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnxlift.lifting.modules.module import Module, Stored, is_list
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.paths import Path

from .module_class import ModuleClass
from .number_groups import Number

_DEPTH = "depth of "


def equal_lists(module: Module, class_of: Mapping[object, ModuleClass]) -> dict[str, int]:
    """Return the lists of equal modules that a module holds, each with its length."""
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
    """Return the first module of a list. `member` is the first entry of the list, or a whole `nn.Sequential`."""
    assert isinstance(member, Module)
    return next(child for _, child in member.children()) if member.sequential else member


def entries_of(module: Module, name: str) -> list[Layer | Stored | Module]:
    """Return the entries of a list that a module holds: those of the container, or of the `nn.Sequential`."""
    whole = module.members.get((name,))
    if isinstance(whole, Module) and whole.sequential:
        return [*whole.members.values()]
    return [member for path, member in module.members.items() if path[0] == name]


def _is_plain_chain(module: Module, class_of: Mapping[object, ModuleClass]) -> bool:
    """Tell whether this is an `nn.Sequential` of modules, without names for them or for itself."""
    is_chain = module.sequential and module not in class_of and is_list({path[0] for path in module.members})
    return is_chain and all(isinstance(member, Module) for member in module.members.values())


def _are_equal(members: Sequence[object], class_of: Mapping[object, ModuleClass]) -> bool:
    cls = class_of.get(members[0])
    if cls is None:
        return False
    arguments = [cls.arguments.get(each) for each in members if isinstance(each, Module)]
    return len(arguments) == len(members) and all(own is not None and own == arguments[0] for own in arguments)


def length_number(module: Module, path: Path, length: int) -> Number:
    """Return the length of a list as a number of the module. `path` is that of the first entry of the list, or of the
    whole list."""
    return Number((module, f"{_DEPTH}{path[0]}"), "depth", length, path)


def listed_names(numbers: Sequence[Number]) -> list[str]:
    """Return the names of the lists whose lengths are among these numbers. The other numbers tell only of their first
    entries."""
    wheres = [number.where for number in numbers]
    keys = [where[1] for where in wheres if isinstance(where, tuple) and isinstance(where[0], Module)]
    return [key.removeprefix(_DEPTH) for key in keys if key.startswith(_DEPTH)]

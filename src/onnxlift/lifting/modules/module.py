"""Hold a module of the generated source, before it is text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxlift.ir.graph.types import FLOATS
from onnxlift.lifting.code.identifiers import MODULE_ATTRIBUTES, is_attribute
from onnxlift.lifting.code.naming import Chosen
from onnxlift.lifting.code.render import quoted
from onnxlift.lifting.code.statements import Block
from onnxlift.lifting.ops.layers import Layer, Weight
from onnxlift.lifting.ops.operand import Operand
from onnxlift.lifting.tree.paths import DEEPEST, Path

# Names that a member of an `nn.ModuleDict` cannot have.
DICT_METHODS = frozenset({"clear", "items", "keys", "pop", "update", "values"})


@dataclass(eq=False)
class Stored:
    """A parameter or buffer that the module holds directly. A buffer that is not persistent is no part of the state
    dict."""

    weight: Weight
    is_parameter: bool
    persistent: bool = True


@dataclass(eq=False)
class Borrowed:
    """A parameter of a layer that the module reads itself: `self.embedding.weight`. `holders` are the modules on the
    way down to the layer, and the layer last."""

    holders: tuple[Module | Layer, ...]
    role: str


@dataclass(eq=False)
class Module:
    """One instance in the tree of modules.

    `members` maps attribute paths (`("layers", "0")` lies in a container) to layers, modules, parameters and buffers,
    in the order of first use. `inputs` are the values that `forward` takes, with the form in which they come. `sizes`
    are values that come as Python numbers from the call of another module. `optional` is the number of inputs, at the
    end, that a caller may leave out. `calls` is the number of times that its parent calls it. `class_key` is equal for
    modules that must be of one class, and no other module may have that class. `derived` is the layer that the module
    itself is, instead of holding it as a member.
    """

    path: Path
    class_hint: str | None = None
    inputs: dict[ir.Value, Operand] = field(default_factory=dict)
    outputs: list[ir.Value] = field(default_factory=list)
    sizes: set[ir.Value] = field(default_factory=set)
    optional: int = 0
    calls: int = 1
    class_key: str = ""
    members: dict[Path, Layer | Stored | Module] = field(default_factory=dict)
    body: Block = field(default_factory=Block)
    derived: Layer | None = None
    sequential: bool = False
    is_step: bool = False  # True for a layer without weights in an `nn.Sequential`
    chain: dict[str, Layer | Module] | None = None  # the members that it would have as an `nn.Sequential` with names
    reads_children: bool = False  # True if forward calls all members in a loop over `children()`
    of_iterations: set[object] = field(default_factory=set)  # values that stand for those of all iterations of a loop
    names_speak: bool = True  # True if the names of values come from a person, not from an exporter
    keys: dict[Path, str] = field(default_factory=dict)  # what the original calls the last part of a path, if not so
    layers: dict[tuple[object, ...], Layer] = field(default_factory=dict)
    constants: dict[object, Stored | Borrowed] = field(default_factory=dict)
    named: dict[object, Chosen] = field(default_factory=dict)  # the reasons for the names of members and constants
    _names: dict[object, Path] = field(default_factory=dict)
    _containers: set[Path] = field(default_factory=set)
    _numbers: dict[Path, int] = field(default_factory=dict)

    def add(self, path: Path, member: Layer | Stored | Module) -> None:
        self.members[path] = member
        self._names[member] = path
        self._containers.update(path[:i] for i in range(1, len(path)))

    def name(self, target: object, path: Path) -> None:
        """Set the path that `name_of` gives for something that is no member itself, but is made of members."""
        self._names[target] = path

    def free(self, path: Path) -> Path:
        """Return `path`, changed if it would hide another member or be hidden by it."""
        path = (path[0], *(f"{part}_" if part in DICT_METHODS else part for part in path[1:]))
        if any(path[:i] in self.members for i in range(1, len(path))):
            path = ("_".join(path),)  # its container cannot be made: a layer has that name already
        candidate = path
        while candidate in self.members or candidate in self._containers:
            number = self._numbers[path] = self._numbers.get(path, 0) + 1
            candidate = (*path[:-1], f"{path[-1].rstrip('_')}_{number}")
        return candidate

    def names(self, path: Path) -> Path:
        """Return the parts of a member's path as the state dict has them, and as far as possible the code."""
        return tuple(self.keys.get(path[: depth + 1], part) for depth, part in enumerate(path)) if self.keys else path

    @property
    def has_numbers(self) -> bool:
        """Tell whether members are called by mere numbers, as only members of a container can be."""
        return any(path[0][0].isdigit() for path in self.members)

    @property
    def base(self) -> str:
        """Return the class that it derives from: that of a layer or container if it is one, and otherwise
        `nn.Module`."""
        if self.derived is not None:
            return self.derived.constructor
        if self.sequential:
            return "nn.Sequential"
        if not self.has_numbers:
            return "nn.Module"
        given = {path[0] for path, member in self.members.items() if not isinstance(member, Stored)}
        stored = [path for path, member in self.members.items() if isinstance(member, Stored)]
        added = {path[0] for path in stored if len(path) > 1 and path[0].isdigit()}
        return container(given | added) if is_list(given) else "nn.ModuleDict"

    def name_of(self, target: object) -> Path:
        """Return the attribute path of one of the members."""
        return self._names[target]

    def stored_name(self, key: object) -> Path | None:
        """Return the attribute path of a constant that the module or one of its layers holds."""
        stored = self.constants.get(key)
        if isinstance(stored, Borrowed):
            owners = (self, *(holder for holder in stored.holders if isinstance(holder, Module)))
            steps = (owner.name_of(holder) for owner, holder in zip(owners, stored.holders, strict=True))
            return (*(part for step in steps for part in step), *stored.role.split("."))
        return None if stored is None else self._names[stored]

    def find_parameter(self, value: ir.Value) -> Borrowed | None:
        """Return the layer below this module that holds `value` as a parameter under the key that is the value's name;
        None if there is none."""
        parts = tuple((value.name or "").split("."))
        if parts[: len(self.path)] != self.path:
            return None
        holders: list[Module | Layer] = []
        within, parts = self, parts[len(self.path) :]
        while True:
            steps = ((end, within.members.get(parts[:end])) for end in range(1, min(len(parts), DEEPEST)))
            end, member = next(((end, found) for end, found in steps if found is not None), (0, None))
            if member is None or isinstance(member, Stored):
                return None
            holders.append(member)
            parts = parts[end:]
            if isinstance(member, Layer):
                role = ".".join(parts)
                weight = member.weights.get(role)
                is_it = weight is not None and weight.value is value and weight.transform is None
                return Borrowed(tuple(holders), role) if is_it else None
            within = member

    def children(self) -> Iterator[tuple[Path, Module]]:
        for path, member in self.members.items():
            if isinstance(member, Module):
                yield path, member

    def walk(self) -> Iterator[Module]:
        """Yield this module and all below it, children first."""
        for _, child in self.children():
            yield from child.walk()
        yield self


def container(names: set[str]) -> str:
    """Return the class of a container whose members have these names."""
    return "nn.ModuleList" if is_list(names) else "nn.ModuleDict"


def is_list(names: set[str]) -> bool:
    """Tell whether the names are 0, 1, 2, ... without a gap, like those of a list's members."""
    return names == {str(i) for i in range(len(names))}


def indexed_containers(module: Module) -> frozenset[Path]:
    """Return the containers in a module that are indexed by number: each `nn.ModuleList`, and the module itself if it
    is one or a numbered `nn.Sequential`."""
    if module.sequential and module.has_numbers:
        return frozenset({()})
    names: dict[Path, set[str]] = {}
    if module.base == "nn.ModuleList":
        names[()] = set()
    for path in module.members:
        for depth in range(1, len(path)):
            names.setdefault(path[:depth], set()).add(path[depth])
    return frozenset(path for path, inner in names.items() if is_list(inner))


def reach(path: Path, module: Module, indexed: frozenset[Path] | None = None, start: str = "self") -> str:
    """Write the way from a module to a member, or to a tensor below it: `self.layers[0].attn.weight`. `indexed` are the
    containers in the module that are indexed by number."""
    text, rest = start, path
    while rest:
        ends = range(1, len(rest) + 1)
        own = next((rest[:end] for end in ends if rest[:end] in module.members), rest)
        text = _way(text, own, module, indexed_containers(module) if indexed is None else indexed)
        member, rest, indexed = module.members.get(own), rest[len(own) :], None
        if not isinstance(member, Module):
            return ".".join((text, *rest))
        module = member
    return text


def _way(text: str, path: Path, module: Module, indexed: frozenset[Path]) -> str:
    """Write the way from a module, written as `text`, to one of its own members. Numbers stand in brackets: plain in
    the containers of `indexed`, and with quotes in others. So do names that no attribute can have; the module itself
    has methods to ask for these."""
    for depth, part in enumerate(path):
        name = module.keys.get(path[: depth + 1])
        if name is None and part[0].isdigit():
            text += f"[{part}]" if path[:depth] in indexed else f'["{part}"]'
        elif name is None:
            text += f".{part}"
        elif is_attribute(name):
            text += f".{name}"
        elif depth:
            text += f"[{quoted(name)}]"
        elif name in MODULE_ATTRIBUTES:
            text = f"dict({text}.named_children())[{quoted(name)}]"
        else:
            member = module.members.get(path[: depth + 1])
            kind = "submodule"
            if isinstance(member, Stored):
                kind = "parameter" if member.is_parameter else "buffer"
            text += f".get_{kind}({quoted(name)})"
    return text


def is_table(path: Path, member: Layer | Stored | Module) -> bool:
    """Tell whether the only member of a container is a table of which no row is looked up: `positions.weight`. It is
    written as the embedding that it was."""
    return path == ("weight",) and isinstance(member, Stored) and len(member.weight.shape) == 2


@dataclass(frozen=True)
class Entry:
    """One tensor of the state dict, or a constant (a buffer that is not persistent). `layer` is the identity of the
    layer that holds it."""

    weight: Weight
    is_parameter: bool
    persistent: bool = True
    layer: tuple[object, ...] = ()


def state_entries(module: Module, prefix: Path = ()) -> Iterator[tuple[str, Entry]]:
    """Yield the tensors of the state dict and the constants with their keys, in the order of the modules."""
    own = {} if module.derived is None else {(): module.derived}
    inside = Counter(path[:end] for path in module.members for end in range(len(path)))
    for path, member in (own | module.members).items():
        full = prefix + module.names(path)
        if isinstance(member, Module):
            yield from state_entries(member, full)
        elif isinstance(member, Stored):
            is_alone = inside[path[:-1]] == 1 and len(path) > 1
            layer = (member.weight.value,) if is_alone and is_table(path[-1:], member) else ()
            yield ".".join(full), Entry(member.weight, member.is_parameter, member.persistent, layer)
        else:
            for name, weight in member.weights.items():
                is_trained = name not in member.buffers and weight.value.dtype in FLOATS
                yield ".".join((*full, name)), Entry(weight, is_trained, layer=member.identity)


def state_paths(module: Module, prefix: Path = (), keys: Path = ()) -> dict[str, Path]:
    """Return the way to each tensor of the state dict through the members, by its key."""
    own = {} if module.derived is None else {(): module.derived}
    found: dict[str, Path] = {}
    for path, member in (own | module.members).items():
        full, names = prefix + path, keys + module.names(path)
        if isinstance(member, Module):
            found |= state_paths(member, full, names)
        elif isinstance(member, Stored):
            found[".".join(names)] = full
        else:
            found |= {".".join((*names, name)): (*full, *name.split(".")) for name in member.weights}
    return found

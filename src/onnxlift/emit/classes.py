"""One class for equal modules.

Two modules are equal if their members and their forward are the same up to numbers: sizes, strides, epsilons. The
numbers in which the instances of a class differ become arguments of its constructor; those that always agree with one
another become one argument. Classes are found from the leaves up, so that equal children have one class already when
their parents are compared. Modules for which the exporter names different classes are never merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..code.expr import Expr, Literal, Local, Member, Ref
from ..code.render import Renderer
from ..code.statements import (
    Assign,
    Block,
    Break,
    Evaluate,
    ForLoop,
    Return,
    Statement,
    WhileLoop,
    With,
    blocks,
    expressions,
)
from ..ops.layers import Layer
from ..ops.operand import Tensor
from .module import Module, Stored

FEWEST_CHAINS, SHORTEST_CHAIN = 3, 4
SMALLEST_ARGUMENT = 4  # integers below this in an expression are axes and the like: part of what the code says


@dataclass(eq=False)
class Number:
    """One place in a module where a number stands: an argument of a layer, or a literal in `forward`."""

    where: object  # the Literal itself, or (layer or child module, argument name)
    role: str
    value: Any


@dataclass(eq=False)
class ModuleClass:
    """A class of the generated source. `example` is the instance that it is written from; `parameters` maps each
    constructor argument to the places of the example's numbers that it stands for."""

    name: str
    example: Module
    instances: list[Module] = field(default_factory=list)
    parameters: dict[str, list[Number]] = field(default_factory=dict)
    arguments: dict[int, dict[str, Any]] = field(default_factory=dict)  # id(instance) -> argument values

    # What variables of forward are called, by position: its parameters and results, and how callers name arguments.
    parameter_names: dict[int, str] = field(default_factory=dict)
    result_names: dict[int, str] = field(default_factory=dict)
    called_with: dict[int, str] = field(default_factory=dict)


def find_classes(root: Module) -> tuple[list[ModuleClass], dict[int, ModuleClass]]:
    """The classes in the order in which they are to be written (leaves first), and the class of each module by id."""
    class_of: dict[int, ModuleClass] = {}
    found: list[ModuleClass] = []
    heights: dict[int, list[Module]] = {}
    for module in root.walk():
        heights.setdefault(_height(module), []).append(module)
    for height in sorted(heights):
        groups: dict[object, list[Module]] = {}
        numbers: dict[int, list[Number]] = {}
        for module in heights[height]:
            key, numbers[id(module)] = _describe(module, class_of)
            groups.setdefault(key, []).append(module)
        for instances in groups.values():
            if instances[0].sequential and instances[0] is not root and not _is_recurring(instances):
                continue
            cls = ModuleClass("", instances[0], instances)
            _find_parameters(cls, numbers)
            found.append(cls)
            class_of.update((id(module), cls) for module in instances)
    return found, class_of


def _is_recurring(chains: list[Module]) -> bool:
    """Whether an `nn.Sequential` is long enough, and there often enough, to be a class rather than be written out."""
    return len(chains) >= FEWEST_CHAINS and len(chains[0].members) >= SHORTEST_CHAIN


def _height(module: Module) -> int:
    return 1 + max((_height(child) for _, child in module.children()), default=0)


def _describe(module: Module, class_of: dict[int, ModuleClass]) -> tuple[object, list[Number]]:
    """What a module is but for its numbers, and the numbers."""
    numbers: list[Number] = []
    members = [(path, _describe_member(m, class_of, numbers)) for path, m in module.members.items()]
    text = "" if module.sequential else _Canonical(module, numbers).describe()
    return (module.class_hint, module.sequential, tuple(members), text), numbers


def _describe_member(
    member: Layer | Stored | Module, class_of: dict[int, ModuleClass], numbers: list[Number]
) -> tuple[Any, ...]:
    match member:
        case Module() if id(member) not in class_of:
            inner = [(p, _describe_member(m, class_of, numbers)) for p, m in member.members.items()]
            return ("Sequential", tuple(inner))
        case Module():
            cls = class_of[id(member)]
            for name, value in cls.arguments[id(member)].items():
                numbers.append(Number((member, name), name, value))
            return (id(cls),)
        case Stored():
            for axis, size in enumerate(member.weight.shape):
                numbers.append(Number((member, str(axis)), "dim", size))
            return (member.is_parameter, len(member.weight.shape), member.weight.value.dtype)
    switches = []
    for name, value in member.complete_arguments().items():
        if isinstance(value, bool) or value is None or isinstance(value, str):
            switches.append((name, value))
        else:
            numbers.append(Number((member, name), name, value))
    return (member.kind, tuple(switches), tuple(member.weights))


class _Canonical:
    """The text of a forward in which every variable has a number for its name, and every number is a hole."""

    def __init__(self, module: Module, numbers: list[Number]) -> None:
        self.module = module
        self.numbers = numbers
        self.variables: dict[object, str] = {}
        self.renderer = _Holes(self.name, numbers)

    def describe(self) -> str:
        inputs = [f"{self.variable(v)}:{isinstance(o, Tensor)}" for v, o in self.module.inputs.items()]
        return "\n".join([",".join(inputs), *self.lines(self.module.body, "")])

    def lines(self, block: Block, indent: str) -> Iterator[str]:
        for statement in block.statements:
            yield indent + self.head(statement)
            for inner in blocks(statement):
                yield from self.lines(inner, indent + " ")
                yield indent + "-"

    def head(self, statement: Statement) -> str:
        texts = [self.renderer.text(e) for e in expressions(statement)]
        if isinstance(statement, Assign):
            return f"{','.join('_' if t is None else self.name(t) for t in statement.targets)}={texts[0]}"
        if isinstance(statement, ForLoop):
            return f"for {','.join('_' if t is None else self.name(t) for t in statement.targets)} in {texts[0]}"
        words = {Return: "return", Evaluate: "do", WhileLoop: "while", With: "with", Break: "break"}
        return " ".join([words.get(type(statement), "if"), *texts])

    def name(self, leaf: Expr) -> str:
        match leaf:
            case Ref():
                return self.variable(leaf._key)
            case Local():
                return self.variable(leaf)
            case Member():
                return "self." + ".".join(self.module.name_of(leaf._target))
        return "device"

    def variable(self, key: object) -> str:
        stored = self.module.stored_name(key)
        if stored is not None:
            return "self." + ".".join(stored)
        return self.variables.setdefault(key, f"v{len(self.variables)}")


class _Holes(Renderer):
    def __init__(self, name_of: Any, numbers: list[Number]) -> None:
        super().__init__(name_of)
        self._numbers = numbers

    def _render(self, expr: Expr) -> tuple[str, int]:
        if isinstance(expr, Literal) and _is_argument(expr._value):
            self._numbers.append(Number(expr, "size" if isinstance(expr._value, int) else "scale", expr._value))
            return "#", 13
        return super()._render(expr)


def _is_argument(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, int) and abs(value) >= SMALLEST_ARGUMENT)


def _find_parameters(cls: ModuleClass, numbers: dict[int, list[Number]]) -> None:
    example = numbers[id(cls.example)]
    groups: dict[tuple[str, ...], list[int]] = {}
    for place in range(len(example)):
        column = tuple(repr(numbers[id(m)][place].value) for m in cls.instances)  # by text: NaN is equal to NaN
        if len(set(column)) > 1:
            groups.setdefault(column, []).append(place)
    taken = {path[0] for path in cls.example.members}  # `self.scale` can be the argument or the member, not both
    for places in groups.values():
        group = [example[place] for place in places]
        name = _parameter_name(group, taken)
        taken.add(name)
        cls.parameters[name] = group
        for instance in cls.instances:
            cls.arguments.setdefault(id(instance), {})[name] = numbers[id(instance)][places[0]].value
    for instance in cls.instances:
        cls.arguments.setdefault(id(instance), {})


_TOGETHER: Sequence[tuple[frozenset[str], str]] = (
    (frozenset({"in_channels", "out_channels", "num_features", "num_channels", "channels"}), "channels"),
    (
        frozenset(
            {"in_features", "out_features", "normalized_shape", "embedding_dim", "dim", "input_size", "hidden_size"}
        ),
        "dim",
    ),
)
_SHORT = {"num_features": "channels", "normalized_shape": "dim", "in_features": "in_dim", "out_features": "out_dim"}


def _parameter_name(group: list[Number], taken: set[str]) -> str:
    """A telling name: the role of the places, or the general word if the places have several roles."""
    roles = [number.role for number in group]
    name = roles[0]
    if len(set(roles)) > 1:
        specific = [r for r in roles if r not in ("size", "scale", "shape")]
        name = specific[0] if specific else name
        for words, word in _TOGETHER:
            if len(words.intersection(specific)) > 1 and words.issuperset(set(specific) - {"groups"}):
                name = word
    if name not in taken:
        return name
    if name in ("channels", "dim") and f"hidden_{name}" not in taken:
        return f"hidden_{name}"
    short = _SHORT.get(name, name)
    number = 2
    while f"{short}{number}" in taken:
        number += 1
    return short if short not in taken else f"{short}{number}"

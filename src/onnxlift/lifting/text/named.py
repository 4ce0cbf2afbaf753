"""Collect every name in the generated source with its reason: classes, their arguments and members, the variables of
forward.

The reasons were noted in words while the names were chosen (`lifting/code/naming.py`). Here they are put beside the
places of the names, and beside the ONNX values and nodes that the names stand for. This costs nothing until somebody
asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.lifting.code.expr import variable
from onnxlift.lifting.code.naming import NUMBERED, Candidate, Chosen, ChosenName
from onnxlift.lifting.code.statements import Assign
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.ops.layers import Layer

from .write import ClassWriter

VARIABLE, MEMBER, ARGUMENT, CLASS, METHOD = "variable", "member", "argument", "class", "method"
_PLACED = Candidate("", "its place in the list or chain that holds it")
_FLAG = Candidate("", "it tells whether a part is there, or what it is")


@dataclass(frozen=True)
class NamedThing:
    """Something that has a name in the source: its kind, its place, the name with its reason, the ONNX values and nodes
    that it stands for, and the index of the statement (in the order of the text) that writes it."""

    kind: str
    where: str
    name: ChosenName
    values: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    statement: int | None = None

    @property
    def spellings(self) -> set[str]:
        """The names under which somebody may ask for it: `layers.0.attn` is also `attn`, and may be
        `Model.layers.0.attn`."""
        text = self.name.text
        owner = self.where.partition(".")[0]
        return {text, text.rpartition(".")[2], f"self.{text}"} | ({f"{owner}.{text}"} if owner else set())


def named_things(writers: Iterable[ClassWriter], *, with_others: bool = False) -> Iterator[NamedThing]:
    """Yield all names of the source, class by class. `with_others` adds the values and nodes behind variables, and the
    candidates that lost."""
    for writer in writers:
        yield _class(writer)
        yield from _arguments(writer)
        yield from _members(writer)
        yield from (NamedThing(METHOD, writer.cls.name, ChosenName(m.name, m.why)) for m in writer.methods)
        if not writer.module.sequential:
            yield from _variables(writer, with_others)


def _class(writer: ClassWriter) -> NamedThing:
    instances = tuple(".".join(instance.path) for instance in writer.cls.instances if instance.path)
    name = _explained(writer.cls.named, writer.cls.name, _PLACED)
    return NamedThing(CLASS, "", name, values=instances)


def _arguments(writer: ClassWriter) -> Iterator[NamedThing]:
    constructor = writer.cls.constructor
    for text in dict.fromkeys((*constructor.values, *constructor.variables, *constructor.attributes)):
        name = _explained(constructor.named.get(text), text, _FLAG)
        yield NamedThing(ARGUMENT, f"{writer.cls.name}.__init__", name)


def _members(writer: ClassWriter) -> Iterator[NamedThing]:
    for path, member in writer.module.members.items():
        chosen = writer.module.named.get(member.weight.value if isinstance(member, Stored) else member)
        name = _explained(chosen, ".".join(path), _PLACED)
        values = tuple(value.name or "" for value in _weights(member))
        nodes = (member.node.name or "",) if isinstance(member, Layer) and member.node is not None else ()
        yield NamedThing(MEMBER, writer.cls.name, name, values, nodes)


def _weights(member: Layer | Stored | Module) -> list[ir.Value]:
    if isinstance(member, Stored):
        return [member.weight.value]
    return [weight.value for weight in member.weights.values()] if isinstance(member, Layer) else []


def _variables(writer: ClassWriter, with_others: bool) -> Iterator[NamedThing]:
    variables, where = writer.variables, f"{writer.cls.name}.forward"
    explained = variables.explain() if with_others else None
    for key, text in variables.names.items():
        if explained is None:  # the source map wants no values here: it has them by statement
            won = variables.won[key]
            yield NamedThing(VARIABLE, where, ChosenName(text, won, change="" if won.name == text else NUMBERED))
        elif key in writer.module.inputs:
            yield NamedThing(VARIABLE, where, explained[key], tuple(_passed(writer, key)))
        else:
            yield _written(writer, key, explained[key])


def _written(writer: ClassWriter, key: object, name: ChosenName) -> NamedThing:
    """Return a variable that a statement writes, with the values that it holds in all instances of the class."""
    statement = writer.variables.lives[key].statement
    origin = None if statement is None else writer.origins.of(statement)
    values: tuple[str, ...] = (key.name or "",) if isinstance(key, ir.Value) else ()
    if isinstance(statement, Assign) and origin is not None:
        place = [variable(target) for target in statement.targets].index(key)
        values = tuple(_at(place, (names for _, names in origin.values))) or values
    nodes = () if origin is None else origin.nodes
    index = None if statement is None else writer.places_in_text.get(statement)
    function = "forward" if statement is None else writer.method_of.get(statement, "forward")
    return NamedThing(VARIABLE, f"{writer.cls.name}.{function}", name, values, nodes, index)


def _passed(writer: ClassWriter, key: object) -> Iterator[str]:
    """Yield the values that the instances take as one parameter."""
    place = list(writer.module.inputs).index(key) if isinstance(key, ir.Value) else 0
    return _at(place, ([value.name for value in instance.inputs] for instance in writer.cls.instances))


def _at(place: int, rows: Iterable[Sequence[str | None]]) -> Iterator[str]:
    for row in rows:
        name = row[place] if place < len(row) else None
        if name:
            yield name


def _explained(chosen: Chosen | None, text: str, otherwise: Candidate) -> ChosenName:
    """Return the reason why something is called `text`. It says so if the thing was renamed after its name was
    chosen."""
    if chosen is None:
        return ChosenName(text, otherwise)
    name = chosen.explain(text)
    if name.change or text == name.won.name:
        return name
    return ChosenName(text, name.won, name.lost, f"`{name.won.name}` at first, then changed for its place")

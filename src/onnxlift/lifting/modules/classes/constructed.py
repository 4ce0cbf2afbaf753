"""Find the instances of a class that its constructor would not make as they are.

    Stage(48), Stage(96)     stages.0 has Block(48), Block(48), and stages.1 has Block(96), Block(64)
    self.blocks = nn.Sequential(Block(dim), Block(dim))     ->     stages.1 needs a class of its own

A class is written from one example. Each of its numbers is a literal there, or an expression of the arguments. For
every other instance, the expressions are computed with its arguments, and compared with the numbers that it has: with
those of its members, and with those in its `forward`. So modules never share a class by mistake, whatever the steps
before thought of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnxlift.lifting.code.arithmetic import compute
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.ops.layers import Layer

from .class_arguments import Arguments
from .descriptions import describe_member, made_in_a_loop
from .equal_lists import entries_of, listed_names
from .module_class import ModuleClass
from .number_groups import ABSENT, Number
from .variants import Form

_SELF = "self."
_OPEN = "-1"  # a size that follows from the others when the code runs


def wrong_instances(form: Form, arguments: Arguments, class_of: Mapping[object, ModuleClass]) -> list[Module]:
    """Return the modules of a form that a constructor with these arguments would make otherwise than they are."""
    example, *others = form.modules
    if not others:
        return []
    places, columns = form.columns()
    wrong: list[Module] = []
    for index, module in enumerate(form.modules):
        told = _Told(arguments, index)
        numbers = zip(places, (column[index] for column in columns), strict=True)
        pairs = ((place, value) for place, value in numbers if value is not ABSENT)
        gone: set[object] = {part.member for part in form.absent.get(module, ())}
        if not (told.all_agree(pairs) and told.all_agree(_members(example, module, gone, form, class_of))):
            wrong.append(module)
    return wrong


class _Told:
    """The numbers that an instance would have, as told by the constructor and its arguments."""

    def __init__(self, arguments: Arguments, index: int) -> None:
        self.arguments = arguments
        self.names = {name: column[index] for name, column in arguments.values.items()}
        for name, text in arguments.variables.items():
            self.names[name] = compute(text, self.names)

    def all_agree(self, pairs: Iterable[tuple[Number, object] | None]) -> bool:
        """Tell whether the text for each place gives the number there. None stands for places that do not match."""
        return all(pair is not None and self._agrees(*pair) for pair in pairs)

    def _agrees(self, place: Number, value: object) -> bool:
        text = self.arguments.texts.get(place.where)
        if text is None:
            return repr(place.value) == repr(value)
        if text == _OPEN:
            return True
        found = self._compute(text)
        found = -found if place.negated and isinstance(found, int | float) else found
        return repr(found) == repr(value)

    def _compute(self, text: str) -> object:
        """Return the value of a text in the constructor, or of one in `forward`, which reads attributes."""
        if _SELF not in text:
            return compute(text, self.names)
        attributes = {
            name: compute(own, self.names) for name, own in self.arguments.attributes.items() if _SELF + name in text
        }
        return compute(text.replace(_SELF, ""), attributes)


def _members(
    example: Module, module: Module, gone: set[object], form: Form, class_of: Mapping[object, ModuleClass]
) -> Iterator[tuple[Number, object] | None]:
    """Yield the places for numbers in the members of the example, each with the number of an instance; None where both
    do not have the same members. Entries of a list are all made like the first."""
    if made_in_a_loop(example, class_of) is not None:
        return  # its numbers are places of their own
    listed = listed_names(form.numbers[example])
    for path, member in example.members.items():
        if path in gone or path[0] in listed:
            continue
        other = module.members.get(path)
        yield from [None] if other is None else _pairs([member], [other], class_of)
    for name in listed:
        entries = entries_of(module, name)
        yield from _pairs(entries_of(example, name)[:1] * len(entries), entries, class_of)


def _pairs(
    members: Sequence[Layer | Stored | Module],
    others: Sequence[Layer | Stored | Module],
    class_of: Mapping[object, ModuleClass],
) -> Iterator[tuple[Number, object] | None]:
    """Yield the places for numbers in some members, each with the number of its counterpart; None where two are not
    alike."""
    for member, other in zip(members, others, strict=True):
        places: list[Number] = []
        numbers: list[Number] = []
        is_alike = describe_member(member, class_of, places) == describe_member(other, class_of, numbers)
        if not is_alike or len(places) != len(numbers):
            yield None
        else:
            yield from ((place, number.value) for place, number in zip(places, numbers, strict=True))

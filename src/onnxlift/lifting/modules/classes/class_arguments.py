"""Find the arguments of a class: the numbers in which its instances differ, with their names.

    conv1 8 -> 8, conv2 8 -> 8; conv1 8 -> 16, conv2 16 -> 16     ->     (in_channels, channels)

Numbers that always agree become one argument, if they measure the same kind of thing (`number_groups.py`): if a kernel
is as large as there are channels, that is chance. A number that follows from an argument is computed from it
(`derived_numbers.py`). If it is needed often, it becomes a variable of the constructor, or an attribute if `forward`
needs it. The width of a head follows from the number of heads: it is written as -1.

Two widths may tell whether an optional part is there (`part_conditions.py`). If not, that is an argument of its own.
Arguments stand in the order that `nn.Conv2d` has: widths from the outside in, then windows, then arguments with a
default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnxlift.lifting.code.naming import Chosen

from .argument_names import choose_argument, numbered
from .derived_numbers import Derivation, derive, sides_of_windows
from .number_groups import (
    ABSENT,
    DEFAULTS,
    SIZES,
    Group,
    Number,
    ends_of,
    group_numbers,
)
from .part_conditions import KnownNumbers, condition_for

OFTEN = 1 / 3  # the share of instances for a default
FEWEST_USES = 3  # uses for which a number that is computed from an argument gets a variable
FEWEST_USES_BESIDE_FORWARD = 2  # the same for one that is also an attribute: the line that sets it is one more use


@dataclass
class Arguments:
    """The arguments of a constructor, and the texts that it has for the numbers of the example."""

    values: dict[str, list[Any]] = field(default_factory=dict)  # name -> value for each instance
    defaults: dict[str, Any] = field(default_factory=dict)
    texts: dict[object, str] = field(default_factory=dict)  # `where` of a number -> expression: `dim`, `4 * dim`
    variables: dict[str, str] = field(default_factory=dict)  # of the constructor: `hidden` -> `4 * dim`
    attributes: dict[str, str] = field(default_factory=dict)  # that forward reads -> their text in the constructor
    members: set[str] = field(default_factory=set)  # names of members
    named: dict[str, Chosen] = field(default_factory=dict)  # the reasons for the names of arguments and variables

    def taken(self, group: Group) -> set[str]:
        """Return the names that an argument for these places cannot have. If `forward` reads it, it cannot have the
        name of a member: `self.scale` is one or the other."""
        return self.values.keys() | self.variables.keys() | (self.members if group.uses_in_forward else set())

    def attribute(self, place: object, role: str) -> str:
        """Write the number at a place as `forward` reads it: from an attribute, which the constructor sets."""
        text = self.texts[place]
        for name, known in self.attributes.items():
            if known == text:
                return f"self.{name}"
        name = text
        if not text.isidentifier() or text in self.members:
            name = numbered(role, self.members | self.values.keys() | self.attributes.keys())
        self.attributes[name] = text
        return f"self.{name}"


def find_arguments(example: Sequence[Number], columns: Sequence[Sequence[Any]], members: set[str]) -> Arguments | None:
    """Return the arguments for places with these values in the instances. A value is ABSENT if an instance lacks the
    part. `members` are the names of members.

    Return None if an optional part needs a number that instances without it do not have.
    """
    inferred = _widths_of_heads(example, columns)
    said = [(number, column) for number, column in zip(example, columns, strict=True) if number not in inferred]
    groups = group_numbers([number for number, _ in said], [column for _, column in said])
    if groups is None:
        return None
    groups += sides_of_windows(groups)
    ends = ends_of(example)
    derived = derive(groups, ends)
    arguments = Arguments(members=set(members))
    # A name that is taken gets a number. So the names that callers see are chosen first. Flags come last, since their
    # conditions need the names of other arguments.
    _add_arguments(arguments, [g for g in groups if g not in derived and g.family != "flag"], ends)
    _add_derived(arguments, [g for g in groups if g in derived], derived, ends)
    _add_flags(arguments, KnownNumbers(groups, example, columns))
    _write_places(arguments, groups, derived)
    arguments.texts |= {number.where: "-1" for number in inferred}
    _find_defaults(arguments, groups)
    return arguments


def _widths_of_heads(example: Sequence[Number], columns: Sequence[Sequence[Any]]) -> dict[Number, None]:
    """Find the places in `unflatten(-1, (heads, head_dim))` for the width of a head, if that or the number of heads
    differs. If both numbers are equal in every instance, an image is cut into rows and columns, and there are no
    heads."""
    heads: dict[object, list[Any]] = {}
    found: dict[Number, None] = {}
    for number, column in zip(example, columns, strict=True):
        values = [value for value in column if value is not ABSENT]
        if number.role == "heads":
            heads[number.home] = values
        elif number.role == "head_dim" and number.in_forward:
            others = heads.get(number.home)
            if others is not None and others != values and len({*zip(others, values, strict=True)}) > 1:
                found[number] = None
    return found


def _name(group: Group, arguments: Arguments, ends: Sequence[Number]) -> str:
    """Return a free name for the numbers of a group."""
    is_end = any(end in group.places for end in ends)
    name, arguments.named[name] = choose_argument(group.roles, arguments.taken(group), is_end)
    return name


def _add_arguments(arguments: Arguments, groups: Sequence[Group], ends: Sequence[Number]) -> None:
    """Let the constructor take the numbers of these groups."""
    for group in groups:
        group.text = _name(group, arguments, ends)
        arguments.values[group.text] = group.column


def _add_derived(
    arguments: Arguments, groups: Sequence[Group], derived: Mapping[Group, Derivation], ends: Sequence[Number]
) -> None:
    """Write these groups as computed from their base, or as a variable of the constructor, if that reads better."""
    for group in groups:
        group.text = derived[group].text(derived[group].base.text)
        if _deserves_variable(group, arguments):
            name = _name(group, arguments, ends)
            arguments.variables[name] = group.text
            group.text = name


def _deserves_variable(group: Group, arguments: Arguments) -> bool:
    """Tell whether the constructor needs a computed number often, or as a positional argument among names:
    `nn.Conv2d(3, 8, 7, stride, padding)`."""
    is_positional = group.family == "padding" and "stride" in arguments.values
    in_forward = group.uses_in_forward  # forward reads an attribute instead
    fewest = FEWEST_USES_BESIDE_FORWARD if in_forward else FEWEST_USES
    return is_positional or len(group.places) - in_forward >= fewest


def _add_flags(arguments: Arguments, numbers: KnownNumbers) -> None:
    """Write a condition on other arguments that tells whether an optional part is there. If there is none, add an
    argument that tells it."""
    for group in numbers.groups:
        if group.family == "flag":
            group.text = condition_for(group, numbers)
            if not group.text:
                group.text = numbered(group.places[0].role, arguments.taken(group))
                arguments.values[group.text] = group.column


def _write_places(arguments: Arguments, groups: Sequence[Group], derived: Mapping[Group, Derivation]) -> None:
    """Choose the text for each place of the groups: in the constructor the argument, in `forward` an attribute. The
    places of arguments come first, since derived numbers can be written with those."""
    for group in sorted(groups, key=lambda group: group in derived):
        derivation = derived.get(group)
        computed = None  # the text if forward computes the number itself, from an attribute
        if derivation is not None and group.uses_in_forward < FEWEST_USES:
            base = derivation.base.text
            computed = derivation.text(f"self.{base}") if base in arguments.attributes else None
        for place in group.places:
            arguments.texts[place.where] = group.text
            if place.in_forward:
                role = next((role for role in group.roles if role != "size"), place.role)
                text = arguments.attribute(place.where, role) if computed is None else computed
                arguments.texts[place.where] = _negative(text) if place.negated else text


def _negative(text: str) -> str:
    return f"-({text})" if " " in text else f"-{text}"


def _find_defaults(arguments: Arguments, groups: Sequence[Group]) -> None:
    """Give an argument PyTorch's own default, if its values often are that; arguments with a default come last. A flag
    for an optional part has the value of most instances as its default."""
    roles = {group.text: group.places[0].role for group in groups}
    for name, column in arguments.values.items():
        usual = 2 * sum(column) > len(column) if isinstance(column[0], bool) else DEFAULTS.get(roles[name])
        if usual is not None and sum(value == usual for value in column) > OFTEN * len(column):
            arguments.defaults[name] = usual
    rank = {group.text: _rank(group) for group in groups}
    order = sorted(arguments.values, key=lambda name: (name in arguments.defaults, rank[name]))
    arguments.values = {name: arguments.values[name] for name in order}


def _rank(group: Group) -> int:
    """Return the number by which the argument is sorted among the others."""
    if group.family == "flag":
        return 6
    if group.family != "width":
        return 4
    if group.text == "groups":
        return 5
    if SIZES.issuperset(group.roles):
        return 3
    return 0 if group.text.startswith("in_") else 2 if group.text == "hidden" else 1

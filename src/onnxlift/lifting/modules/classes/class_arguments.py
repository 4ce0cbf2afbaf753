"""The arguments of a class: which numbers its instances differ in, and what those are called.

    conv1 8 -> 8, conv2 8 -> 8; conv1 8 -> 16, conv2 16 -> 16     ->     (in_channels, channels)
    Linear(8, 32), Linear(12, 48)                                 ->     nn.Linear(dim, 4 * dim)

Numbers that always agree become one argument, if they measure the same kind of thing: that a kernel is as large as
there are channels is chance. A number that is always the same multiple of an argument is written as that, and a padding
as half of its kernel or a multiple of its dilation, a size also as the square of another; where it is needed often, it
is a variable of the constructor, or an attribute if `forward` needs it. How wide a head is follows from how many there
are: it is -1.
Whether an optional part is there may follow from two widths (`in_channels != channels`), or from one and what always
comes out (`in_channels != 32`); if not, it is an argument of its own. Arguments stand in the order that `nn.Conv2d`
has: widths from the outside in, then windows, then what has a default.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onnxlift.lifting.code.expr import Literal
from onnxlift.lifting.code.naming import Chosen

from .argument_names import choose_argument, numbered
from .number_groups import (
    ABSENT,
    DEFAULTS,
    LARGEST_FACTOR,
    LENGTHS,
    MOST_COMPARED,
    SIZES,
    Group,
    Number,
    are_integers,
    ends_of,
    family_of,
    group_numbers,
    is_of_layers,
    place_of,
)

OFTEN = 1 / 3  # of the instances
FEWEST_USES = 3  # of a number that is computed from an argument, for a variable of its own
FEWEST_USES_BESIDE_FORWARD = 2  # of one that is an attribute, too: that line has it as well


@dataclass
class Arguments:
    """What the constructor takes, and how the example's numbers are written with it."""

    values: dict[str, list[Any]] = field(default_factory=dict)  # name -> value for each instance
    defaults: dict[str, Any] = field(default_factory=dict)
    texts: dict[object, str] = field(default_factory=dict)  # place -> expression: `dim`, `4 * dim`
    variables: dict[str, str] = field(default_factory=dict)  # of the constructor: `hidden` -> `4 * dim`
    attributes: dict[str, str] = field(default_factory=dict)  # what forward reads, and what it is in the constructor
    taken: set[str] = field(default_factory=set)  # names of members
    named: dict[str, Chosen] = field(default_factory=dict)  # why arguments and variables are called so

    def names_for(self, places: Sequence[Number]) -> set[str]:
        """The names that an argument for these places can't have: `self.scale` is either the argument or a member."""
        in_forward = any(isinstance(place.where, Literal) for place in places)
        return self.values.keys() | self.variables.keys() | (self.taken if in_forward else set())

    def attribute(self, place: object, role: str) -> str:
        """How `forward` reads the number at a place: from an attribute, which the constructor sets."""
        text = self.texts[place]
        for name, known in self.attributes.items():
            if known == text:
                return f"self.{name}"
        name = text
        if not text.isidentifier() or text in self.taken:
            name = numbered(role, self.taken | self.values.keys() | self.attributes.keys())
        self.attributes[name] = text
        return f"self.{name}"

    def find_defaults(self, groups: Sequence[Group]) -> None:
        """Let arguments that often are what PyTorch's own default is have that default, and stand last. Parts are
        optional, unless most have them."""
        family = {group.text: group.places[0].role for group in groups}
        for name, column in self.values.items():
            usual = 2 * sum(column) > len(column) if isinstance(column[0], bool) else DEFAULTS.get(family[name])
            if usual is not None and sum(value == usual for value in column) > OFTEN * len(column):
                self.defaults[name] = usual
        rank = {group.text: _rank(group) for group in groups}
        self.values = dict(sorted(self.values.items(), key=lambda item: (item[0] in self.defaults, rank[item[0]])))


def find_arguments(example: Sequence[Number], columns: Sequence[Sequence[Any]], taken: set[str]) -> Arguments | None:
    """The arguments for places with these values in the instances (ABSENT where an instance lacks the part); None if an
    optional part needs a number that instances without it do not have. `taken` are the names of members."""
    rest = _widths_of_heads(example, columns)
    unsaid = {id(number) for number in rest}
    said = [(number, column) for number, column in zip(example, columns, strict=True) if id(number) not in unsaid]
    groups = group_numbers([number for number, _ in said], [column for _, column in said])
    if groups is None:
        return None
    ends = ends_of(example)
    groups += _sides(groups)
    derived = _derive(groups, ends)
    arguments = Arguments(taken=set(taken))
    for group in groups:
        if group.family == "flag" or id(group) in derived:
            continue
        group.text = _name(group, arguments, ends)
        arguments.values[group.text] = group.column
    for group in groups:
        if id(group) in derived:
            base, form = derived[id(group)]
            group.text = form.format(base.text)
            by_position = (
                group.family == "padding" and "stride" in arguments.values
            )  # nn.Conv2d(3, 8, 7, stride, padding)
            in_forward = sum(isinstance(place.where, Literal) for place in group.places)  # there it is an attribute
            fewest = FEWEST_USES_BESIDE_FORWARD if in_forward else FEWEST_USES
            if len(group.places) - in_forward >= fewest or by_position:
                name = _name(group, arguments, ends)
                arguments.variables[name] = group.text
                group.text = name
    for group in groups:
        if group.family == "flag":
            group.text = _condition(group, groups) or _unlike_result(group, groups, example, columns)
            if not group.text:
                group.text = numbered(group.places[0].role, arguments.names_for(group.places))
                arguments.values[group.text] = group.column
    for group in sorted(groups, key=lambda group: id(group) in derived):
        base, form = derived.get(id(group), (group, ""))
        uses = sum(isinstance(place.where, Literal) for place in group.places)
        is_short = bool(form) and base.text in arguments.attributes and uses < FEWEST_USES
        for place in group.places:
            arguments.texts[place_of(place)] = group.text
            if isinstance(place.where, Literal):
                role = next((role for role in group.roles if role != "size"), place.role)
                text = form.format(f"self.{base.text}") if is_short else arguments.attribute(place_of(place), role)
                arguments.texts[place_of(place)] = _negative(text) if place.negated else text
    arguments.texts |= {place_of(number): "-1" for number in rest}
    arguments.find_defaults(groups)
    return arguments


def _negative(text: str) -> str:
    return f"-({text})" if " " in text else f"-{text}"


def _widths_of_heads(example: Sequence[Number], columns: Sequence[Sequence[Any]]) -> list[Number]:
    """The places in `unflatten(-1, (heads, head_dim))` for the width of a head, where that or the number of heads
    differs. Not where both are always the same: that is an image, cut into rows and columns."""
    heads: dict[object, list[Any]] = {}
    found: list[Number] = []
    for number, column in zip(example, columns, strict=True):
        values = [value for value in column if value is not ABSENT]
        if number.role == "heads":
            heads[number.home] = values
        elif number.role == "head_dim" and isinstance(number.where, Literal):
            others = heads.get(number.home)
            if others is not None and others != values and len({*zip(others, values, strict=True)}) > 1:
                found.append(number)
    return found


def _name(group: Group, arguments: Arguments, ends: Sequence[Number]) -> str:
    is_end = any(end in group.places for end in ends)
    name, arguments.named[name] = choose_argument(group.roles, arguments.names_for(group.places), is_end)
    return name


def _derive(groups: list[Group], ends: Sequence[Number]) -> dict[int, tuple[Group, str]]:
    """For each group that is a multiple of another one, that one and the form: `4 * {}`. What comes into a block and
    what goes out of it are what others are multiples of."""
    derived: dict[int, tuple[Group, str]] = {}
    widths = [g for g in groups if g.family == "width" and are_integers(g) and is_of_layers(g)]
    outer = [group for end in ends for group in widths if end in group.places]
    bases: list[Group] = []
    for group in dict.fromkeys((*outer, *widths[:MOST_COMPARED])):
        for base in bases:
            form = _multiple(group.column, base.column)
            if form:
                derived[id(group)] = (base, form)
                break
        else:
            bases.append(group)
    sizes = [g for g in groups if are_integers(g) and LENGTHS.issuperset(g.roles)][:MOST_COMPARED]
    sizes.sort(key=lambda group: sum(group.column))
    for index, group in enumerate(sizes):
        for base in (size for size in sizes[:index] if id(size) not in derived):
            form = _multiple(group.column, base.column) or _square(group.column, base.column)
            if form and id(group) not in derived:
                derived[id(group)] = (base, form)
    for group in (g for g in groups if are_integers(g) and set(g.roles) == {"offsets"}):
        for base in (size for size in sizes if id(size) not in derived and id(group) not in derived):
            if [_offsets(size) for size in base.column] == group.column:
                derived[id(group)] = (base, "(2 * {} - 1) ** 2")
    windows = [group for group in groups if group.family == "window" and are_integers(group)]
    dilations = [group for group in groups if group.family == "dilation" and are_integers(group)]
    for group in (g for g in groups if g.family == "padding" and are_integers(g)):
        for base in windows:
            if [size // 2 for size in base.column] == group.column:
                derived[id(group)] = (base, "{} // 2")
        for base in dilations:
            form = "{}" if group.column == base.column else _multiple(group.column, base.column)
            if form:
                derived.setdefault(id(group), (base, form))
    return derived


def _sides(groups: list[Group]) -> list[Group]:
    """The side of a square window, if there are numbers for its area and for the offsets between two places in it."""
    offsets = [g.column for g in groups if are_integers(g) and set(g.roles) == {"offsets"}]
    for area in groups:
        if offsets and are_integers(area) and set(area.roles) == {"length"}:
            sides = [math.isqrt(size) for size in area.column]
            known = any(group.column == sides for group in groups if SIZES.issuperset(group.roles))
            if not known and [s * s for s in sides] == area.column and [_offsets(s) for s in sides] in offsets:
                return [Group("width", sides, [Number((area, "side"), "size", sides[0])])]
    return []


def _offsets(side: int) -> int:
    """How many places there are, seen from another one, in a square window."""
    return int((2 * side - 1) ** 2)


def _multiple(column: list[int], base: list[int]) -> str:
    """How the numbers of a column are written with those of another, if it always is the same multiple or part."""
    for factor in range(2, LARGEST_FACTOR + 1):
        if [factor * width for width in base] == column:
            return f"{factor} * {{}}"
        if [factor * width for width in column] == base:
            return f"{{}} // {factor}"
    return ""


def _square(column: list[int], base: list[int]) -> str:
    return "{} ** 2" if [size**2 for size in base] == column else ""


def _condition(flag: Group, groups: list[Group]) -> str:
    """`in_channels != channels` or `shift > 0`, if that tells whether the part is there; else nothing. That an image is
    as high as there are channels is chance."""
    widths = [group for group in groups if group.family == "width" and is_of_layers(group)][:MOST_COMPARED]
    for index, first in enumerate(widths):
        for second in widths[index + 1 :]:
            for sign, equal in (("!=", False), ("==", True)):
                columns = zip(first.column, second.column, flag.column, strict=True)
                if all((a == b) is (there is equal) for a, b, there in columns):
                    return f"{first.text} {sign} {second.text}"
    for group in groups[:MOST_COMPARED]:
        if group.family == "shift" and [shift > 0 for shift in group.column] == flag.column:
            return f"{group.text} > 0"
    return ""


def _unlike_result(
    flag: Group, groups: list[Group], example: Sequence[Number], columns: Sequence[Sequence[Any]]
) -> str:
    """`in_channels != 32`, if that tells whether the part is there, of which 32 channels always come out."""
    part = flag.places[0].where[0] if isinstance(flag.places[0].where, tuple) else None
    member = getattr(part, "member", None)
    pairs = zip(example, columns, strict=True)
    widths = [(n, c) for n, c in pairs if n.home == member and family_of(n.role) == "width" and n.role != "groups"]
    results = {value for value in widths[-1][1] if value is not ABSENT} if member is not None and widths else set()
    for group in groups if len(results) == 1 else ():
        (result,) = results
        if widths[0][0] in group.places and [width != result for width in group.column] == flag.column:
            return f"{group.text} != {result}"
    return ""


def _rank(group: Group) -> int:
    """Where the argument stands among the others."""
    if group.family == "flag":
        return 6
    if group.family != "width":
        return 4
    if group.text == "groups":
        return 5
    if SIZES.issuperset(group.roles):
        return 3
    return 0 if group.text.startswith("in_") else 2 if group.text == "hidden" else 1

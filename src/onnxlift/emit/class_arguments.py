"""The arguments of a class: which numbers its instances differ in, and what those are called.

    conv1 8 -> 8, conv2 8 -> 8; conv1 8 -> 16, conv2 16 -> 16     ->     (in_channels, channels)
    Linear(8, 32), Linear(12, 48)                                 ->     nn.Linear(dim, 4 * dim)

Numbers that always agree become one argument, if they measure the same kind of thing: that a kernel is as large as
there are channels is chance. A number that is always the same multiple of an argument is written as that, and a padding
as half of its kernel or a multiple of its dilation, a size also as the square of another; where it is needed often, it
is a variable of the constructor, or an attribute if `forward` needs it. How wide a head is follows from how many there
are: it is -1.
Whether an optional part is there may follow from two widths (`in_channels != channels`); if not, it is an argument of
its own. Arguments stand in the order that `nn.Conv2d` has: widths from the outside in, then windows, then what has a
default.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..code.expr import Literal
from .argument_names import argument_name, numbered

LARGEST_FACTOR = 8
FEWEST_USES = 3  # of a number that is computed from an argument, for a variable of its own
MOST_COMPARED = 40  # widths of one class: each is compared with all others


class Absent:
    """Stands for a number in an instance that lacks the part where it is."""


ABSENT = Absent()


@dataclass(frozen=True)
class LayerClass:
    """Stands for a number where instances differ in the activation that they have: `nn.ReLU`."""

    name: str


@dataclass(eq=False)
class Number:
    """One place in a module where a number stands: an argument of a layer, or a literal in `forward`; or where an
    activation does."""

    where: object  # the Literal itself, or (layer or child module or optional part, argument name)
    role: str
    value: Any
    home: object = None  # the path of the member, or the id of the statement, that it is in
    negated: bool = False  # whether the literal is the number with a minus before it


@dataclass
class Arguments:
    """What the constructor takes, and how the example's numbers are written with it."""

    values: dict[str, list[Any]] = field(default_factory=dict)  # name -> value for each instance
    defaults: dict[str, Any] = field(default_factory=dict)
    texts: dict[object, str] = field(default_factory=dict)  # place -> expression: `dim`, `4 * dim`
    variables: dict[str, str] = field(default_factory=dict)  # of the constructor: `hidden` -> `4 * dim`
    attributes: dict[str, str] = field(default_factory=dict)  # what forward reads, and what it is in the constructor
    taken: set[str] = field(default_factory=set)  # names of members

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
        name = text if text.isidentifier() else numbered(role, self.taken | self.values.keys() | self.attributes.keys())
        self.attributes[name] = text
        return f"self.{name}"

    def find_defaults(self, groups: Sequence[_Group]) -> None:
        """Let arguments that mostly are what PyTorch's own defaults are have that default, and stand last. Parts are
        optional, unless most have them."""
        family = {group.text: group.places[0].role for group in groups}
        for name, column in self.values.items():
            usual = 2 * sum(column) > len(column) if isinstance(column[0], bool) else _DEFAULTS.get(family[name])
            if usual is not None and 2 * sum(value == usual for value in column) >= len(column):
                self.defaults[name] = usual
        rank = {group.text: _rank(group) for group in groups}
        self.values = dict(sorted(self.values.items(), key=lambda item: (item[0] in self.defaults, rank[item[0]])))


_DEFAULTS = {"stride": 1, "groups": 1, "dilation": 1}


@dataclass(eq=False)
class _Group:
    """Places whose numbers agree in every instance."""

    family: str
    column: list[Any]
    places: list[Number]
    text: str = ""

    @property
    def roles(self) -> list[str]:
        return [place.role for place in self.places]


_WIDTHS = frozenset(
    """in_channels out_channels num_features num_channels channels in_features out_features normalized_shape
    embedding_dim dim in_dim out_dim input_size hidden_size groups size start hidden length heads head_dim""".split()
)
_LENGTHS = frozenset({"size", "start", "length"})
_SIZES = _LENGTHS | {"heads", "head_dim"}  # of which layers' widths are no multiples
_MEASURES = frozenset({"padding", "window", "dilation", "shift", "repeats"})  # that may be what a length is


def _family(role: str) -> str:
    """What kind of thing a number measures."""
    stem = role.rstrip("0123456789")
    if stem in _WIDTHS or stem.startswith(("in_", "out_")):
        return "width"
    return "window" if stem in ("kernel_size", "kernel", "stride") else stem


def place_of(number: Number) -> object:
    """The key of a number's place: by identity, since equal layers stand in many places."""
    return (id(number.where[0]), number.where[1]) if isinstance(number.where, tuple) else id(number.where)


def find_arguments(example: Sequence[Number], columns: Sequence[Sequence[Any]], taken: set[str]) -> Arguments | None:
    """The arguments for places with these values in the instances (ABSENT where an instance lacks the part); None if an
    optional part needs a number that instances without it do not have. `taken` are the names of members."""
    rest = _widths_of_heads(example, columns)
    unsaid = {id(number) for number in rest}
    said = [(number, column) for number, column in zip(example, columns, strict=True) if id(number) not in unsaid]
    groups = _group([number for number, _ in said], [column for _, column in said])
    if groups is None:
        return None
    ends = _ends(example)
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
            in_forward = any(isinstance(place.where, Literal) for place in group.places)  # then it is an attribute
            if (len(group.places) >= FEWEST_USES and not in_forward) or by_position:
                name = _name(group, arguments, ends)
                arguments.variables[name] = group.text
                group.text = name
    for group in groups:
        if group.family == "flag":
            group.text = _condition(group, groups)
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


def _name(group: _Group, arguments: Arguments, ends: Sequence[Number]) -> str:
    is_end = any(end in group.places for end in ends)
    return argument_name(group.roles, arguments.names_for(group.places), is_end)


def _group(example: Sequence[Number], columns: Sequence[Sequence[Any]]) -> list[_Group] | None:
    groups: dict[tuple[str, tuple[str, ...]], _Group] = {}
    partial: list[tuple[Number, Sequence[Any]]] = []
    for number, column in zip(example, columns, strict=True):
        texts = tuple(repr(value) for value in column)  # by text: NaN is equal to NaN
        if any(value is ABSENT for value in column):
            partial.append((number, column))
        elif len(set(texts)) > 1:
            family = "flag" if isinstance(number.value, bool) else _family(number.role)
            groups.setdefault((family, texts), _Group(family, list(column), [])).places.append(number)
    found = _with_lengths([*groups.values()])
    for number, column in partial:
        group = _fitting(number, column, found)
        if group is None and len({repr(value) for value in column if value is not ABSENT}) > 1:
            group = _completed(number, column, partial, found)
            if group is None:
                return None
            found.append(group)
        if group is not None:
            group.places.append(number)
    for group in found:
        if {"heads", "head_dim"} <= {*group.roles}:  # as many rows as columns: an image is cut, not heads
            for number in group.places:
                number.role = "size"
    position = {id(number): index for index, number in enumerate(example)}
    return sorted(found, key=lambda group: position[id(group.places[0])])


def _with_lengths(groups: list[_Group]) -> list[_Group]:
    """The groups, with lengths among those that they are: what is cut off is as long as what a layer has added."""
    measures = {tuple(g.column): g for g in reversed(groups) if g.family in _MEASURES and _are_integers(g)}
    found: list[_Group] = []
    for group in groups:
        is_length = _LENGTHS.issuperset(group.roles) and _are_integers(group)
        same = measures.get(tuple(group.column)) if is_length else None
        if same is None:
            found.append(group)
        else:
            same.places += group.places
    return found


def _completed(
    number: Number, column: Sequence[Any], partial: Sequence[tuple[Number, Sequence[Any]]], groups: list[_Group]
) -> _Group | None:
    """A group for a width of an optional part. Where the part is missing, its input is passed on as its output, and so
    is as wide as that; other widths are known if they are always the same multiple of one that is."""
    part = [(n, c) for n, c in partial if n.home == number.home and n.role != "groups"]
    widths = [(n, c) for n, c in part if _family(n.role) == "width"]
    if not any(n is number for n, _ in widths):
        return None
    result = _fitting(*widths[-1], groups) or _multiplied(widths[-1][1], groups)
    if number is widths[0][0] and result is not None:
        return _Group("width", [b if a is ABSENT else a for a, b in zip(column, result.column, strict=True)], [])
    return _multiplied(column, groups)


def _multiplied(column: Sequence[Any], groups: list[_Group]) -> _Group | None:
    """A group for widths that are the same multiple of known ones of layers, wherever there are any."""
    there = [index for index, value in enumerate(column) if value is not ABSENT]
    for base in [g for g in groups if g.family == "width" and _are_integers(g) and _is_of_layers(g)][:MOST_COMPARED]:
        for factor in range(2, LARGEST_FACTOR + 1):
            if all(column[index] == factor * base.column[index] for index in there):
                return _Group("width", [factor * width for width in base.column], [])
    return None


def _fitting(number: Number, column: Sequence[Any], groups: list[_Group]) -> _Group | None:
    """The group whose numbers a place in an optional part has, where it is there: of its own role, if there is one."""
    fits = [
        group
        for group in groups
        if group.family == _family(number.role)
        and all(a is ABSENT or repr(a) == repr(b) for a, b in zip(column, group.column, strict=True))
    ]
    same_role = [group for group in fits if any(place.role == number.role for place in group.places)]
    return next(iter(same_role or fits), None)


def _ends(example: Sequence[Number]) -> list[Number]:
    """The widths of what comes into the first layer and of what goes out of the last one."""
    outside_forward = (n for n in example if not isinstance(n.where, Literal))
    widths = [n for n in outside_forward if _family(n.role) == "width" and n.role != "groups"]
    return [*widths[:1], *widths[-1:]]


def _derive(groups: list[_Group], ends: Sequence[Number]) -> dict[int, tuple[_Group, str]]:
    """For each group that is a multiple of another one, that one and the form: `4 * {}`. What comes into a block and
    what goes out of it are what others are multiples of."""
    derived: dict[int, tuple[_Group, str]] = {}
    widths = [g for g in groups if g.family == "width" and _are_integers(g) and _is_of_layers(g)]
    outer = [group for end in ends for group in widths if end in group.places]
    bases: list[_Group] = []
    for group in dict.fromkeys((*outer, *widths[:MOST_COMPARED])):
        for base in bases:
            form = _multiple(group.column, base.column)
            if form:
                derived[id(group)] = (base, form)
                break
        else:
            bases.append(group)
    sizes = [g for g in groups if _are_integers(g) and _LENGTHS.issuperset(g.roles)][:MOST_COMPARED]
    sizes.sort(key=lambda group: sum(group.column))
    for index, group in enumerate(sizes):
        for base in (size for size in sizes[:index] if id(size) not in derived):
            form = _multiple(group.column, base.column) or _square(group.column, base.column)
            if form and id(group) not in derived:
                derived[id(group)] = (base, form)
    for group in (g for g in groups if _are_integers(g) and set(g.roles) == {"offsets"}):
        for base in (size for size in sizes if id(size) not in derived and id(group) not in derived):
            if [_offsets(size) for size in base.column] == group.column:
                derived[id(group)] = (base, "(2 * {} - 1) ** 2")
    windows = [group for group in groups if group.family == "window" and _are_integers(group)]
    dilations = [group for group in groups if group.family == "dilation" and _are_integers(group)]
    for group in (g for g in groups if g.family == "padding" and _are_integers(g)):
        for base in windows:
            if [size // 2 for size in base.column] == group.column:
                derived[id(group)] = (base, "{} // 2")
        for base in dilations:
            form = "{}" if group.column == base.column else _multiple(group.column, base.column)
            if form:
                derived.setdefault(id(group), (base, form))
    return derived


def _sides(groups: list[_Group]) -> list[_Group]:
    """The side of a square window, if there are numbers for its area and for the offsets between two places in it."""
    offsets = [g.column for g in groups if _are_integers(g) and set(g.roles) == {"offsets"}]
    for area in groups:
        if offsets and _are_integers(area) and set(area.roles) == {"length"}:
            sides = [math.isqrt(size) for size in area.column]
            known = any(group.column == sides for group in groups if _SIZES.issuperset(group.roles))
            if not known and [s * s for s in sides] == area.column and [_offsets(s) for s in sides] in offsets:
                return [_Group("width", sides, [Number((area, "side"), "size", sides[0])])]
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


def _are_integers(group: _Group) -> bool:
    return all(type(value) is int for value in group.column)


def _condition(flag: _Group, groups: list[_Group]) -> str:
    """`in_channels != channels` or `shift > 0`, if that tells whether the part is there; else nothing. That an image is
    as high as there are channels is chance."""
    widths = [group for group in groups if group.family == "width" and _is_of_layers(group)][:MOST_COMPARED]
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


def _is_of_layers(group: _Group) -> bool:
    """Whether it is the width of a layer, and not only a size of what is computed."""
    return not _SIZES.issuperset(group.roles)


def _rank(group: _Group) -> int:
    """Where the argument stands among the others."""
    if group.family == "flag":
        return 6
    if group.family != "width":
        return 4
    if group.text == "groups":
        return 5
    if _SIZES.issuperset(group.roles):
        return 3
    return 0 if group.text.startswith("in_") else 2 if group.text == "hidden" else 1

"""Group the numbers in which the instances of a class differ: numbers that are always equal are one group.

Numbers are in one group only if they measure the same kind of thing: if a kernel is as large as there are channels,
that is chance. A length in `forward` joins the padding or window that it is always equal to, since code cuts off what a
layer has added. A number of an optional part joins a group if it is equal in all instances that have the part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onnxlift.lifting.code.expr import Literal

LARGEST_FACTOR = 8
MOST_COMPARED = 40  # widths of one class: each is compared with all others
DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}  # of layers


class Absent:
    """A stand-in for a number in an instance that lacks the part with it."""


ABSENT = Absent()


@dataclass(frozen=True)
class LayerClass:
    """A stand-in for a number, if instances differ in the activation that they have: `nn.ReLU`."""

    name: str


@dataclass(eq=False)
class Number:
    """One place in a module for a number: an argument of a layer, or a literal in `forward`. The class of an activation
    counts, too."""

    where: object  # the Literal itself, or (layer or child module or optional part, argument name): a key by identity
    role: str
    value: Any
    home: object = None  # the path of the member, or the statement, that it is in
    negated: bool = False  # True if the literal is the number with a minus before it

    @property
    def in_forward(self) -> bool:
        """Tell whether it is a literal in `forward`."""
        return isinstance(self.where, Literal)


@dataclass(eq=False)
class Group:
    """Places whose numbers agree in every instance."""

    family: str
    column: list[Any]
    places: list[Number]
    text: str = ""

    @property
    def roles(self) -> list[str]:
        """Return what the numbers measure, place by place."""
        return [place.role for place in self.places]

    @property
    def uses_in_forward(self) -> int:
        """Count the places in `forward`."""
        return sum(place.in_forward for place in self.places)


_WIDTHS = frozenset(
    """in_channels out_channels num_features num_channels channels in_features out_features normalized_shape
    embedding_dim dim in_dim out_dim input_size hidden_size groups size start hidden length heads head_dim""".split()
)
LENGTHS = frozenset({"size", "start", "length"})
SIZES = LENGTHS | {"heads", "head_dim"}  # a layer's width is never written as a multiple of these
_MEASURES = frozenset({"padding", "window", "dilation", "shift", "repeats"})  # a length may be equal to one of these


def family_of(role: str) -> str:
    """Return the kind of thing that a number measures."""
    stem = role.rstrip("0123456789")
    if stem in _WIDTHS or stem.startswith(("in_", "out_")):
        return "width"
    return "window" if stem in ("kernel_size", "kernel", "stride") else stem


def is_of_layers(group: Group) -> bool:
    """Tell whether it is the width of a layer, and not only a size in the computation."""
    return not SIZES.issuperset(group.roles)


def are_integers(group: Group) -> bool:
    return all(type(value) is int for value in group.column)


def group_numbers(example: Sequence[Number], columns: Sequence[Sequence[Any]]) -> list[Group] | None:
    """Return the groups of places whose numbers differ between the instances, in the order of the example.

    Return None if an optional part needs a number that instances without it do not have.
    """
    groups: dict[tuple[str, tuple[str, ...]], Group] = {}
    partial: list[tuple[Number, Sequence[Any]]] = []
    for number, column in zip(example, columns, strict=True):
        texts = tuple(repr(value) for value in column)  # by text: NaN is equal to NaN
        if any(value is ABSENT for value in column):
            partial.append((number, column))
        elif len(set(texts)) > 1:
            family = "flag" if isinstance(number.value, bool) else family_of(number.role)
            groups.setdefault((family, texts), Group(family, list(column), [])).places.append(number)
    found = _with_lengths([*groups.values()])
    for number, column in partial:
        values = {repr(value) for value in column if value is not ABSENT}
        if values == {repr(DEFAULTS.get(number.role))}:
            continue  # a layer's own default, which need not be written
        group = _fitting(number, column, found)
        if group is None and len(values) > 1:
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
    position = {number: index for index, number in enumerate(example)}
    return sorted(found, key=lambda group: position[group.places[0]])


def _with_lengths(groups: list[Group]) -> list[Group]:
    """Join each length to the padding or window that it is always equal to, and return all groups. The code cuts off
    what a layer has added, so both have the same size."""
    measures = {tuple(g.column): g for g in reversed(groups) if g.family in _MEASURES and are_integers(g)}
    found: list[Group] = []
    for group in groups:
        is_length = LENGTHS.issuperset(group.roles) and are_integers(group)
        same = measures.get(tuple(group.column)) if is_length else None
        if same is None:
            found.append(group)
        else:
            same.places += group.places
    return found


def _completed(
    number: Number, column: Sequence[Any], partial: Sequence[tuple[Number, Sequence[Any]]], groups: list[Group]
) -> Group | None:
    """Return a group for a width of an optional part, with values for the instances that lack the part; None if these
    are not known.

    Without the part, the input is passed on as the output, so the first width is that of the result. Other widths are
    known if they are always the same multiple of a known one, lengths if they are the square of a known one.
    """
    part = [(n, c) for n, c in partial if n.home == number.home and n.role != "groups"]
    widths = [(n, c) for n, c in part if family_of(n.role) == "width"]
    if not any(n is number for n, _ in widths):
        return None
    squared = _squared(column, groups) if number.role in LENGTHS else None
    if squared is not None:
        return squared
    result = _fitting(*widths[-1], groups) or _multiplied(widths[-1][1], groups)
    if number is widths[0][0] and result is not None:
        return Group("width", [b if a is ABSENT else a for a, b in zip(column, result.column, strict=True)], [])
    return _multiplied(column, groups)


def _multiplied(column: Sequence[Any], groups: list[Group]) -> Group | None:
    """Return a group for widths that are the same multiple of a layer's known widths, in all instances that have
    them."""
    there = [index for index, value in enumerate(column) if value is not ABSENT]
    for base in [g for g in groups if g.family == "width" and are_integers(g) and is_of_layers(g)][:MOST_COMPARED]:
        for factor in range(2, LARGEST_FACTOR + 1):
            if all(column[index] == factor * base.column[index] for index in there):
                return Group("width", [factor * width for width in base.column], [])
    return None


def _squared(column: Sequence[Any], groups: list[Group]) -> Group | None:
    """Return a group for the squares of a known length, in all instances that have them: an image of `size` by `size`
    windows has that many masks."""
    for base in [g for g in groups if are_integers(g) and LENGTHS.issuperset(g.roles)][:MOST_COMPARED]:
        if all(value is ABSENT or value == side**2 for value, side in zip(column, base.column, strict=True)):
            return Group("width", [side**2 for side in base.column], [])
    return None


def _fitting(number: Number, column: Sequence[Any], groups: list[Group]) -> Group | None:
    """Return a group that agrees with a place in an optional part, in all instances that have the part. A group with
    the same role is preferred."""
    fits = [
        group
        for group in groups
        if group.family == family_of(number.role)
        and all(a is ABSENT or repr(a) == repr(b) for a, b in zip(column, group.column, strict=True))
    ]
    same_role = [group for group in fits if any(place.role == number.role for place in group.places)]
    return next(iter(same_role or fits), None)


def ends_of(example: Sequence[Number]) -> list[Number]:
    """Return the width of the first layer's input and that of the last layer's output. A width that a member has only
    inside is none of these."""
    outside_forward = (n for n in example if not n.in_forward)
    widths = [n for n in outside_forward if family_of(n.role) == "width" and n.role not in ("groups", "hidden")]
    return [*widths[:1], *widths[-1:]]

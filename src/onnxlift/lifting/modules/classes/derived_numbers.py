"""Find numbers of a class that follow from others, and so are no arguments of their own.

    Linear(8, 32), Linear(12, 48)                                 ->     nn.Linear(dim, 4 * dim)
    Conv2d(8, 8, 3, padding=1), Conv2d(8, 8, 5, padding=2)        ->     nn.Conv2d(8, 8, kernel, padding=kernel // 2)

1. A width of layers is the same multiple, or part, of another one in every instance.
2. A length in `forward` is a multiple, a part or the square of a shorter one.
3. The number of offsets between two places of a square window follows from its side: `(2 * side - 1) ** 2`.
4. A padding is half of its kernel, or the dilation, or a multiple of the dilation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .number_groups import LARGEST_FACTOR, LENGTHS, MOST_COMPARED, SIZES, Group, Number, are_integers, is_of_layers


@dataclass(frozen=True)
class Derivation:
    """The way in which the numbers of a group are computed from those of a `base`, as a text: `4 * {}`."""

    base: Group
    form: str

    def text(self, name: str) -> str:
        """Return the expression, if the numbers of the base are called `name`."""
        return self.form.format(name)


def derive(groups: Sequence[Group], ends: Sequence[Number]) -> dict[Group, Derivation]:
    """Find the groups that follow from others. `ends` are the widths of a block's input and output. These are preferred
    as arguments, so that other widths become multiples of them."""
    derived = _widths_of_widths(groups, ends) | _lengths_of_lengths(groups)
    sides = [length for length in _lengths(groups) if length not in derived]  # a derived number is no base
    return derived | _offsets_of_sides(groups, sides) | _paddings(groups)


def _widths_of_widths(groups: Sequence[Group], ends: Sequence[Number]) -> dict[Group, Derivation]:
    """Find the widths of layers that are multiples or parts of others, by rule 1."""
    widths = [g for g in groups if g.family == "width" and are_integers(g) and is_of_layers(g)]
    at_ends = [group for end in ends for group in widths if end in group.places]
    derived: dict[Group, Derivation] = {}
    bases: list[Group] = []
    for group in dict.fromkeys((*at_ends, *widths[:MOST_COMPARED])):
        found = next(_multiples(group, bases), None)
        if found is None:
            bases.append(group)
        else:
            derived[group] = found
    return derived


def _lengths(groups: Sequence[Group]) -> list[Group]:
    """Return the groups of lengths in `forward`, short ones first."""
    lengths = [g for g in groups if are_integers(g) and LENGTHS.issuperset(g.roles)][:MOST_COMPARED]
    return sorted(lengths, key=lambda group: sum(group.column))


def _lengths_of_lengths(groups: Sequence[Group]) -> dict[Group, Derivation]:
    """Find the lengths that are multiples, parts or squares of shorter ones, by rule 2."""
    derived: dict[Group, Derivation] = {}
    bases: list[Group] = []
    for group in _lengths(groups):
        found = next(_multiples(group, bases, squares=True), None)
        if found is None:
            bases.append(group)
        else:
            derived[group] = found
    return derived


def _offsets_of_sides(groups: Sequence[Group], sides: Sequence[Group]) -> dict[Group, Derivation]:
    """Find the numbers of offsets that follow from the side of a window, by rule 3."""
    derived: dict[Group, Derivation] = {}
    for group in groups:
        if are_integers(group) and set(group.roles) == {"offsets"}:
            fitting = [side for side in sides if [count_offsets(size) for size in side.column] == group.column]
            if fitting:
                derived[group] = Derivation(fitting[0], "(2 * {} - 1) ** 2")
    return derived


def _paddings(groups: Sequence[Group]) -> dict[Group, Derivation]:
    """Find the paddings that follow from a kernel, or else from a dilation, by rule 4. If both fit, half of the kernel
    is taken, since people write that."""
    windows = [group for group in groups if group.family == "window" and are_integers(group)]
    dilations = [group for group in groups if group.family == "dilation" and are_integers(group)]
    derived: dict[Group, Derivation] = {}
    for group in groups:
        if group.family == "padding" and are_integers(group):
            halves = [Derivation(w, "{} // 2") for w in windows if [size // 2 for size in w.column] == group.column]
            same = [Derivation(dilation, "{}") for dilation in dilations if dilation.column == group.column]
            found = [*halves[-1:], *same, *_multiples(group, dilations)]
            if found:
                derived[group] = found[0]
    return derived


def _multiples(group: Group, bases: Sequence[Group], *, squares: bool = False) -> Iterator[Derivation]:
    """Yield the derivations by which the numbers of a group are always the same multiple or part of those of a base.
    With `squares`, they may also be the squares of those."""
    for base in bases:
        form = _multiple(group.column, base.column)
        if not form and squares and [size**2 for size in base.column] == group.column:
            form = "{} ** 2"
        if form:
            yield Derivation(base, form)


def _multiple(column: list[int], base: list[int]) -> str:
    """Return the text for the numbers of a column, if they always are the same multiple or part of those of another;
    otherwise nothing."""
    for factor in range(2, LARGEST_FACTOR + 1):
        if [factor * width for width in base] == column:
            return f"{factor} * {{}}"
        if [factor * width for width in column] == base:
            return f"{{}} // {factor}"
    return ""


def sides_of_windows(groups: Sequence[Group]) -> list[Group]:
    """Return a group for the side of a square window, if there are numbers for its area and for the offsets between two
    places in it, but none for the side."""
    offsets = [g.column for g in groups if are_integers(g) and set(g.roles) == {"offsets"}]
    for area in groups:
        if offsets and are_integers(area) and set(area.roles) == {"length"}:
            sides = [math.isqrt(size) for size in area.column]
            known = any(group.column == sides for group in groups if SIZES.issuperset(group.roles))
            if not known and [s * s for s in sides] == area.column and [count_offsets(s) for s in sides] in offsets:
                return [Group("width", sides, [Number((area, "side"), "size", sides[0])])]
    return []


def count_offsets(side: int) -> int:
    """Count the offsets between two places in a square window."""
    return int((2 * side - 1) ** 2)

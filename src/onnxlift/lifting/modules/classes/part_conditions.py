"""Find conditions on the arguments of a class that tell whether an instance has an optional part.

self.downsample = nn.Conv2d(...) if in_channels != channels else nn.Identity()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .number_groups import ABSENT, MOST_COMPARED, Group, Number, family_of, is_of_layers


@dataclass(frozen=True)
class KnownNumbers:
    """The numbers of a class: those of its example with their values in all instances, and the groups, of which some
    have names by now."""

    groups: Sequence[Group]
    example: Sequence[Number]
    columns: Sequence[Sequence[Any]]


def condition_for(flag: Group, numbers: KnownNumbers) -> str:
    """Return the condition that holds in exactly those instances that have the part. Return nothing if there is none:
    then an argument has to tell."""
    return next((text for rule in _RULES if (text := rule(flag, numbers))), "")


def _compare_widths(flag: Group, numbers: KnownNumbers) -> str:
    """Try `in_channels != channels`. Only widths of layers are compared: if an image is as high as there are channels,
    that is chance."""
    widths = [g for g in numbers.groups if g.family == "width" and is_of_layers(g)][:MOST_COMPARED]
    for index, first in enumerate(widths):
        for second in widths[index + 1 :]:
            for sign, equal in (("!=", False), ("==", True)):
                columns = zip(first.column, second.column, flag.column, strict=True)
                if all((a == b) is (there is equal) for a, b, there in columns):
                    return f"{first.text} {sign} {second.text}"
    return ""


def _compare_shift(flag: Group, numbers: KnownNumbers) -> str:
    """Try `shift > 0`."""
    for group in numbers.groups[:MOST_COMPARED]:
        if group.family == "shift" and [shift > 0 for shift in group.column] == flag.column:
            return f"{group.text} > 0"
    return ""


def _compare_with_result(flag: Group, numbers: KnownNumbers) -> str:
    """Try `in_channels != 32`, if 32 channels always come out of the part."""
    part = flag.places[0].where[0] if isinstance(flag.places[0].where, tuple) else None
    member = getattr(part, "member", None)
    pairs = zip(numbers.example, numbers.columns, strict=True)
    widths = [(n, c) for n, c in pairs if n.home == member and family_of(n.role) == "width" and n.role != "groups"]
    results = {value for value in widths[-1][1] if value is not ABSENT} if member is not None and widths else set()
    if len(results) != 1:
        return ""
    (result,) = results
    for group in numbers.groups:
        if widths[0][0] in group.places and [width != result for width in group.column] == flag.column:
            return f"{group.text} != {result}"
    return ""


# Rules that compare two arguments come first: a number that is written out is right for these instances only.
_RULES: tuple[Callable[[Group, KnownNumbers], str], ...] = (_compare_widths, _compare_shift, _compare_with_result)

"""What a list of members is made from, in as few lines as a person would take.

    Block(8, 16), Block(16, 16), Block(16, 16), Block(16, 16)  ->  Block(8, 16), *(Block(16, 16) for _ in range(3))
    Block(1), Block(2), Block(4), ..., Block(512)              ->  *(Block(2**i) for i in range(10))
    Head(16, 8), Head(24, 8), Head(32, 8), Head(48, 8)         ->  *(Head(channels, 8) for channels in (16, 24, 32, 48))

Equal entries in a row are written once from three on, if that is shorter. Entries that are equal but for one number are
written once where they would take a line each: over powers of two or a range if the numbers are that, also if they
come again and again, else over the numbers. Not where some of them are equal in a row, which are one line already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Protocol

from onnxlift.lifting.modules.classes.argument_names import argument_name, numbered
from onnxlift.lifting.modules.classes.descriptions import describe_member
from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.classes.number_groups import Number
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.ops.layers import Layer

LINE_LENGTH = 100  # of the generated source
STEPS_IN = 14  # characters that a line of entries does not have, for where it stands and the brackets
LONG_RUN = 3  # entries in a row that are written as one

Member = Layer | Stored | Module


class Writer(Protocol):
    """Writes members of a class."""

    class_of: Mapping[object, ModuleClass]

    def member(self, member: Member) -> str:
        """The constructor call."""

    def repeated_member(self, member: Member, variable: str, numbers: Mapping[object, str]) -> str:
        """The same for each value of a variable, with these texts for some numbers by their places."""

    def number(self, number: Number) -> str:
        """What is written for a number."""

    def taken(self) -> set[str]:
        """Names of variables in the constructor."""


def listed(members: Sequence[Member], writer: Writer, *, starred: bool) -> str:
    """The entries, as arguments (`starred`) or as what a list is made from: a list or a generator."""
    texts = [writer.member(member) for member in members]
    if not starred and len(texts) > 1 and len({*texts}) == 1:
        return f"{texts[0]} for _ in range({len(texts)})"
    is_long = len(", ".join(texts)) > LINE_LENGTH - STEPS_IN
    whole = _generator(members, texts, writer) if is_long else None
    if whole is not None:
        return f"*({whole})" if starred else whole
    entries = ", ".join(_entries(members, texts, writer, is_long))
    return entries if starred else f"[{entries}]"


def _entries(members: Sequence[Member], texts: Sequence[str], writer: Writer, is_long: bool) -> list[str]:
    """The entries with runs written once: of one kind that differ in one number, and of equal ones."""
    entries: list[str] = []
    start = 0
    for _, group in groupby(members, lambda member: _kind(member, writer)):
        end = start + len(list(group))
        run = _generator(members[start:end], texts[start:end], writer) if is_long and end - start > LONG_RUN else None
        entries += [f"*({run})"] if run is not None else _equal_once(texts[start:end])
        start = end
    return entries


def _kind(member: Member, writer: Writer) -> object:
    return describe_member(member, writer.class_of, [])


def _equal_once(texts: Sequence[str]) -> list[str]:
    entries: list[str] = []
    for text, run in groupby(texts):
        count = len(list(run))
        once = f"*({text} for _ in range({count}))"
        is_shorter = count >= LONG_RUN and len(once) < len(", ".join([text] * count))
        entries += [once] if is_shorter else [text] * count
    return entries


def _generator(members: Sequence[Member], texts: Sequence[str], writer: Writer) -> str | None:
    """`Block(2**i) for i in range(10)`, if the members differ in one number."""
    numbers: list[list[Number]] = [[] for _ in members]
    kinds = {describe_member(member, writer.class_of, own) for member, own in zip(members, numbers, strict=True)}
    if len(members) < 2 or len(kinds) > 1 or any(len(list(run)) >= LONG_RUN for _, run in groupby(texts)):
        return None
    columns = [[writer.number(number) for number in column] for column in zip(*numbers, strict=True)]
    varying = {index: column for index, column in enumerate(columns) if len({*column}) > 1}
    if len({tuple(column) for column in varying.values()}) != 1:
        return None
    places = [numbers[0][index] for index in varying]
    name = argument_name([place.role for place in places], set(), is_end=True)
    name = numbered(re.sub(r"^(in|out)_", "", name), writer.taken())
    value, name, values = _sequence(next(iter(varying.values())), name, writer.taken())
    text = writer.repeated_member(members[0], name, {place.where: value for place in places})
    return f"{text} for {name} in {values}"


def _sequence(texts: Sequence[str], name: str, taken: set[str]) -> tuple[str, str, str]:
    """How each of several values is written, the variable, and what that goes over."""
    values = [int(text) for text in texts if text.isdigit()]
    count = len(texts)
    period = next(n for n in range(1, count + 1) if count % n == 0 and [*texts] == [*texts[:n]] * (count // n))
    if len(values) == count and period > LONG_RUN:
        number = numbered("i", taken)
        turn = number if period == count else f"({number} % {period})"
        if values[:period] == [2**i for i in range(period)]:
            return (f"2**{turn}" if period == count else f"2 ** {turn}"), number, f"range({count})"
        step = values[1] - values[0]
        if step > 0 and values == [*range(values[0], values[0] + step * count, step)]:
            start = f"{values[0]}, " if values[0] or step > 1 else ""
            return name, name, f"range({start}{values[-1] + step}{f', {step}' if step > 1 else ''})"
    times = f" * {count // period}" if period < count else ""
    return name, name, f"({', '.join(texts[:period])}){times}"

"""Write a list of members in as few lines as a person would.

    Block(8, 16), Block(16, 16), Block(16, 16), Block(16, 16)  ->  Block(8, 16), *(Block(16, 16) for _ in range(3))
    Block(1), Block(2), Block(4), ..., Block(512)              ->  *(Block(2**i) for i in range(10))
    Head(16, 8), Head(24, 8), Head(32, 8), Head(48, 8)         ->  *(Head(channels, 8) for channels in (16, 24, 32, 48))

Three or more equal entries in a row are written once, if that is shorter. Entries that differ in one number are written
once if the list is too long for a line. They are written over powers or a range if the numbers are that, even if these
come again and again and break off the last time, and otherwise over the numbers themselves. They are not written so if
three or more of them are equal in a row: those are one entry already.
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
STEPS_IN = 14  # characters of a line that go to the indentation and the brackets, and not to entries
LONG_RUN = 3  # so many equal entries in a row are written as one
_FACTORS = (2, 3, 4, 5, 10)  # of powers

Member = Layer | Stored | Module


class Writer(Protocol):
    """A writer of a class's members."""

    class_of: Mapping[object, ModuleClass]

    def member(self, member: Member) -> str:
        """Write the call that makes a member."""

    def repeated_member(self, member: Member, variable: str, numbers: Mapping[object, str]) -> str:
        """Write a member for each value of `variable`. `numbers` are the texts for some of its numbers, by their
        places."""

    def number(self, number: Number) -> str:
        """Write a number: as the argument or variable that holds it, or else as a literal."""

    def taken(self) -> set[str]:
        """Return the names of the constructor's variables."""


def listed(members: Sequence[Member], writer: Writer, *, starred: bool) -> str:
    """Write the entries, either as arguments (`starred`) or as the argument of a list: itself a list or a generator."""
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
    """Return the entries, with each run written once: a run of equal entries, or of one kind that differ in one
    number."""
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
    """Write the members as `Block(2**i) for i in range(10)`, if they differ in one number."""
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
    """Return the text of each value (`2**i`), the loop's variable (`i`), and what the loop goes over (`range(10)`)."""
    values = [int(text) for text in texts if text.isdigit()]
    count, period = len(texts), _period(texts)
    if len(values) == count and period > LONG_RUN:
        number = numbered("i", taken)
        turn = number if period == count else f"({number} % {period})"
        power = _power(values[:period], turn)
        if power is not None:
            return power, number, f"range({count})"
        step = values[1] - values[0]
        if step and values[:period] == [values[0] + i * step for i in range(period)]:
            if period < count:
                return _progression(values[0], step, turn), number, f"range({count})"
            start = f"{values[0]}, " if values[0] or step != 1 else ""
            return name, name, f"range({start}{values[-1] + step}{f', {step}' if step != 1 else ''})"
    once = f"({', '.join(texts[:period])}{',' * (period == 1)})"
    times = f"{once} * {-(-count // period)}" if period < count else once
    return name, name, f"({times})[:{count}]" if count % period else times


def _period(texts: Sequence[str]) -> int:
    """Return after how many entries they come again. The last time may break off, if they come at least twice."""
    count = len(texts)
    periods = (n for n in range(1, count // 2 + 1) if [*texts[n:]] == [*texts[:-n]])
    return next(periods, count)


def _power(values: Sequence[int], turn: str) -> str | None:
    """Write values that grow, or shrink, by the same factor each time: `8 * 2**i`, `512 // 2**i`."""
    first, last = values[0], values[-1]
    for factor in _FACTORS:
        if [*values] == [first * factor**i for i in range(len(values))] and first:
            return f"{factor} ** {turn}" if first == 1 else f"{first} * {factor} ** {turn}"
        if [*values] == [first // factor**i for i in range(len(values))] and last * factor ** (
            len(values) - 1
        ) == first:
            return f"{first} // {factor} ** {turn}"
    return None


def _progression(first: int, step: int, turn: str) -> str:
    """Write values with the same difference each time: `3 + 2 * (i % 4)`."""
    steps = turn if abs(step) == 1 else f"{abs(step)} * {turn}"
    return f"{first} {'+' if step > 0 else '-'} {steps}" if first else steps

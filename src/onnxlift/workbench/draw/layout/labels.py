"""Measure boxes: the texts that stand in them, cut to a length, and the room that these take."""

from __future__ import annotations

from dataclasses import dataclass

from ..picture import INPUT, OUTPUT, Box
from ..text import SMALL, TIMES, TITLE, cut, width_of

LONGEST_TITLE, LONGEST_NAME, LONGEST_LABEL, LONGEST_TAG = 46, 48, 52, 24
PADDING = 10.0
TITLE_HEIGHT, LINE_HEIGHT = 16.0, 13.0


@dataclass(frozen=True)
class Texts:
    """The texts of a box as they are drawn: the title, its number in a row, and smaller lines below."""

    title: str
    times: str
    lines: tuple[str, ...]

    @property
    def width(self) -> float:
        """The room that they take from left to right."""
        head = width_of(self.title + (f"  {self.times}" if self.times else ""), TITLE)
        return max([head, *(width_of(line, SMALL) for line in self.lines)])

    @property
    def height(self) -> float:
        """The room that they take from top to bottom."""
        return TITLE_HEIGHT + LINE_HEIGHT * len(self.lines)


def texts_of(box: Box) -> Texts:
    """Return what is written into a box."""
    times = f"{TIMES} {box.times}" if box.times > 1 else ""
    lines = [cut(box.name, LONGEST_NAME, end=True)] if box.name else []
    lines += [cut(line, LONGEST_NAME) for line in box.lines]
    if box.kind in (INPUT, OUTPUT):
        return Texts(cut(box.title, LONGEST_TITLE, end=True) or "?", times, tuple(lines))
    return Texts(cut(box.title, LONGEST_TITLE) or "?", times, tuple(lines))


def label_of(text: str) -> str:
    """Return the text of an edge as it is drawn."""
    return cut(text, LONGEST_LABEL)


def tag_text(name: str) -> str:
    """Return the text of a tag: the last part of a value's name."""
    short = name.rstrip("/").rpartition("/")[2] or name
    return cut(short.removesuffix("_output_0") or "value", LONGEST_TAG)

"""Make texts of strangers fit to be drawn: harmless, short enough, and of a width that is known.

All text is drawn in a monospaced font. The advance of these is 0.6 em, whichever of them is there, so that a box that
fits here fits everywhere.
"""

from __future__ import annotations

import unicodedata

TITLE, SMALL = 12.0, 10.0
"""Sizes of text in pixels."""
ADVANCE = 0.605
WIDE = 1.05
ELLIPSIS = "…"
TIMES = "\N{MULTIPLICATION SIGN}"


def harmless(text: str) -> str:
    """Return the text with every character that could hide, turn or break it written as an escape.

    These are control characters, marks that change the direction of text, surrogates, and whatever else Unicode does
    not count as printable. A run of marks that are put on top of a character is cut after four."""
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
        if marks > 4:
            continue
        code = ord(char)
        shown.append(char if char.isprintable() else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")
    return "".join(shown)


def cut(text: str, longest: int, *, end: bool = False) -> str:
    """Return the text, harmless and cut to a number of characters; at its beginning if its `end` tells more."""
    text = harmless(text[:2_000])
    if len(text) <= longest:
        return text
    return f"{ELLIPSIS}{text[-longest + 1 :]}" if end else f"{text[: longest - 1]}{ELLIPSIS}"


def width_of(text: str, size: float) -> float:
    """Return about how wide a text is, in pixels; rather too wide than too narrow."""
    if text.isascii():
        return len(text) * ADVANCE * size
    wide = sum(1 for char in text if unicodedata.east_asian_width(char) in "WF")
    return (len(text) - wide) * ADVANCE * size + wide * WIDE * size

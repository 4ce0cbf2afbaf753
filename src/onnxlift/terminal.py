"""Texts and values from a model, for a terminal. They are data of a stranger: they are escaped and cut."""

from __future__ import annotations

from typing import Any

LONGEST = 160
"""So many characters of a value are shown."""
MOST_IN_LIST = 8


def plain(text: str) -> str:
    """Return a text from the model for a terminal, cut off after 1000 characters.

    A character that could move the cursor or hide text is written as an escape."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:1000])


def value_text(value: Any, start: int = 0) -> str:
    """Write a value from the model. Of a long text or list only a part is shown; of a text, the part from `start`."""
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, list | tuple):
        shown = ", ".join(value_text(each) for each in value[:MOST_IN_LIST])
        return f"[{shown}]" if len(value) <= MOST_IN_LIST else f"[{shown}, ... {len(value):,} in all]"
    text = plain(str(value)[start : start + LONGEST])
    before = "..." if start else ""
    return f"{before}{text}{'...' if len(str(value)) > start + LONGEST else ''}"

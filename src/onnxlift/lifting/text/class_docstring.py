"""Write the docstring of a class: the places of its instances."""

from __future__ import annotations

from onnxlift.lifting.tree.paths import Path

LONGEST_LISTING = 90  # what fits into a line, between quotes and a step in


def listing(paths: list[Path]) -> str:
    """Return the instances of a class, in one line; numbers that run are written as `*`."""
    whole = ", ".join(".".join(path) for path in paths)
    if len(whole) <= 72:
        return whole
    first, *others = dict.fromkeys(".".join("*" if p.isdigit() else p for p in path) for path in paths)
    if len(others) > 2:
        others = [others[0], "...", others[-1]]
    line = first
    for shown in (others, ["...", *others[-1:]], ["..."]) if others else ():
        line = ", ".join([first, *shown])
        if len(line) <= LONGEST_LISTING:
            break
    return line

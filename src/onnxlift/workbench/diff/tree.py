"""Changes of nodes as text, by module: each in a line if there are few, else counts that fit on a page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from onnxlift.terminal import plain

from .changes import NodeChange
from .text import node_text

MOST_NODES = 20
"""Up to so many changes have a line each."""
MOST_ROWS = 25
"""Modules are summed up until they take no more lines than this."""
MOST_OPERATORS = 6

SIGNS = {"added": "+", "removed": "-", "moved": ">", "changed": "~"}

Counts = Counter[tuple[str, str]]
"""Kind of change and operator -> how often."""


def node_lines(changes: Sequence[NodeChange], *, show_all: bool) -> list[str]:
    """Write the changes of nodes, by module."""
    if show_all or len(changes) <= MOST_NODES:
        return _each(changes)
    lines = ["(+ added, - removed, > moved, ~ changed; --all lists each node)"]
    rows = _rows(changes)
    names = [plain(path) + (f" (each of {modules:,})" if modules > 1 else "") for path, modules, _ in rows]
    totals = [_total(counts) for _, _, counts in rows]
    width, room = min(70, max(map(len, names))), max(map(len, totals))
    for name, total, (_, _, counts) in zip(names, totals, rows, strict=True):
        lines.append(f"{name:{width}}  {total:{room}}  {_operators(counts)}")
    return lines


def _each(changes: Sequence[NodeChange]) -> list[str]:
    by_module: dict[str, list[NodeChange]] = {}
    for change in changes:
        by_module.setdefault(change.module, []).append(change)
    if set(by_module) <= {""}:
        return list(map(node_text, changes))
    lines: list[str] = []
    for module, found in by_module.items():
        lines.append(plain(module) or "(no module)")
        lines += [f"  {node_text(change)}" for change in found]
    return lines


def _rows(changes: Sequence[NodeChange]) -> list[tuple[str, int, Counts]]:
    """Return module, number of such modules, and the counts of one of them, in the order of the first change.

    Modules that differ by numbers only and have the same counts are one row. If there are too many rows, the deepest
    modules count for those around them."""
    paths = [change.module or (f"({change.graph})" if change.graph else "(no module)") for change in changes]
    depth = max(path.count(".") + 1 for path in paths)
    while True:
        counts: dict[str, Counts] = {}
        for path, change in zip(paths, changes, strict=True):
            short = ".".join(path.split(".")[:depth]) if not path.startswith("(") else path
            counts.setdefault(short, Counter())[change.kind, _operator(change)] += 1
        rows = _alike(counts)
        if len(rows) <= MOST_ROWS or depth == 1:
            return _cut(rows)
        depth -= 1


def _operator(change: NodeChange) -> str:
    """Return the operator of a node, or both if it has been replaced."""
    replaced = next((detail for detail in change.details if detail.what == "operator"), None)
    return change.operator if replaced is None else f"{replaced.a} -> {replaced.b}"


def _alike(counts: Mapping[str, Counts]) -> list[tuple[str, int, Counts]]:
    groups: dict[tuple[str, frozenset[tuple[tuple[str, str], int]]], list[str]] = {}
    for path, found in counts.items():
        pattern = re.sub(r"(?<![^._])[0-9]+(?![^.])", "*", path.replace("*", "?"))
        groups.setdefault((pattern, frozenset(found.items())), []).append(path)
    return [(_shared(pattern, paths), len(paths), counts[paths[0]]) for (pattern, _), paths in groups.items()]


def _shared(pattern: str, paths: Sequence[str]) -> str:
    """Return one path for several that differ by a number: `layers.{0-8}`, or `layers.*` if some are left out."""
    if len(paths) == 1:
        return paths[0]
    before, _, after = pattern.partition("*")
    if "*" not in after:
        numbers = sorted(int(path[len(before) : len(path) - len(after)]) for path in paths)
        if numbers == list(range(numbers[0], numbers[-1] + 1)):
            return f"{before}{{{numbers[0]}-{numbers[-1]}}}{after}"
    return pattern


def _cut(rows: list[tuple[str, int, Counts]]) -> list[tuple[str, int, Counts]]:
    """Sum up what is beyond the last row that fits."""
    if len(rows) <= MOST_ROWS:
        return rows
    rest: Counts = Counter()
    for _, modules, counts in rows[MOST_ROWS:]:
        rest.update({key: count * modules for key, count in counts.items()})
    return [*rows[:MOST_ROWS], (f"(and {len(rows) - MOST_ROWS} more)", 1, rest)]


def _total(counts: Counts) -> str:
    kinds: Counter[str] = Counter()
    for (kind, _), count in counts.items():
        kinds[kind] += count
    return " ".join(f"{SIGNS[kind]}{kinds[kind]:,}" for kind in SIGNS if kinds[kind])


def _operators(counts: Counts) -> str:
    """Write the most frequent operators: `Cast +12, Relu -1`."""
    order = list(SIGNS)
    found = sorted(counts.items(), key=lambda each: (-each[1], order.index(each[0][0]), each[0][1]))
    shown = [f"{plain(operator)} {SIGNS[kind]}{count:,}" for (kind, operator), count in found[:MOST_OPERATORS]]
    more = [f"{len(found) - MOST_OPERATORS} other operators"] if len(found) > MOST_OPERATORS else []
    return ", ".join([*shown, *more])

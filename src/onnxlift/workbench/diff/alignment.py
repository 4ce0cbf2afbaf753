"""Align two sequences: the longest common subsequence, quick also for thousands of elements."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

LARGEST = 1 << 28
"""The most pairs of elements that are compared at once (a bit each); longer sequences are cut."""


def common_subsequence(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the places of the elements of a longest common subsequence, in both, in order."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
    pairs = [(place, place) for place in range(start)]
    pairs += [(start + i, start + j) for i, j in _middle(middle_a, middle_b)]
    return pairs + [(len(a) - place, len(b) - place) for place in range(end, 0, -1)]


def _middle(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    if len(a) * len(b) > LARGEST:
        half_a, half_b = len(a) // 2, len(b) // 2
        rest = _middle(a[half_a:], b[half_b:])
        return [*_middle(a[:half_a], b[:half_b]), *((i + half_a, j + half_b) for i, j in rest)]
    rows = _rows(a, b)
    pairs: list[tuple[int, int]] = []
    i, j = len(a), len(b)
    while i and j:
        if rows[i] >> (j - 1) & 1:
            j -= 1
            continue
        i -= 1
        if rows[i] >> (j - 1) & 1:
            j -= 1
            pairs.append((i, j))
    pairs.reverse()
    return pairs


def _rows(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[int]:
    """Return, for each beginning of `a`, a bit for each place of `b`: 0 where the subsequence gets longer.

    All places of a row are worked out at once, by the carry of one addition (Hyyrö, 2004)."""
    places: dict[Hashable, int] = {}
    for place, element in enumerate(b):
        places[element] = places.get(element, 0) | 1 << place
    everything = (1 << len(b)) - 1
    row = everything
    rows = [row]
    for element in a:
        found = row & places.get(element, 0)
        row = ((row + found) | (row - found)) & everything
        rows.append(row)
    return rows

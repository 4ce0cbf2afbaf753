"""The longest common subsequence, against a table that is filled cell by cell."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxlift.ir.graph.rising import longest_rising
from onnxlift.workbench.diff import alignment
from onnxlift.workbench.diff.alignment import common_subsequence

WORDS = st.lists(st.integers(0, 3), max_size=14)


def length(a: list[int], b: list[int]) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(WORDS, WORDS)
def test_it_is_common_and_longest(a: list[int], b: list[int]) -> None:
    pairs = common_subsequence(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(x < y and v < w for (x, v), (y, w) in pairwise(pairs))
    assert len(pairs) == length(a, b)


def test_long_sequences_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = list(range(1000)), [n for n in range(1000) if n % 7]
    assert len(common_subsequence(a, b)) == len(b)
    monkeypatch.setattr(alignment, "LARGEST", 1000)
    pairs = common_subsequence(a, b)
    assert all(a[i] == b[j] for i, j in pairs) and len(pairs) > 100


@given(st.permutations(range(9)))
def test_a_rising_subsequence_rises_and_is_longest(numbers: list[int]) -> None:
    found = longest_rising(numbers)
    assert [numbers[i] for i in found] == sorted(numbers[i] for i in found) and found == sorted(found)
    assert len(found) == length(numbers, sorted(numbers))

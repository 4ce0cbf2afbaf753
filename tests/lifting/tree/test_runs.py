"""Repeats in sequences, compared with looking everywhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onnxlift.lifting.tree.runs import find_repeats, find_runs

SEQUENCES = st.lists(st.integers(0, 2), max_size=24)


@given(SEQUENCES)
def test_runs_are_runs_and_as_long_as_can_be(symbols: list[int]) -> None:
    for run in find_runs(symbols):
        assert run.count >= 2
        assert all(symbols[i] == symbols[i + run.period] for i in range(run.start, run.end - run.period))
        assert run.start == 0 or symbols[run.start - 1] != symbols[run.start - 1 + run.period]
        assert run.end == len(symbols) or symbols[run.end] != symbols[run.end - run.period]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.integers(3, 5), SEQUENCES, SEQUENCES)
def test_what_is_there_three_times_is_found(body: list[int], count: int, before: list[int], after: list[int]) -> None:
    symbols = [*before, *body * count, *after]
    period = min(p for p in range(1, len(body) + 1) if (body * 2)[p : p + len(body)] == body)
    low, high = len(before), len(before) + count * len(body)
    assert any(r.period == period and r.start <= low and r.end >= high for r in find_runs(symbols))


@given(SEQUENCES)
def test_stretches_are_there_several_times(symbols: list[int]) -> None:
    for start, end in find_repeats(symbols):
        body = symbols[start:end]
        places = [i for i in range(len(symbols)) if symbols[i : i + len(body)] == body]
        assert places[-1] - places[0] >= len(body)


def test_long_sequences_take_no_time() -> None:
    """Quadratic, this would take minutes."""
    fibonacci, step = [0], [0, 1]
    while len(step) < 20_000:
        fibonacci, step = step, step + fibonacci
    for symbols in (step, [0] * 20_000, [*range(10_000)] * 2):
        assert find_runs(symbols)
        assert find_repeats(symbols)

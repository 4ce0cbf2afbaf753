"""Formulas compute like the numbers that they stand for, whatever the sizes are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxlift.workbench.profile.amount import Amount, AmountSum, either, exactly
from onnxlift.workbench.profile.formula import (
    UNKNOWN,
    Size,
    Sum,
    at,
    divided,
    is_at_least,
    is_known,
    largest,
    names_in,
    product,
    short_number,
    size_of,
    smallest,
    symbol,
    text_of,
)

DIMS = ("batch", "seq", "2*seq + 1", "(h + 1)//2", "h//4", "min(32, seq)", "max(0, h - 3)", "batch*seq", "h%5")
numbers = st.integers(-50, 50)
sizes = st.fixed_dictionaries({name: st.integers(1, 40) for name in ("batch", "seq", "h")})


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Size, dict[str, int], int]:
    """A formula, numbers for its symbols, and the number that it must be at these."""
    values = draw(sizes)
    total: Size = 0
    expected = 0
    for _ in range(draw(st.integers(1, 4))):
        factor = draw(numbers)
        term: Size = factor
        for dim in draw(st.lists(st.sampled_from(DIMS), max_size=3)):
            term = term * size_of(dim)
            factor *= eval(dim, {"max": max, "min": min}, dict(values))
        total, expected = total + term, expected + factor
    return total, values, expected


@settings(max_examples=60, deadline=None)
@given(pairs(), pairs(), st.integers(1, 9))
def test_a_formula_at_numbers_is_what_it_stands_for(
    one: tuple[Size, dict[str, int], int], other: tuple[Size, dict[str, int], int], divisor: int
) -> None:
    (a, values, expected), (b, _, _) = one, other
    assert at(a, values) == expected
    right = at(b, values)
    assert isinstance(right, int)
    assert at(a + b, values) == expected + right
    assert at(a - b, values) == expected - right
    assert at(a * b, values) == expected * right
    assert at(divided(a, divisor), values) == -(-expected // divisor)
    assert at(largest([a, b]), values) == max(expected, right)
    assert at(smallest([a, b]), values) == min(expected, right)
    if is_at_least(a, b):
        assert expected >= right
    total = Sum()
    for each in (a, b, a):
        total.add(each)
    assert at(total.size, values) == 2 * expected + right


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (size_of("batch") * size_of("seq") * size_of("seq") * 12 * 64, "768*batch*seq^2"),
        (symbol("b") * (symbol("s") * symbol("s") * 24 + symbol("s") * 64), "b*s*(24*s + 64)"),
        (size_of("(h + 1)//2") * size_of("(w + 1)//2") * 9, "9*((h + 1)//2)*((w + 1)//2)"),
        (symbol("n") * -3 + 7, "-3*n + 7"),
        (symbol("n") - symbol("n") + 5, "5"),
        (symbol("n") - symbol("n"), "0"),
        (UNKNOWN * 3 + 1, "?"),
        (divided(symbol("n") * 3, 2), "ceil((3*n)/2)"),
        (divided(symbol("n") * 4, 2), "2*n"),
    ],
)
def test_texts_are_simplified(size: Size, text: str) -> None:
    assert text_of(size) == text


def test_short_texts_round_and_leave_out_what_matters_least() -> None:
    size = symbol("b") * symbol("s") * 1_234_567 + symbol("b") * 3 + 900_000_000
    assert text_of(size, short=True) == "1.23M*b*s + 3*b + 900M"
    assert text_of(size, short=True, longest=24) == "1.23M*b*s + 900M + …"
    assert text_of(size, short=True, longest=5) == "1.23M*b*s + …"  # the least that can be said
    assert [short_number(n) for n in (0, 7, 999, 1000, 1_234_567, 999_999, 4.09e9)] == [
        *("0", "7", "999", "1.00k", "1.23M", "1.00M", "4.09G")
    ]


def test_what_depends_on_an_unknown_size_is_unknown_but_nothing_of_it_is_nothing() -> None:
    unknown = size_of("unk__3")
    assert not is_known(unknown) and not is_known(size_of("2*unk__3 + 1")) and not is_known(size_of(None))
    assert not is_known(unknown + 1) and not is_known(symbol("n") * unknown)
    assert product([0, unknown]) == 0 and unknown * 0 == 0
    assert not is_known(size_of("batch-size"))  # a name that cannot be computed with


def test_the_larger_of_two_formulas_is_told_where_it_is_seen() -> None:
    n, h = symbol("n"), size_of("h//2")
    assert largest([n * 3, n * 2 + 1]) == n * 3  # sizes are at least 1
    assert largest([symbol("h") * 2, h * 2]) == symbol("h") * 2
    assert largest([size_of("seq"), size_of("min(32, seq)")]) == symbol("seq")
    assert text_of(largest([n * n, n * 7])) == "max(n^2, 7*n)"
    assert names_in(largest([n * n, symbol("m")])) == {"m", "n"}


def test_a_product_that_would_never_end_is_unknown() -> None:
    long = sum((symbol(f"n{place}") for place in range(16)), start=symbol("n"))
    assert is_known(long * long) and not is_known(product([long] * 12))
    wide = sum((symbol(f"n{place}") for place in range(500)), start=symbol("n"))
    assert text_of(largest([wide, symbol("m")])).startswith("max(")


def test_amounts_are_ranges() -> None:
    n = symbol("n")
    assert str(exactly(n * 2)) == "2*n" and exactly(5).number == 5
    both = either(exactly(10), exactly(n * 20))
    assert (str(both), both.plain()) == ("10 to 20*n", {"least": 10, "most": "20*n"})
    unknown = exactly(UNKNOWN)
    assert unknown.is_unknown and unknown.plain() is None and str(unknown) == "?"
    at_least = unknown + exactly(3)
    assert (str(at_least), at_least.plain(), at_least.is_bounded) == ("at least 3", {"least": 3, "most": None}, False)
    assert (both * exactly(2)).at({"n": 5}) == Amount(20, 200)
    total = AmountSum()
    for each in (both, exactly(1), unknown):
        total.add(each)
    assert total.amount.low == 11 and not total.amount.is_bounded

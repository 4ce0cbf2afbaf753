"""Tables of positions and of one number, as modules keep them in buffers."""

from __future__ import annotations

import pytest

from onnxlift.rewriting.simplifying import expands, tables
from rewriting.graphs import apply, operators

COUNT = ", ".join(map(str, range(8)))
CUT = """s = Shape(x) zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> () n = Gather(s, one)
    cut = Slice(table, zero, n, one, one) f = Cast <to = 1> (cut)"""


def rewritten(body: str, table: str = COUNT, outputs: str = "float[batch, seq] y") -> list[str]:
    """The operators after the pass, which must not change the numbers."""
    rows = len(table.split(","))
    text = f"g (float[batch, seq] x) => ({outputs}) <int64[1, {rows}] table = {{{table}}}> {{ {body} }}"
    return operators(apply(text, tables.run)[0])


def test_positions_up_to_the_length_of_the_input() -> None:
    assert "Range" in rewritten(f"{CUT} y = Add(x, f)")


def test_positions_that_an_expand_needs_to_be_as_many() -> None:
    assert "Range" in rewritten(f"{CUT} y = Expand(f, s)")


def test_positions_that_may_be_more_than_there_are_stay() -> None:
    assert "Slice" in rewritten(f"{CUT} y = Exp(f)", outputs="float[1, k] y")


def test_sizes_that_meet_along_another_axis_prove_nothing() -> None:
    body = (
        f"{CUT} t = Transpose(f) c = Constant <value_floats = [1.0, 2.0]> () m = Mul(t, c) y = Concat <axis = 0> (m, m)"
    )
    assert "Slice" in rewritten(body, outputs="float[k, 2] y")


@pytest.mark.parametrize("table", ["0, 2, 4, 6, 8, 10, 12, 14", "1, 2, 3, 4, 5, 6, 7, 8", "0, 1, 2, 3, 4, 5, 7, 6"])
def test_other_tables_stay(table: str) -> None:
    assert "Slice" in rewritten(f"{CUT} y = Add(x, f)", table)


@pytest.mark.parametrize(("old", "new"), [("zero, n, one, one", "one, n, one, one"), ("n, one, one)", "n, one, two)")])
def test_other_slices_stay(old: str, new: str) -> None:
    body = f"two = Constant <value_ints = [2]> () {CUT.replace(old, new)} r = Shape(f) y = Reshape(f, r)"
    assert "Slice" in rewritten(body, outputs="float[1, k] y")


def gathered(table: str, repeat: str = "Identity(table)") -> list[str]:
    body = f"""one = Constant <value_int = 1> () i = Cast <to = 7> (x) p = Mod(i, one)
        rows = Constant <value_ints = [1, 3]> () t = {repeat} y = GatherElements <axis = 1> (t, p)"""
    text = f"g (float[1, seq] x) => (int64[1, seq] y) <int64[1, 3] table = {{{table}}}> {{ {body} }}"
    return operators(apply(text, tables.run)[0])


@pytest.mark.parametrize("repeat", ["Identity(table)", "Expand(table, rows)"])
def test_a_table_of_one_number_is_that_number(repeat: str) -> None:
    assert gathered("3, 3, 3", repeat)[-1] == "Expand"


@pytest.mark.parametrize("repeat", ["Identity(table)", "Expand(table, rows)"])
def test_a_table_of_several_numbers_stays(repeat: str) -> None:
    assert gathered("3, 3, 4", repeat)[-1] == "GatherElements"


def test_an_expand_of_an_expand_is_one() -> None:
    text = """g (float[1] x, float[1, seq] p, float[batch, seq] o) => (float[batch, seq] y) {
        s = Shape(p) e = Expand(x, s) t = Shape(o) y = Expand(e, t)
    }"""
    assert operators(apply(text, expands.run)[0]) == ["Shape", "Expand"]


def test_an_expand_to_less_than_there_is_keeps_the_first() -> None:
    text = """g (float[1] x, float[batch, seq] o) => (float[batch, seq] y) {
        s = Shape(o) e = Expand(x, s) one = Constant <value_ints = [1]> () y = Expand(e, one)
    }"""
    assert operators(apply(text, expands.run)[0]).count("Expand") == 2


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("r = Gather(val_3, i) y = Transpose <perm = [1, 0, 2]> (r)", ["Gather"]),
        ("r = Gather(table, i) y = Transpose <perm = [1, 0, 2]> (r)", ["Gather", "Transpose"]),  # it has a name
        ("r = Gather(val_3, i) y = Transpose <perm = [1, 0, 2]> (r) z = Exp(r)", ["Gather", "Transpose", "Exp"]),
        ("r = Gather <axis = 1> (val_3, i) y = Transpose <perm = [1, 0, 2]> (r)", ["Gather", "Transpose"]),
        ("r = Gather(val_3, j) y = Transpose <perm = [2, 0, 1, 3]> (r)", ["Gather", "Transpose"]),  # no list of indices
    ],
)
def test_a_table_that_was_turned_to_be_read_is_turned_back(body: str, found: list[str]) -> None:
    numbers = ", ".join(str(number) for number in range(24))
    tables_of_numbers = f"float[4, 3, 2] val_3 = {{{numbers}}}, float[4, 3, 2] table = {{{numbers}}}"
    indices = "int64[3] i = {2, 0, 2}, int64[1, 3] j = {2, 0, 2}"
    outputs = "y, z" if "z =" in body else "y"
    text = f"g (float[n] x) => ({outputs}) <{tables_of_numbers}, {indices}> {{ {body} }}"
    assert operators(apply(text, tables.run)[0]) == found

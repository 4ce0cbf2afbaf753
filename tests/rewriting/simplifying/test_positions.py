"""Indexing with positions that count all elements, and comparisons of positions that always hold."""

from __future__ import annotations

import pytest

from onnxlift.rewriting.simplifying import positions
from rewriting.graphs import apply, operators

SIZES = """s = Shape(x) zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
    b = Gather(s, zero) n = Gather(s, one) last = Constant <value_ints = [-1]> ()
    i = Range(zero, b, one) j = Range(zero, n, one)
    behind = Constant <value_ints = [1, 2]> () front = Constant <value_ints = [0, 1]> ()
    rows = Unsqueeze(i, behind) columns = Unsqueeze(j, front)"""
GRID = """all = Max(rows, columns) grid = Shape(all) wide_rows = Expand(rows, grid) wide_columns = Expand(columns, grid)
    r = Unsqueeze(wide_rows, last) c = Unsqueeze(wide_columns, last)"""


def rewritten(body: str, outputs: str = "float[batch, 1, seq] y") -> list[str]:
    """The operators after the pass, which must not change the numbers."""
    text = f"g (float[batch, seq] x, bool[batch, 1, seq] m) => ({outputs}) {{ {SIZES} {body} }}"
    return operators(apply(text, positions.run)[0])


def test_indices_of_all_rows_and_columns_only_add_axes() -> None:
    body = f"{GRID} both = Concat <axis = -1> (r, c) y = GatherND(x, both)"
    assert rewritten(body) == ["Unsqueeze"]


@pytest.mark.parametrize(
    ("indices", "is_left_out"),
    [
        ("0, 0,  0, 1,  0, 2,  1, 0,  1, 1,  1, 2", True),
        ("0, 0,  0, 1,  0, 2,  1, 0,  1, 1,  1, 1", False),
        ("1, 0,  1, 1,  1, 2,  0, 0,  0, 1,  0, 2", False),
        ("0, 0,  0, 1,  0, 2,  0, 0,  0, 1,  0, 2", False),
    ],
    ids=["all", "uneven", "rows upside down", "one row"],
)
def test_indices_of_fixed_sizes_are_a_constant(indices: str, is_left_out: bool) -> None:
    text = f"""g (float[2, 3] x) => (float[2, 1, 3] y) {{
        i = Constant <value = int64[2, 1, 3, 2] {{{indices}}}> () y = GatherND(x, i) }}"""
    assert operators(apply(text, positions.run)[0]) == (["Unsqueeze"] if is_left_out else ["GatherND"])


@pytest.mark.parametrize(
    "body",
    [
        "both = Concat <axis = -1> (c, r) t = Transpose(x) y = GatherND(t, both)",
        "before = Sub(c, one) both = Concat <axis = -1> (r, before) y = GatherND(x, both)",
        "same = Sub(c, c) both = Concat <axis = -1> (r, same) y = GatherND(x, both)",
        "two = Concat <axis = 1> (x, x) both = Concat <axis = -1> (r, c) y = GatherND(two, both)",
        "half = Div(c, one) both = Concat <axis = -1> (r, half) y = GatherND(x, both)",
    ],
    ids=["another order", "another start", "one column", "not all columns", "unknown"],
)
def test_other_indices_stay(body: str) -> None:
    assert rewritten(f"{GRID} {body}")[-1] == "GatherND"


def test_repeated_rows_are_more_than_new_axes() -> None:
    body = f"{GRID} both = Concat <axis = -1> (r) y = GatherND(x, both)"
    assert rewritten(body, "float[batch, 1, seq, k] y")[-1] == "GatherND"


def test_batch_dimensions_are_another_thing() -> None:
    body = """jb = Expand(j, s) e = Constant <value_ints = [2]> () ju = Unsqueeze(jb, e) b2 = Concat <axis = -1> (ju)
        y = GatherND <batch_dims = 1> (x, b2)"""
    assert rewritten(body, "float[batch, seq] y")[-1] == "GatherND"


ONES = """behind = Constant <value_ints = [2, 3]> () before = Constant <value_ints = [1, 2]> ()
    wide = Unsqueeze(x, behind) s = Shape(x) zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
    b = Gather(s, zero) n = Gather(s, one) i = Range(zero, b, one) j = Range(zero, n, one)
    start = Mul(i, n) far = Constant <value_ints = [1, 2, 3]> () start3 = Unsqueeze(start, far)
    sides = Constant <value_ints = [0, 2, 3]> () column = Unsqueeze(j, sides) index = Add(start3, column)
    all = Constant <value_ints = [-1]> ()"""


@pytest.mark.parametrize(("data", "is_left_out"), [("Identity(wide)", True), ("Unsqueeze(x, before)", False)])
def test_indices_of_all_elements_between_axes_of_size_1(data: str, is_left_out: bool) -> None:
    """What PyTorch's exporter makes of a pool to one element: `as_strided`. Elsewhere, the axes would have to move."""
    body = f"{ONES} data = {data} flat = Reshape(data, all) y = Gather(flat, index)"
    text = f"g (float[batch, seq] x) => (float[batch, seq, 1, 1] y) {{ {body} }}"
    assert ("Gather" not in operators(apply(text, positions.run)[0])[-1]) == is_left_out


def test_indices_into_the_flat_tensor_only_add_axes() -> None:
    body = """flat = Flatten <axis = 2> (x) start = Mul(rows, n) index = Add(columns, start) y = Gather(flat, index)"""
    assert rewritten(body, "float[batch, 1, seq, 1] y") == ["Unsqueeze"]


@pytest.mark.parametrize(
    "body",
    [
        "flat = Flatten <axis = 2> (x) t = Mul(columns, b) index = Add(t, rows) y = Gather(flat, index)",
        "flat = Flatten <axis = 2> (x) t = Mul(rows, n) k = Add(t, j) index = Sub(k, one) y = Gather(flat, index)",
        "flat = Flatten <axis = 2> (x) w = Expand(columns, full) index = Sub(w, one) y = Gather(flat, index)",
        "f = Flatten <axis = 1> (x) t = Mul(rows, one) index = Add(t, columns) y0 = Gather(f, rows) y = Identity(y0)",
    ],
    ids=["column by column", "another start", "one row again and again", "rows"],
)
def test_other_indices_into_the_flat_tensor_stay(body: str) -> None:
    full = "all = Max(rows, columns) full = Shape(all)"
    outputs = "float[a, c, d, e] y"
    assert rewritten(f"{full} {body}", outputs)[-1] == "Gather"


@pytest.mark.parametrize("test", ["GreaterOrEqual(rows, zero)", "Less(rows, b)", "LessOrEqual(rows, b)"])
def test_a_comparison_that_always_holds_only_repeats(test: str) -> None:
    assert "And" not in rewritten(f"t = {test} y = And(t, m)", "bool[batch, 1, seq] y")


def test_a_comparison_that_always_holds_is_true_without_positions() -> None:
    assert rewritten("y = GreaterOrEqual(rows, zero)", "bool[batch, 1, 1] y")[-1] == "Expand"


@pytest.mark.parametrize(
    "test", ["Greater(rows, zero)", "Less(b, rows)", "Less(columns, b)", "LessOrEqual(rows, zero)"]
)
def test_a_comparison_that_may_fail_stays(test: str) -> None:
    assert rewritten(f"t = {test} y = And(m, t)", "bool[batch, 1, seq] y")[-1] == "And"


def test_what_a_comparison_repeats_stays_repeated() -> None:
    body = "k = Unsqueeze(j, last) t = GreaterOrEqual(k, zero) y = And(t, m)"
    assert rewritten(body, "bool[batch, seq, seq] y")[-2:] == ["Shape", "Expand"]


@pytest.mark.parametrize(("fill", "is_left_out"), [("1.0", True), ("0.0", False), ("0.5", False)])
def test_a_mask_of_ones_only_repeats(fill: str, is_left_out: bool) -> None:
    """Half a one is true as a boolean, and none as an integer on the way to it."""
    ones = f"o = ConstantOfShape <value = float {{{fill}}}> (s) k = Cast <to = 7> (o) t2 = Cast <to = 9> (k)"
    middle = "middle = Constant <value_ints = [1]> () t = Unsqueeze(t2, middle)"
    assert ("And" not in rewritten(f"{ones} {middle} y = And(t, m)", "bool[batch, 1, seq] y")) == is_left_out

"""Transposes around axes that go or come; and those that move something."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxlift.rewriting.simplifying import transposed_axes
from rewriting.graphs import apply, operators

MOVED = "s = Squeeze(x, k) t = Transpose <perm = [0, 2, 1]> (s)"
GOES = {
    "reduced": ("[1, 2]", "t = Transpose <perm = [0, 2, 3, 1]> (x) y = ReduceMax <keepdims = 0> (t, k)", ["ReduceMax"]),
    "negative": ("[-2]", "t = Transpose <perm = [0, 2, 1, 3]> (x) y = ReduceMin <keepdims = 0> (t, k)", ["ReduceMin"]),
    "squeezed": ("[3]", "t = Transpose <perm = [1, 2, 3, 0]> (x) y = Squeeze(t, k)", ["Squeeze"]),
    "squeezed first": ("[1]", "t = Transpose <perm = [3, 0, 1, 2]> (x) y = Squeeze(t, k)", ["Squeeze", "Transpose"]),
    "added": ("[4]", "u = Unsqueeze(x, k) y = Transpose <perm = [0, 4, 1, 2, 3]> (u)", ["Unsqueeze"]),
    "two added": ("[0, 5]", "u = Unsqueeze(x, k) y = Transpose <perm = [1, 2, 0, 3, 5, 4]> (u)", ["Unsqueeze"]),
    "gone and back": (
        "[0]",
        "s = Squeeze(x, k) t = Transpose <perm = [0, 2, 1]> (s) y = Unsqueeze(t, k)",
        ["Transpose"],
    ),
}
STAYS = {
    "reduced, out of order": ("[1]", "t = Transpose <perm = [3, 0, 1, 2]> (x) y = ReduceMax <keepdims = 0> (t, k)"),
    "kept": ("[1, 2]", "t = Transpose <perm = [0, 2, 3, 1]> (x) y = ReduceMax(t, k)"),
    "added, but moved": ("[4]", "u = Unsqueeze(x, k) y = Transpose <perm = [1, 4, 0, 2, 3]> (u)"),
    "gone, and more back": ("[0]", f"l = Constant <value_ints = [0, 1]> () {MOVED} y = Unsqueeze(t, l)"),
    "squeezed, but read": ("[1]", "t = Transpose <perm = [3, 0, 1, 2]> (x) s = Squeeze(t, k) e = Exp(t) y = Mul(s, e)"),
}


@pytest.mark.parametrize("case", GOES)
def test_a_transpose_that_moves_nothing_goes(case: str) -> None:
    axes, body, expected = GOES[case]
    model, _ = apply(text(axes, body), transposed_axes.run)
    assert operators(model) == expected


@pytest.mark.parametrize("case", STAYS)
def test_other_transposes_stay(case: str) -> None:
    _, count = apply(text(*STAYS[case]), transposed_axes.run)
    assert count == 0


@settings(max_examples=60, deadline=None, derandomize=True)
@given(draw=st.data())
def test_random_axes_compute_the_same(draw: st.DataObject) -> None:
    """Axes of size 1 go, the others move, and axes come."""
    rank = draw.draw(st.integers(2, 5))
    gone = sorted(draw.draw(st.sets(st.integers(0, rank - 1), min_size=1, max_size=rank - 1)))
    order = draw.draw(st.permutations(range(rank - len(gone))))
    many = draw.draw(st.sampled_from([len(gone), 1]))
    new = sorted(draw.draw(st.sets(st.integers(0, len(order) + many - 1), min_size=many, max_size=many)))
    back = [axis - rank if draw.draw(st.booleans()) else axis for axis in gone]
    sizes = ", ".join("1" if axis in gone else str(axis + 2) for axis in range(rank))
    model, count = apply(
        f"""g (float[{sizes}] x) => (y) {{
            k = Constant <value_ints = {back}> () l = Constant <value_ints = {new}> ()
            s = Squeeze(x, k) t = Transpose <perm = {list(order)}> (s) y = Unsqueeze(t, l)
        }}""",
        transposed_axes.run,
    )
    assert (operators(model) == ["Transpose"]) == (len(new) == len(gone)) == (count == 1)


def text(axes: str, body: str) -> str:
    return f"g (float[1, 3, 4, 5] x) => (y) {{ k = Constant <value_ints = {axes}> () {body} }}"

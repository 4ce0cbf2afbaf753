"""Transposes around axes that go or come; and those that move something."""

from __future__ import annotations

import pytest

from onnxlift.passes import transposed_axes

from .graphs import apply, operators

GOES = {
    "reduced": ("[1, 2]", "t = Transpose <perm = [0, 2, 3, 1]> (x) y = ReduceMax <keepdims = 0> (t, k)", ["ReduceMax"]),
    "negative": ("[-2]", "t = Transpose <perm = [0, 2, 1, 3]> (x) y = ReduceMin <keepdims = 0> (t, k)", ["ReduceMin"]),
    "squeezed": ("[3]", "t = Transpose <perm = [1, 2, 3, 0]> (x) y = Squeeze(t, k)", ["Squeeze"]),
    "squeezed first": ("[1]", "t = Transpose <perm = [3, 0, 1, 2]> (x) y = Squeeze(t, k)", ["Squeeze", "Transpose"]),
    "added": ("[4]", "u = Unsqueeze(x, k) y = Transpose <perm = [0, 4, 1, 2, 3]> (u)", ["Unsqueeze"]),
    "two added": ("[0, 5]", "u = Unsqueeze(x, k) y = Transpose <perm = [1, 2, 0, 3, 5, 4]> (u)", ["Unsqueeze"]),
}
STAYS = {
    "reduced, out of order": ("[1]", "t = Transpose <perm = [3, 0, 1, 2]> (x) y = ReduceMax <keepdims = 0> (t, k)"),
    "kept": ("[1, 2]", "t = Transpose <perm = [0, 2, 3, 1]> (x) y = ReduceMax(t, k)"),
    "added, but moved": ("[4]", "u = Unsqueeze(x, k) y = Transpose <perm = [1, 4, 0, 2, 3]> (u)"),
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


def text(axes: str, body: str) -> str:
    return f"g (float[1, 3, 4, 5] x) => (y) {{ k = Constant <value_ints = {axes}> () {body} }}"

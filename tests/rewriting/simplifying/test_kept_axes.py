"""Reductions whose axes are put back; and those that something else is done with."""

from __future__ import annotations

import pytest

from onnxlift.rewriting.simplifying import kept_axes
from rewriting.graphs import apply, operators


def rewritten(gone: str, added: str, op_type: str = "ReduceMean", keepdims: int = 0, rest: str = "") -> list[str]:
    """The operators after the pass, which must not change the numbers."""
    text = f"""g (float[batch, 3, 5] x) => (y{", r" if rest else ""}) {{
        gone = Constant <value_ints = [{gone}]> () added = Constant <value_ints = [{added}]> ()
        r = {op_type} <keepdims = {keepdims}> (x, gone) y = Unsqueeze(r, added) }}"""
    return operators(apply(text, kept_axes.run)[0])


@pytest.mark.parametrize(
    ("gone", "added"), [("-1", "2"), ("1", "-2"), ("1, 2", "1, 2"), ("0, 2", "-1, 0"), ("2, 1, 0", "0, 1, 2")]
)
@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceMax", "ReduceLogSumExp"])
def test_axes_that_are_put_back_are_kept(gone: str, added: str, op_type: str) -> None:
    assert rewritten(gone, added, op_type) == [op_type]


@pytest.mark.parametrize(("gone", "added"), [("2", "1"), ("1, 2", "1"), ("2", "2, 3"), ("1", "0")])
def test_other_axes_stay(gone: str, added: str) -> None:
    assert rewritten(gone, added) == ["ReduceMean", "Unsqueeze"]


def test_axes_that_were_kept_already_and_values_that_others_read_stay() -> None:
    assert rewritten("2", "2", keepdims=1) == ["ReduceMean", "Unsqueeze"]
    assert rewritten("2", "2", rest="r") == ["ReduceMean", "Unsqueeze"]

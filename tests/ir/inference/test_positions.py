"""Integers that a graph counts are known before the model runs, up to the sizes."""

from __future__ import annotations

import pytest

from onnxlift.ir.inference.positions import Grid, Positions
from rewriting.idioms.recognising import parse, simplified


def grid(bounds: str, counted: str = "Range(zero, n, two)", before: str = "") -> Grid | None:
    """What is known of a part of the counted integers of an axis."""
    text = f"""g (float[seq] x) => (y) {{
        zero = Constant <value_int = 0> () two = Constant <value_int = 2> () s = Shape(x) n = Squeeze(s)
        one = Constant <value_ints = [1]> () big = Constant <value_ints = [9223372036854775807]> ()
        start = Constant <value_ints = [3]> () back = Constant <value_ints = [-3]> ()
        down = Constant <value_ints = [-1]> () axis = Constant <value_ints = [0]> ()
        {before} r = {counted} y = Slice(r, {bounds})
    }}"""
    graph = simplified(parse(text)).graph
    return Positions().grid(graph.outputs[0])


def test_a_slice_begins_where_it_says_and_goes_on_by_its_steps() -> None:
    found = grid("start, big, axis")
    assert found is not None and (found.offset, found.strides) == (6, (2,))
    found = grid("one, big, axis, start")
    assert found is not None and (found.offset, found.strides) == (2, (6,))


@pytest.mark.parametrize(
    ("bounds", "counted"),
    [
        ("back, big, axis", "Range(zero, n, two)"),
        ("down, back, axis, down", "Range(zero, n, two)"),
        ("s, big, axis", "Range(zero, n, two)"),
        ("one, big, axis, s", "Range(zero, n, two)"),
        ("one, big, axis", "Squeeze(nz) nz = NonZero(x)"),
        (
            "one, big, one",
            "Expand(col, wide) all = Range(zero, n, two) wide = Concat <axis = 0> (s, start) col = Unsqueeze(all, one)",
        ),
    ],
    ids=["from the end", "backwards", "a computed start", "a computed step", "not counted", "several axes"],
)
def test_other_slices_are_not_known(bounds: str, counted: str) -> None:
    last, _, before = counted.partition(") ")
    assert grid(bounds, f"{last.rstrip(')')})", before) is None

"""Reshapes that only take away or add axes of size 1; and those that do more."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxlift.rewriting.simplifying import unit_axes
from rewriting.graphs import apply, normal_form, operators, parse

Shape = Sequence[int | str]


def reshape(before: Shape, after: Shape) -> str:
    """A reshape to numbers, and to sizes that are read from the input."""
    places = {size: before.index(size) for size in after if isinstance(size, str)}
    reads = [f"i_{size} = Constant <value_ints = [{i}]> () {size} = Gather(s, i_{size})" for size, i in places.items()]
    numbers = [f"c_{size} = Constant <value_ints = [{size}]> ()" for size in {*after} if isinstance(size, int)]
    target = ", ".join(size if isinstance(size, str) else f"c_{size}" for size in after)
    return f"""g (float[{", ".join(map(str, before))}] x) => (float[{", ".join(map(str, after))}] y) {{
        s = Shape(x) {" ".join((*reads, *numbers))} t = Concat <axis = 0> ({target}) y = Reshape(x, t)
    }}"""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (("batch", 1, 4, 8), ("batch", 4, 8), "Squeeze"),
        ((1, 4, 8), (4, 8), "Squeeze"),
        ((4, 1, 1, 8, 2), (4, 8, 2), "Squeeze"),
        (("batch", "seq"), ("batch", 1, "seq"), "Unsqueeze"),
        ((4, 8), (1, 1, 4, 8), "Unsqueeze"),
    ],
)
def test_a_run_of_ones_that_goes_or_comes(before: Shape, after: Shape, expected: str) -> None:
    model, count = apply(reshape(before, after), unit_axes.run)
    assert operators(model) == [expected] and count == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("batch", 8, 1, 1), ("batch", 8)),  # people write it as `x.flatten(1)`
        (("batch", "seq", 8), ("batch", "seq", 1, 8)),  # perhaps a single head
        (("batch", 4, 8), ("batch", 32)),
        ((2, 1, 4, 1, 8), (2, 4, 8)),  # two runs
        ((2, 1, 4), (4, 1, 2)),
        ((1, 6, 2), (1, 2, 6)),
        ((2, 0, 3, 5), (2, 0, 5)),  # of no elements
    ],
)
def test_other_reshapes_stay(before: Shape, after: Shape) -> None:
    assert unit_axes.run(normal_form(parse(reshape(before, after)))) == 0


@pytest.mark.parametrize("shape", ["?, 1, ?, 3", "1, ?, ?, ?"])
def test_sizes_that_are_not_known_are_not_taken_for_equal(shape: str) -> None:
    text = f"""g (float[{shape}] x, int64[1] a, int64[1] b) => (y) {{
        c = Constant <value_ints = [3]> () t = Concat <axis = 0> (a, b, c) y = Reshape(x, t)
    }}"""
    assert unit_axes.run(normal_form(parse(text))) == 0


@pytest.mark.parametrize("opset", [12, 18])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(sizes=st.lists(st.sampled_from([1, 1, 2, 3, "batch", "seq"]), min_size=1, max_size=5), ones=st.data())
def test_random_shapes_compute_the_same(opset: int, sizes: list[int | str], ones: st.DataObject) -> None:
    sizes = [size for place, size in enumerate(sizes) if isinstance(size, int) or size not in sizes[:place]]
    place, many = ones.draw(st.integers(0, len(sizes))), ones.draw(st.integers(1, 2))
    longer = [*sizes[:place], *[1] * many, *sizes[place:]]
    for before, after in ((sizes, longer), (longer, sizes)):
        _, count = apply(reshape(before, after), unit_axes.run, opset=opset)
        assert count == 1 or len(after) == (2 if after is sizes else 4)

"""Lookups by one array of indices; and those by several."""

from __future__ import annotations

import pytest

from onnxlift.rewriting.simplifying import single_index
from rewriting.graphs import apply, operators


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ("i = Constant <value = int64[2, 3, 1] {0, 4, -2, 1, 3, -5}> ()", "Gather"),
        ("i = Constant <value = int64[3, 2] {0, 2, 4, 1, -1, 0}> ()", "GatherND"),
        (
            "j = Constant <value_ints = [4, 0, -1]> () last = Constant <value_ints = [-1]> () i = Unsqueeze(j, last)",
            "Gather",
        ),
        (
            "j = Constant <value_ints = [4, 2]> () first = Constant <value_ints = [0]> () i = Unsqueeze(j, first)",
            "GatherND",
        ),
    ],
)
def test_one_index_for_each_row_is_a_gather(indices: str, expected: str) -> None:
    model, _ = apply(f"g (float[5, 3] x) => (y) {{ {indices} y = GatherND(x, i) }}", single_index.run)
    assert operators(model)[-1] == expected

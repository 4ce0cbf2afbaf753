"""What is no lookup of whole slices. What is one: `test_indexing.py`."""

from __future__ import annotations

import numpy as np
import pytest

from rewriting.idioms.recognising import found, parse

SLICES = "u = Unsqueeze(i, outer) w = Expand(u, wide) y = GatherElements <axis = 1> (x, w)"


def gathered(text: str = SLICES, x: str = "2, 6, 4", i: str = "3", wide: object = (2, 1, 4)) -> list[str]:
    known = {"outer": np.array([0, 2]), "wide": np.array(wide)}
    return found(parse(f"g (float[{x}] x, int64[{i}] i) => (y) {{ {text} }}", **known))


def test_slices() -> None:
    assert gathered() == ["Gather"]
    assert gathered(SLICES.replace("axis = 1", "axis = -2")) == ["Gather"]
    assert gathered(SLICES.replace("Expand", "Tile")) == ["Gather"]


def test_another_lookup_by_the_same_indices() -> None:
    assert gathered(SLICES.replace("GatherElements", "Gather"))[-3:] == ["Unsqueeze", "Expand", "Gather"]


@pytest.mark.parametrize(
    ("x", "i", "wide"),
    [
        ("2, 6, 5", "3", (2, 1, 4)),  # not all of the last axis
        ("3, 6, 4", "3", (2, 1, 4)),
        ("2, 6, 4", "1", (2, 3, 4)),  # the same row three times
    ],
)
def test_other_elements(x: str, i: str, wide: object) -> None:
    assert gathered(x=x, i=i, wide=wide)[-1] == "GatherElements"


def test_indices_along_another_axis() -> None:
    assert gathered(SLICES.replace("axis = 1", "axis = 0"), "5, 3, 4", wide=(3, 1, 4))[-1] == "GatherElements"


def test_indices_of_unknown_shape() -> None:
    text = "w = Expand(i, wide) y = GatherElements <axis = 1> (x, w)"
    known = {"wide": np.array([2, 6, 4])}
    proto = parse(f"g (float[2, 6, 4] x, int64[] i) => (y) {{ {text} }}", **known)
    assert found(proto)[-1] == "GatherElements"

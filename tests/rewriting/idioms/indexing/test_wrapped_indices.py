"""Indices that are not only counted from the end. Those that are: `test_indexing.py`."""

from __future__ import annotations

import numpy as np
import pytest

from rewriting.idioms.recognising import found, parse, simplified

WRAPPED = "low = Less(i, zero) more = Add(i, n) w = Where(low, more, i)"
LOOKUP = "y = GatherElements <axis = 1> (x, w)"
INPUTS = "float[batch, 6] x, int64[batch, 4] i, int64[batch, 4] j"


def wrapped(text: str = f"{WRAPPED} {LOOKUP}", inputs: str = INPUTS, n: object = 6, zero: object = 0) -> list[str]:
    known = {"n": np.array(n), "zero": np.array(zero), "shape": np.array([1, 4])}
    used = {name: data for name, data in known.items() if f"{name})" in text or f"{name}," in text}
    return found(parse(f"g ({inputs}) => (y) {{ {text} }}", **used))


@pytest.mark.parametrize(
    "end",
    [
        LOOKUP,
        LOOKUP.replace("axis = 1", "axis = -1"),
        "y = ScatterElements <axis = 1> (x, w, u)",
        "y = Gather <axis = 1> (x, w)",
    ],
)
def test_indices_from_the_end(end: str) -> None:
    text = f"u = Cast <to = 1> (j) {WRAPPED} {end}"
    assert "Where" not in wrapped(text, INPUTS.replace(", 4]", ", 1]") if "Scatter" in end else INPUTS)


@pytest.mark.parametrize(("less", "add"), [("i", "i"), ("e", "i"), ("i", "e"), ("e", "e")])
def test_indices_that_are_expanded(less: str, add: str) -> None:
    text = f"e = Expand(i, shape) low = Less({less}, zero) more = Add({add}, n) w = Where(low, more, e) {LOOKUP}"
    assert "Where" not in wrapped(text, "float[1, 6] x, int64[1, 1] i, int64[1] j")


@pytest.mark.parametrize(
    ("old", "new"),
    [("Less(i, zero)", "Less(j, zero)"), ("Add(i, n)", "Add(j, n)"), ("Less(i, zero)", "Less(i, n)")],
    ids=["condition", "sum", "number"],
)
def test_other_indices(old: str, new: str) -> None:
    assert "Where" in operators(f"{WRAPPED} {LOOKUP}".replace(old, new))


def operators(text: str, n: int = 6) -> list[str]:
    """For indices that would be out of range."""
    proto = parse(f"g ({INPUTS}) => (y) {{ {text} }}", n=np.array(n), zero=np.array(0))
    return [node.op_type for node in simplified(proto).graph]


def test_another_size() -> None:
    assert "Where" in operators(f"{WRAPPED} {LOOKUP}", n=5)


def test_the_same_numbers_for_something_else() -> None:
    text = f"{WRAPPED} y = Add(k, w)"
    assert "Where" in wrapped(text, "int64[6, 1, 1] k, int64[batch, 4] i", n=6)


def test_a_number_that_adds_an_axis() -> None:
    assert "Where" in wrapped(inputs="float[1, 6] x, int64[4] i, int64[4] j", zero=[[0]])
    text = f"{WRAPPED} y = Gather <axis = 0> (x, w)"
    assert "Where" in wrapped(text, "float[6, 3] x, int64[] i", n=[6])


def test_an_axis_that_there_is_not() -> None:
    """How many axes there are is known only once constants are folded: no rule on the file can tell."""
    text = f"""count = Cast <to = 7> (val_1) sizes = Slice(val_2, begin, count) wide = Reshape(x, sizes)
        {WRAPPED} y = GatherElements <axis = 2> (wide, w)"""
    known = {"begin": np.array([0]), "val_1": np.array([2], np.float32), "val_2": np.array([-1, 6, 6])}
    proto = parse(f"g ({INPUTS}) => (y) {{ {text} }}", n=np.array(6), zero=np.array(0), **known)
    assert [node.op_type for node in simplified(proto).graph] == ["Less", "Add", "Where", "GatherElements"]

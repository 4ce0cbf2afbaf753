"""Where pieces of a tensor were cut out."""

from __future__ import annotations

import numpy as np
import pytest

from onnxlift.ir.editing.edit import Edit, Names
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.parts.pieces import piece
from rewriting.idioms.recognising import parse
from rewriting.idioms.unsimplified import graph
from rewriting.running_stages import normalise

NUMBERS = {f"n{i}": np.array([i]) for i in (0, 1, 2, 3, 9)} | {"minus": np.array([-2]), "far": np.array([-9])}


def cut(text: str, x: str = "batch, 5, 7") -> tuple[int, int, int, int] | None:
    """The axis, the start, the length and the size of the axis, of a."""
    known = NUMBERS | {"both": np.array([1, 2]), "sizes": np.array([1, 2, 2])}
    used = {name: data for name, data in known.items() if f"{name})" in text or f"{name}," in text}
    edit, values = graph(f"g (float[{x}] x, int64[2] t) => (y) {{ {text} y = Neg(a) }}", **used)
    found = piece(edit, values["a"])
    return None if found is None else (found.axis, found.start, found.length, found.size)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = Slice(x, n1, n3, n1)", (1, 1, 2, 5)),
        ("a = Slice(x, minus, n9, n1, n1)", (1, 3, 2, 5)),
        ("a = Slice(x, far, n3, minus)", (1, 0, 3, 5)),
        ("a = Slice(x, n1, n3, n1, n2)", None),  # every second one
        ("a = Slice(x, n3, n0, n1, minus)", None),
        ("a = Slice(x, n0, n9, n1, n3)", None),
        ("a = Slice(x, both, both, both)", None),  # along two axes
        ("a = Slice(x, n0, n1, n0)", None),  # of an axis of unknown size
        ("n = Shape <start = 0, end = 1> (x) a = Slice(x, n, n9, n1)", None),
        ("n = Shape <start = 0, end = 1> (x) a = Slice(x, n1, n, n1)", None),
        ("a = Abs(x)", None),
        ("b, a, c = Split <axis = 1> (x, sizes)", (1, 1, 2, 5)),
        ("b, c, a = Split <axis = -2> (x, sizes)", (1, 3, 2, 5)),
        ("a, b, c = Split <axis = 1> (x, sizes)", (1, 0, 1, 5)),
        ("s = Concat <axis = 0> (n1, t) a, b, c = Split <axis = 1> (x, s)", (1, 0, 1, 5)),
        ("s = Concat <axis = 0> (t, n1) b, c, a = Split <axis = 1> (x, s)", None),  # after two of unknown length
        ("s = Concat <axis = 0> (t, n1) a, b, c = Split <axis = 1> (x, s)", None),
    ],
)
def test_pieces(text: str, expected: tuple[int, int, int, int] | None) -> None:
    assert cut(text) == expected


def test_pieces_of_what_has_unknown_axes() -> None:
    edit, values = graph("g (float[] x) => (y) { a = Slice(x, n1, n3, n1) y = Neg(a) }", **NUMBERS)
    assert piece(edit, values["a"]) is None


def test_an_axis_that_there_is_not() -> None:
    """In a branch, which may never run, no rule tells; and what the file says of the shape hides it."""
    text = """g (bool t, float[4, 5] x, float[4, 1] z) => (o) { o = If (t) <
        then_branch = a () => (float[4, 1] a) { a = Slice(x, n1, n2, n9) },
        else_branch = b () => (float[4, 1] b) { b = Neg(z) }
    > }"""
    model = load(parse(text, **{name: NUMBERS[name] for name in ("n1", "n2", "n9")}))
    normalise(model)
    (region,) = (each for each in regions(model) if each.graph[0].op_type == "Slice")
    assert piece(Edit(region, Names(model)), region.graph.outputs[0]) is None

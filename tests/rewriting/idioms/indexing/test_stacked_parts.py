"""A tensor all of whose parts are assigned is a stack, or its parts one behind the other."""

from __future__ import annotations

import numpy as np
import pytest

import onnxlift
from rewriting.idioms.recognising import found, parse

PLACES = {f"i{i}": np.array([[i]]) for i in range(3)} | {"i12": np.array([[1], [2]]), "i01": np.array([[0], [1]])}
INPUTS = "float[3, batch] x, float[1, batch] a, float[1, batch] b, float[1, batch] c, float[2, batch] d"
STACK = "p = ScatterND(x, i0, a) q = ScatterND(p, i2, b) y = ScatterND(q, i1, c)"


def joined(body: str, inputs: str = INPUTS) -> list[str]:
    operators = found(parse(f"g ({inputs}) => (y) {{ {body} }}", **PLACES))
    return [operator for operator in operators if operator not in ("Squeeze", "Unsqueeze")]


def test_all_places_are_a_stack_in_their_order() -> None:
    assert joined(STACK) == ["onnxlift.Stack"]
    body = "p = Exp(x) q = ScatterND(p, i0, a) r = ScatterND(q, i2, b) y = ScatterND(r, i1, c)"
    source = onnxlift.lift(parse(f"g ({INPUTS}) => (y) {{ {body} }}", **PLACES)).source
    assert "torch.stack((a.squeeze(0), c.squeeze(0), b.squeeze(0)))" in source and "exp" not in source


@pytest.mark.parametrize(
    "body",
    ["p = ScatterND(x, i0, a) y = ScatterND(p, i12, d)", "p = ScatterND(x, i12, d) y = ScatterND(p, i0, a)"],
)
def test_places_and_slices_are_joined(body: str) -> None:
    assert joined(body) == ["Concat"]


def test_what_is_written_again_counts_once() -> None:
    assert joined(f"o = ScatterND(x, i0, b) {STACK.replace('(x,', '(o,')}") == ["onnxlift.Stack"]


@pytest.mark.parametrize(
    "body",
    [
        "p = ScatterND(x, i0, a) y = ScatterND(p, i2, b)",
        "p = ScatterND(x, i12, d) y = ScatterND(p, i01, d)",
        "p = ScatterND(x, i0, a) e = Exp(p) q = ScatterND(e, i2, b) y = ScatterND(q, i1, c)",
        f"{STACK.replace('y =', 'r =')} s = Exp(p) y = Add(r, s)",
        "p = ScatterND(x, i0, a) t = Transpose(p) u = Transpose <perm = [1, 0]> (t) y = ScatterND(u, i2, b)",
    ],
    ids=["a place is left", "overlapping", "something between", "somebody reads", "two of three"],
)
def test_other_assignments_stay(body: str) -> None:
    operators = joined(body)
    assert "onnxlift.Stack" not in operators and "Concat" not in operators


def test_slices_that_overlap_stay_even_if_they_are_as_long_as_the_axis() -> None:
    body = "p = ScatterND(x, i12, d) y = ScatterND(p, i01, d)"
    assert "Concat" not in joined(body, INPUTS.replace("[3, batch]", "[4, batch]"))


def test_places_along_two_axes_stay() -> None:
    columns = np.stack(np.meshgrid(np.arange(3), [0], indexing="ij"), -1)
    text = "g (float[3, 2] x, float[1, 2] a, float[3, 1] b, float[1, 2] c) => (y) { BODY }"
    body = "p = ScatterND(x, i0, a) q = ScatterND(p, columns, b) r = ScatterND(q, i1, c) y = ScatterND(r, i2, a)"
    assert "onnxlift.Stack" not in found(parse(text.replace("BODY", body), columns=columns, **PLACES))


def test_an_axis_whose_size_is_open_stays() -> None:
    inputs = INPUTS.replace("[3, batch]", "[seq, batch]")
    body = "p = ScatterND(x, i0, a) q = ScatterND(p, i2, b) y = ScatterND(q, i1, c)"
    assert "onnxlift.Stack" not in joined(body, inputs)

"""What is no roll, though it looks like one. What is one: `test_taken_apart.py`."""

from __future__ import annotations

import numpy as np
import pytest

from rewriting.idioms import unsimplified
from rewriting.idioms.recognising import found, parse, simplified

ROLL = "a = Slice(x, n3, n9, n1) b = Slice(x, n0, n3, n1) y = Concat <axis = 1> (a, b)"
AGAIN = "c = Slice(y, n1, n9, n2) d = Slice(y, n0, n1, n2) z = Concat <axis = 2> (c, d)"
NUMBERS = {f"n{i}": np.array([i]) for i in (0, 1, 2, 3, 4, 9)}


def rolled(text: str, x: str = "float[batch, 6, 2] x", outputs: str = "y") -> list[str]:
    return found(parse(f"g ({x}) => ({outputs}) {{ {text} }}", **NUMBERS))


@pytest.mark.parametrize(
    "text", [ROLL, "b, a = Split <axis = 1, num_outputs = 2> (x) y = Concat <axis = -2> (a, b)"], ids=["slice", "split"]
)
def test_rolls(text: str) -> None:
    assert rolled(text) == ["onnxlift.Roll"]
    assert rolled(text, "double[batch, 6, 2] x") == ["onnxlift.Roll"]


def test_a_sum_of_pieces_is_none() -> None:
    assert "onnxlift.Roll" not in rolled(ROLL.replace("Concat <axis = 1>", "Add"))


def test_a_piece_that_begins_later_is_none() -> None:
    assert "onnxlift.Roll" not in rolled(ROLL.replace("Slice(x, n0, n3, n1)", "Slice(x, n1, n4, n1)"))


def test_integers_may_be_sizes() -> None:
    assert "onnxlift.Roll" not in rolled(ROLL, "int64[batch, 6, 2] x")


@pytest.mark.parametrize("piece", ["a", "b"])
def test_pieces_that_others_read_are_none(piece: str) -> None:
    assert "onnxlift.Roll" not in rolled(ROLL, outputs=f"y, {piece}")


def test_pieces_along_two_axes_are_none() -> None:
    """b is all of x."""
    text = "a = Slice(x, n2, n9, n1) b = Slice(x, n0, n2, n2) y = Concat <axis = 1> (a, b)"
    assert "onnxlift.Roll" not in unsimplified.found(parse(f"g (float[batch, 6, 2] x) => (y) {{ {text} }}", **NUMBERS))


def test_rolls_one_after_the_other_are_one_unless_the_first_is_read_elsewhere() -> None:
    assert rolled(f"{ROLL} {AGAIN}", outputs="z") == ["onnxlift.Roll"]
    for text, outputs in ((f"{ROLL} {AGAIN}", "z, y"), (f"{ROLL} {AGAIN} o = Exp(y)", "z, o")):
        assert rolled(text, outputs=outputs).count("onnxlift.Roll") == 2
        graph = simplified(parse(f"g (float[batch, 6, 2] x) => ({outputs}) {{ {text} }}", **NUMBERS)).graph
        assert [[*node.attributes["axes"].as_ints()] for node in graph if node.op_type == "Roll"] == [[1], [2]]


def test_rolls_along_one_axis_add_up() -> None:
    text = f"{ROLL} c = Slice(y, n1, n9, n1) d = Slice(y, n0, n1, n1) z = Concat <axis = 1> (c, d)"
    assert rolled(text, "float[batch, 5, 2] x", "z") == ["onnxlift.Roll"]

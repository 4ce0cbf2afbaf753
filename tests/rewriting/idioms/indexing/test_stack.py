"""What is no stack. What is one: `test_small_idioms.py`."""

from __future__ import annotations

import numpy as np
import pytest

from rewriting.idioms.recognising import found, parse, simplified

STACK = "u = Unsqueeze(x, k) v = Unsqueeze(z, k) y = Concat <axis = 1> (u, v)"
INPUTS = "float[batch, 3] x, float[batch, 3] z"


def stacked(text: str, inputs: str = INPUTS, k: object = (1,)) -> list[str]:
    return found(parse(f"g ({inputs}) => (y) {{ {text} }}", k=np.array(k)))


@pytest.mark.parametrize("k", [(1,), (-2,)])
def test_stacks(k: tuple[int, ...]) -> None:
    assert stacked(STACK, k=k) == ["onnxlift.Stack"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Concat <axis = 1> (u, v)", "Concat <axis = 2> (u, v)"),
        ("v = Unsqueeze(z, k)", "w = Exp(z) t = Unsqueeze(w, k) v = Neg(t)"),
    ],
)
def test_other_ways_to_join(old: str, new: str) -> None:
    assert "onnxlift.Stack" not in stacked(STACK.replace(old, new))


def test_parts_that_got_two_axes() -> None:
    assert "onnxlift.Stack" not in stacked(STACK, k=(1, 2))


def test_another_operator_along_such_an_axis() -> None:
    text = STACK.replace("Concat", "GatherElements").replace("(z, k)", "(i, k)")
    assert "onnxlift.Stack" not in stacked(f"i = Sub(j, j) {text}", "float[batch, 3] x, int64[batch, 3] j")


def test_numbers_in_a_list_may_be_sizes() -> None:
    text = STACK.replace("axis = 1", "axis = 0")
    assert "onnxlift.Stack" not in stacked(text, "float x, float z", (0,))


def test_text_and_axes_that_are_not_known() -> None:
    def operators(inputs: str, **known: np.ndarray) -> list[str]:
        return [node.op_type for node in simplified(parse(f"g ({inputs}) => (y) {{ {STACK} }}", **known)).graph]

    assert "Concat" in operators(INPUTS.replace("float", "string"), k=np.array([1]))
    assert "Concat" in operators(f"{INPUTS}, int64[1] k")

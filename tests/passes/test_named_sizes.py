"""Sizes of what is inside the model are read from the inputs that have them."""

from __future__ import annotations

import pytest

from onnxlift.passes import named_sizes

from .graphs import apply


def measured(body: str) -> list[str]:
    """The names of the values whose shapes are read after the pass, which must not change the numbers."""
    constants = (
        "zero = Constant <value_int = 0> () one = Constant <value_int = 1> () two = Constant <value_ints = [1]> ()"
    )
    text = f"g (float[batch, seq] x, float[seq, batch] z) => (int64[k] y) {{ {constants} h = Transpose(x) {body} }}"
    model = apply(text, named_sizes.run)[0]
    return [str(node.inputs[0].name) for node in model.graph if node.op_type == "Shape" and node.inputs[0] is not None]


def test_a_size_is_read_from_the_first_input_that_has_it() -> None:
    assert measured("s = Shape(h) n = Gather(s, zero) y = Range(zero, n, one)") == ["x"]


def test_a_list_of_one_size_stays_a_list() -> None:
    assert measured("s = Shape(h) n = Gather(s, two) y = Identity(n)") == ["x"]


@pytest.mark.parametrize(
    ("body", "tensor"),
    [
        ("s = Shape(z) n = Gather(s, zero) y = Range(zero, n, one)", "z"),
        ("c = Concat <axis = 0> (h, h) s = Shape(c) n = Gather(s, zero) y = Range(zero, n, one)", "c"),
        ("both = Constant <value_ints = [1, 0]> () s = Shape(h) y = Gather(s, both)", "h"),
    ],
    ids=["an input", "a size that no input has", "several sizes"],
)
def test_others_are_read_where_they_were(body: str, tensor: str) -> None:
    assert measured(body) == [tensor]

"""Sizes of what is inside the model are read from the inputs that have them."""

from __future__ import annotations

import pytest

from onnxlift.rewriting.simplifying import named_sizes
from rewriting.graphs import apply, normal_form, parse

SUM = "p = ReduceMax <keepdims = 0> (h, two) q = ReduceMax <keepdims = 0> (x, two) c = Concat <axis = 0> (p, q)"
ALSO = "int64[k] y, float[seq, batch] other"


def measured(body: str, outputs: str = "int64[k] y") -> list[str]:
    """The names of the values whose shapes are read after the pass, which must not change the numbers."""
    constants = (
        "zero = Constant <value_int = 0> () one = Constant <value_int = 1> () two = Constant <value_ints = [1]> ()"
    )
    text = f"g (float[batch, seq] x, float[seq, batch] z) => ({outputs}) {{ {constants} h = Transpose(x) {body} }}"
    model = apply(text, named_sizes.run)[0]
    return [str(node.inputs[0].name) for node in model.graph if node.op_type == "Shape" and node.inputs[0] is not None]


def test_a_size_is_read_from_the_first_input_that_has_it() -> None:
    assert measured("s = Shape(h) n = Gather(s, zero) y = Range(zero, n, one)") == ["x"]


def test_a_list_of_one_size_stays_a_list() -> None:
    assert measured("s = Shape(h) n = Gather(s, two) y = Identity(n)") == ["x"]


def test_a_size_that_is_sliced_is_read_from_the_input() -> None:
    body = "last = Constant <value_ints = [-1]> () first = Constant <value_ints = [-2]> ()"
    assert measured(f"{body} s = Shape(h) y = Slice(s, first, last)") == ["x"]


@pytest.mark.parametrize("tensor", ["h", "z"])
def test_the_shape_of_one_axis_is_read_from_the_first_input(tensor: str) -> None:
    assert measured(f"y = Shape <start = 0, end = 1> ({tensor}) other = Neg({tensor})", ALSO) == ["x"]


def test_inputs_of_equal_sizes_are_measured_once() -> None:
    body = "s = Shape(z) n = Gather(s, zero) y = Range(zero, n, one)"
    assert measured(f"{body} other = Neg(z)", ALSO) == ["x"]
    assert measured(body) == ["z"]  # which is there for nothing else


@pytest.mark.parametrize("times", [2, 3, 4])
def test_a_multiple_of_a_size_is_read_from_the_first_input_that_has_the_size(times: int) -> None:
    parts = ", ".join(["h"] * times)
    body = f"c = Concat <axis = 0> ({parts}) s = Shape(c) n = Gather(s, zero) y = Range(zero, n, one)"
    assert measured(body) == ["x"]
    assert measured(body.replace("zero) y = Range(zero, n, one)", "two) y = Neg(n)")) == ["x"]


@pytest.mark.parametrize(
    ("body", "tensor"),
    [
        ("c = Flatten <axis = 0> (h) s = Shape(c) n = Gather(s, one) y = Range(zero, n, one)", "c"),
        (f"{SUM} s = Shape(c) n = Gather(s, zero) y = Range(zero, n, one)", "c"),
        ("both = Constant <value_ints = [1, 0]> () s = Shape(h) y = Gather(s, both)", "h"),
    ],
    ids=["a product of sizes", "a sum of sizes", "several sizes"],
)
def test_others_are_read_where_they_were(body: str, tensor: str) -> None:
    assert measured(body) == [tensor]


def test_a_sum_is_no_multiple_of_a_size_that_is_called_like_one() -> None:
    """`4*seq + 1` is not four times `seq + 1`."""
    proto = parse(
        """g (float[seq] x, float[more] z) => (int64[1] y) {
            one = Constant <value_floats = [1.0]> () first = Constant <value_ints = [0]> ()
            c = Concat <axis = 0> (x, x, x, x, one) s = Shape(c) y = Gather(s, first)
        }"""
    )
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "seq + 1"
    assert named_sizes.run(normal_form(proto)) == 0

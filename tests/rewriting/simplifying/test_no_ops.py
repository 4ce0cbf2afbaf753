"""What passes its input on goes; what only looks like it stays."""

from __future__ import annotations

import pytest

from onnxlift.rewriting.simplifying import no_ops
from rewriting.graphs import apply, normal_form, operators, parse
from rewriting.running_stages import simplify

ONE, ZERO, MINUS_ZERO = "value_float = 1.0", "value_float = 0.0", "value_float = -0.0"

GOES = {
    "cast to its own type": ("float[n, 3] x", "", "Cast <to = 1> (x)"),
    "transpose in order": ("float[n, 3] x", "", "Transpose <perm = [0, 1]> (x)"),
    "transpose of a vector": ("float[n] x", "", "Transpose(x)"),
    "reshape to its own shape": ("float[n, 3] x", "s = Constant <value_ints = [-1, 3]> ()", "Reshape(x, s)"),
    "flatten of a matrix": ("float[n, 3] x", "", "Flatten(x)"),
    "expand to its own shape": ("float[n, 3] x", "s = Shape(x)", "Expand(x, s)"),
    "tile by one": ("float[n, 3] x", "r = Constant <value_ints = [1, 1]> ()", "Tile(x, r)"),
    "pad by zero": ("float[n, 3] x", "p = Constant <value_ints = [0, 0, 0, 0]> ()", "Pad(x, p)"),
    "slice of everything": (
        "float[n, 3] x",
        "b = Constant <value_ints = [0]> () e = Constant <value_ints = [9223372036854775807]> ()",
        "Slice(x, b, e)",
    ),
    "concat of one": ("float[n, 3] x", "", "Concat <axis = 0> (x)"),
    "the largest of one": ("float[n, 3] x", "", "Max(x)"),
    "split into one": ("float[n, 3] x", "", "Split <num_outputs = 1> (x)"),
    "dropout of nothing": (
        "float[n, 3] x",
        "r = Constant <value_float = 0.0> () t = Constant <value = bool {1}> ()",
        "Dropout(x, r, t)",
    ),
    "times one": ("float[n, 3] x", f"c = Constant <{ONE}> ()", "Mul(c, x)"),
    "over one": ("float[n, 3] x", f"c = Constant <{ONE}> ()", "Div(x, c)"),
    "to the power of one": ("float[n, 3] x", f"c = Constant <{ONE}> ()", "Pow(x, c)"),
    "minus zero": ("float[n, 3] x", f"c = Constant <{ZERO}> ()", "Sub(x, c)"),
    "plus negative zero": ("float[n, 3] x", f"c = Constant <{MINUS_ZERO}> ()", "Add(x, c)"),
    "plus zero, of integers": ("int64[n, 3] x", "c = Constant <value_int = 0> ()", "Add(x, c)"),
    "not below minus infinity": ("float[n, 3] x", "c = Constant <value = float {-inf}> ()", "Max(x, c)"),
    "not above infinity": ("float[n, 3] x", "c = Constant <value = float {inf}> ()", "Min(c, x)"),
    "and true": ("bool[n, 3] x", "c = Constant <value = bool {1}> ()", "And(x, c)"),
    "where true": ("float[n, 3] x", f"b = Constant <value = bool {{1}}> () c = Constant <{ONE}> ()", "Where(b, x, c)"),
    "where false": (
        "float[n, 3] x",
        f"b = Constant <value = bool[3] {{0, 0, 0}}> () c = Constant <{ONE}> ()",
        "Where(b, c, x)",
    ),
}
STAYS = {
    "not above minus infinity": ("float[n, 3] x", "c = Constant <value = float {-inf}> ()", "Min(x, c)"),
    "where true here and there": (
        "float[n, 3] x",
        f"b = Constant <value = bool[3] {{1, 0, 1}}> () c = Constant <{ONE}> ()",
        "Where(b, x, c)",
    ),
    "where true, that broadcasts": (
        "float[n, 1] x",
        f"b = Constant <value = bool[2] {{1, 1}}> () c = Constant <{ONE}> ()",
        "Where(b, x, c)",
    ),
    "one over": ("float[n, 3] x", f"c = Constant <{ONE}> ()", "Div(c, x)"),
    "zero minus": ("float[n, 3] x", f"c = Constant <{ZERO}> ()", "Sub(c, x)"),
    "plus zero, which turns -0.0 into 0.0": ("float[n, 3] x", f"c = Constant <{ZERO}> ()", "Add(x, c)"),
    "minus negative zero, likewise": ("float[n, 3] x", f"c = Constant <{MINUS_ZERO}> ()", "Sub(x, c)"),
    "times ones that broadcast": ("float[n, 1] x", "c = Constant <value_floats = [1.0, 1.0]> ()", "Mul(x, c)"),
    "times ones that add an axis": ("float[n] x", "c = Constant <value = float[1, 1] {1}> ()", "Mul(x, c)"),
    "reshape to another shape of the same rank": (
        "float[n, 4] x",
        "s = Constant <value_ints = [4, -1]> ()",
        "Reshape(x, s)",
    ),
    "slice backwards": (
        "float[n, 3] x",
        "b = Constant <value_ints = [-1]> () e = Constant <value_ints = [-9223372036854775807]> () "
        "a = Constant <value_ints = [1]> () s = Constant <value_ints = [-1]> ()",
        "Slice(x, b, e, a, s)",
    ),
    "transpose of a square": ("float[3, 3] x", "", "Transpose(x)"),
    "cast": ("float[n, 3] x", "", "Cast <to = 11> (x)"),
    "dropout, which is live in train mode": ("float[n, 3] x", "", "Dropout(x)"),
    "dropout that says it is not training": (
        "float[n, 3] x",
        "r = Constant <value_float = 0.5> () t = Constant <value = bool {0}> ()",
        "Dropout(x, r, t)",
    ),
}


def model_text(declaration: str, constants: str, call: str) -> str:
    dtype = declaration.partition("[")[0]
    return f"g ({declaration}) => (y) {{ {constants} out = {call} y = {'Not' if dtype == 'bool' else 'Neg'}(out) }}"


@pytest.mark.parametrize("case", GOES)
def test_no_ops_go(case: str) -> None:
    model, count = apply(model_text(*GOES[case]), no_ops.run)
    assert count == 1
    assert len(model.graph) == 1


@pytest.mark.parametrize("case", STAYS)
def test_operations_stay(case: str) -> None:
    _, count = apply(model_text(*STAYS[case]), no_ops.run)
    assert count == 0


def test_a_scale_that_may_be_trained_stays() -> None:
    text = (
        "g (float[n, 2] x) => (y) <float[2] weight = {1, 1}, float gain = {1}> { a = Mul(x, weight) y = Mul(a, gain) }"
    )
    model, count = apply(text, no_ops.run)
    assert count == 0
    assert list(model.graph.initializers) == ["weight", "gain"]


def test_dropout_whose_mask_is_read_stays() -> None:
    text = "g (float[n] x) => (y, bool[n] m) { a, m = Dropout(x) y = Neg(a) }"
    _, count = apply(text, no_ops.run)
    assert count == 0


def test_a_pad_that_shifts_stays() -> None:
    text = "g (float[n, 3] x) => (y) { p = Constant <value_ints = [0, 1, 0, -1]> () y = Pad(x, p) }"
    assert no_ops.run(normal_form(parse(text))) == 0


@pytest.mark.parametrize(
    ("sizes", "attributes", "goes"),
    [
        ([1, 2, 5, 4], "", True),
        ([1, 2, 5, 4], 'mode = "cubic", coordinate_transformation_mode = "align_corners"', True),
        ([1, 2, 5, 8], "", False),
        ([1, 2, 5, 4], 'coordinate_transformation_mode = "tf_half_pixel_for_nn", nearest_mode = "ceil"', False),
        ([1, 2, 5, 4], 'coordinate_transformation_mode = "tf_crop_and_resize"', False),
        ([1, 2, 5, 4], 'keep_aspect_ratio_policy = "not_larger"', False),
    ],
)
def test_a_resize_to_the_sizes_that_there_are(sizes: list[int], attributes: str, goes: bool) -> None:
    text = f"""g (float[1, 2, 5, 4] x) => (y) {{
        a = Neg(x) s = Constant <value_ints = {sizes}> () roi = Constant <value_floats = [0.0]> ()
        b = Resize <{attributes}> (a, roi, , s) y = Neg(b)
    }}"""
    assert no_ops.run(normal_form(parse(text.replace("Resize <>", "Resize")))) == goes


def test_a_no_op_from_input_to_output_stays() -> None:
    model, _ = apply("g (float[n] x) => (float[n] y) { y = Cast <to = 1> (x) }", no_ops.run)
    assert operators(model) == ["Cast"]


def test_the_name_of_an_output_survives() -> None:
    model, _ = apply(
        "g (float[n] x) => (float[n] y) { a = Neg(x) b = Cast <to = 1> (a) y = Concat <axis = 0> (b) }", no_ops.run
    )
    assert operators(model) == ["Neg"]
    assert model.graph.outputs[0].name == "y"


@pytest.mark.parametrize(
    ("way", "goes"),
    [
        ("y = Softmax(a)", True),
        ("b = Add(a, x) c = Mul(two, b) d = Div(c, two) y = Softmax(d)", True),
        ("s = Shape(a) b = Softmax(a) y = Reshape(b, s)", True),
        ("y = Identity(a)", False),
        ("y = Reciprocal(a)", False),
        ("b = Div(two, a) y = Softmax(b)", False),
        ("b = Mul(a, x) y = Softmax(b)", False),
        ("b = Softmax(a) y = Atan(a)", False),
        ("b = Add(a, x) c = Softmax(b) d = Reciprocal(b) y = Add(c, d)", False),
    ],
)
def test_adding_zero_is_nothing_to_a_softmax(way: str, goes: bool) -> None:
    """On the way to it there is nothing that makes more of a -0.0 than another zero."""
    constants = f"zero = Constant <{ZERO}> () two = Constant <value_float = 2.0> ()"
    model = normal_form(parse(f"g (float[n, 3] x) => (y) {{ {constants} a = Add(x, zero) {way} }}"))
    before = operators(model).count("Add")
    no_ops.run(model)
    assert (operators(model).count("Add") < before) == goes


@pytest.mark.parametrize(
    ("way", "goes"),
    [
        ("a = MatMul(x, w)", True),
        ("b = MatMul(x, w) a = Add(bias, b)", True),
        ("b = Gemm(x, w, bias) a = Transpose <perm = [1, 0]> (b)", True),
        ("b = Relu(x) a = Add(x, b)", True),
        ("b = MatMul(x, w) a = Mul(x, b)", False),
        ("a = Add(x, bias)", False),
        ("a = Neg(x)", False),
        ("b = MatMul(x, w) a = Neg(b)", False),
    ],
)
@pytest.mark.parametrize("shape", ["Shape(a)", "Shape(x)", "Constant <value_ints = [2, 3, 3]> ()"])
def test_a_total_that_begins_with_zeros(way: str, goes: bool, shape: str) -> None:
    """The zeros are as many as there are sums; or more, and then each sum is there twice."""
    text = f"""g (float[3, 3] x) => (y) <float[3, 3] w = {{1, 2, 3, 4, 5, 6, 7, 8, 9}}, float[3] bias = {{1, 2, 3}}> {{
        {way} s = {shape} c = Constant <value_float = 0.0> () zeros = Expand(c, s) b0 = Add(zeros, a) y = Neg(b0)
    }}"""
    model = normal_form(parse(text))
    simplify(model)
    assert (operators(model).count("Add") == way.count("Add")) == (goes and "2, 3, 3" not in shape)

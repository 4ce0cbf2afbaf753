"""Shape arithmetic: folded where it is static, left out where it has no effect, never baked in."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnxlift.rewriting.normal_form import dead_code
from onnxlift.rewriting.simplifying import (
    expands,
    no_ops,
    reshape_targets,
    reshapes,
    shape_values,
    static_shapes,
    transposes,
)
from rewriting.graphs import apply, normal_form, operators, parse


def constant(model: ir.Model, index: int, node: int = 0) -> list[int]:
    value = model.graph[node].inputs[index]
    assert value is not None and value.const_value is not None
    return value.const_value.numpy().tolist()


def test_static_sizes_are_folded_and_named_ones_are_not() -> None:
    text = """g (float[batch, 12, 64] x) => (int64[1] y, int64[1] z) {
        zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
        s = Shape(x) a = Gather(s, zero) b = Gather(s, one) two = Constant <value_int = 2> ()
        y = Mul(a, two) z = Mul(b, two)
    }"""
    model, count = apply(text, static_shapes.run)
    assert operators(model) == ["Shape", "Gather", "Mul"]
    assert count == 2
    tensor = model.graph.initializers["z"].const_value
    assert tensor is not None and tensor.numpy().tolist() == [24]


def test_split_shapes_are_folded_together_or_not_at_all() -> None:
    text = """g (float[6, 4, batch, 5] x) => (int64[2] y, int64[2] z) {
        s = Shape(x) a, b = Split <axis = 0, num_outputs = 2> (s) y = Neg(a) z = Neg(b)
    }"""
    model, _ = apply(text, static_shapes.run)
    assert operators(model) == ["Shape", "Split", "Neg"]


def test_the_expand_dance_of_pytorch_goes() -> None:
    text = """g (float[1, seq] x, float[batch, seq] other) => (float[batch, seq] y) {
        s = Shape(other) n = Constant <value_ints = [2]> ()
        ones = ConstantOfShape <value = int64[1] {1}> (n)
        minus = Constant <value_int = -1> () hidden = Mul(ones, minus)
        test = Equal(s, hidden) target = Where(test, ones, s) y = Expand(x, target)
    }"""
    model, _ = apply(text, shape_values.run)
    assert operators(model) == ["Shape", "Expand"]


def test_the_expand_dance_stays_if_an_element_may_be_minus_one() -> None:
    text = """g (float[1, 5] x, int64[2] s) => (float[a, b] y) {
        ones = Constant <value_ints = [1, 1]> () minus = Constant <value_int = -1> ()
        test = Equal(s, minus) target = Where(test, ones, s) shape = Abs(target) n = Shape(shape) y = Neg(x)
    }"""
    _, count = apply(text, shape_values.run)
    assert count == 0


def test_a_reshape_to_sizes_of_its_input_copies_them() -> None:
    text = """g (float[batch, seq, 6] x) => (float[batch, seq, 2, 3] y) {
        s = Shape(x) zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
        b = Gather(s, zero) l = Gather(s, one) heads = Constant <value_ints = [2, 3]> ()
        t = Concat <axis = 0> (b, l, heads) y = Reshape(x, t)
    }"""
    model, _ = apply(text, reshape_targets.run)
    assert operators(model) == ["Reshape"]
    assert constant(model, 1) == [0, 0, 2, 3]


def test_zeros_that_are_allowed_do_not_matter_to_sizes_with_a_name() -> None:
    text = """g (float[batch, 2, 3] x) => (float[batch, 6] y) {
        b = Shape <start = 0, end = 1> (x) six = Constant <value_ints = [6]> ()
        t = Concat <axis = 0> (b, six) y = Reshape <allowzero = 1> (x, t)
    }"""
    model, _ = apply(text, reshape_targets.run)
    assert constant(model, 1) == [0, 6]
    assert "allowzero" not in model.graph[-1].attributes


def test_a_reshape_to_sizes_in_another_order_keeps_its_arithmetic() -> None:
    text = """g (float[batch, seq] x) => (float[seq, batch] y) {
        s = Shape(x) zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
        b = Gather(s, zero) l = Gather(s, one) t = Concat <axis = 0> (l, b) y = Reshape(x, t)
    }"""
    _, count = apply(text, reshape_targets.run)
    assert count == 0


def test_one_size_that_is_left_over_is_minus_one() -> None:
    text = """g (float[batch, 4, 3] x) => (float[4, m] y) {
        n = Size(x) four = Constant <value_int = 4> () rest = Div(n, four) minus = Constant <value_ints = [-1]> ()
        r = Reshape(rest, minus) f = Constant <value_ints = [4]> () t = Concat <axis = 0> (f, r) y = Reshape(x, t)
    }"""
    model, _ = apply(text, reshape_targets.run)
    assert constant(model, 1) == [4, -1]


def test_a_size_that_the_exporter_froze_is_not_left_over() -> None:
    """The target says that `seq` is 5; with -1 beside the 5, nothing would say so any more."""
    text = """g (float[seq, batch, 6] x) => (float[seq, m, 3] y) {
        n = Shape <start = 1, end = 2> (x) two = Constant <value_ints = [2]> () m = Mul(n, two)
        f = Constant <value_ints = [5]> () l = Constant <value_ints = [3]> () t = Concat <axis = 0> (f, m, l)
        y = Reshape(x, t)
    }"""
    _, count = apply(text, reshape_targets.run, [{"batch": 2, "seq": 5}])
    assert count == 0


def test_reshapes_in_a_row_are_one() -> None:
    text = """g (float[2, 3, 4] x) => (float[4, 6] y) {
        a = Constant <value_ints = [6, 4]> () b = Constant <value_ints = [-1, 6]> ()
        u = Reshape(x, a) v = Flatten(u) y = Reshape(v, b)
    }"""
    model, _ = apply(text, reshapes.run)
    assert operators(model) == ["Reshape"]


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ("/attn/qkv/Neg /attn/qkv/Reshape /attn/Reshape", 2),
        ("/qkv/Neg /qkv/Reshape /Reshape", 2),
        ("/attn/qkv/bn/Neg /attn/qkv/Reshape /attn/Reshape", 2),
        ("/attn/Neg /attn/qkv/Reshape /attn/Reshape", 1),
        ("/attn/Neg /attn/Reshape /attn/Reshape_1", 1),
        ("/attn/Neg /attn/Reshape /mlp/Reshape", 1),
        ("/attn/q/Neg /attn/qkv/Reshape /attn/Reshape", 1),
        ("Neg_1 Reshape_2 Reshape_3", 1),
    ],
)
def test_the_shape_that_a_module_gives_out_stays(names: str, left: int) -> None:
    text = """g (float[2, 12] x) => (float[2, 2, 6] y) {
        a = Constant <value_ints = [4, 6]> () b = Constant <value_ints = [2, 2, 6]> ()
        n = Neg(x) u = Reshape(n, a) y = Reshape(u, b)
    }"""
    model = normal_form(parse(text))
    for node, name in zip(model.graph, names.split(), strict=True):
        node.name = name
    reshapes.run(model)
    dead_code.run(model)
    assert operators(model).count("Reshape") == left


def test_a_zero_that_copies_another_size_keeps_the_first_reshape() -> None:
    text = """g (float[2, 6] x) => (float[3, 4] y) {
        a = Constant <value_ints = [3, 4]> () b = Constant <value_ints = [0, -1]> ()
        u = Reshape(x, a) y = Reshape(u, b)
    }"""
    model, count = apply(text, reshapes.run)
    assert count == 0
    assert operators(model) == ["Reshape", "Reshape"]


def test_a_zero_that_copies_the_same_size_does_not() -> None:
    text = """g (float[n, 6] x) => (float[n, 2, 3] y) {
        a = Constant <value_ints = [0, 3, 2]> () b = Constant <value_ints = [0, 2, 3]> ()
        u = Reshape(x, a) y = Reshape(u, b)
    }"""
    model, _ = apply(text, reshapes.run)
    assert operators(model) == ["Reshape"]


@pytest.mark.parametrize(
    ("rows", "columns", "order", "stays"),
    [(1, 4, [0, 1, 3, 2, 4], False), (2, 2, [0, 1, 3, 2, 4], True), (1, 4, [0, 2, 1, 3, 4], True)],
    ids=["one row", "two rows", "another order"],
)
def test_cutting_into_one_piece_is_nothing(rows: int, columns: int, order: list[int], stays: bool) -> None:
    text = f"""g (float[n, 6, 4] x) => (float[n, 6, 4] z) {{
        a = Neg(x) s = Constant <value_ints = [-1, 2, 3, {rows}, {columns}]> () r = Reshape(a, s)
        t = Transpose <perm = {order}> (r) b = Constant <value_ints = [-1, 6, 4]> () y = Reshape(t, b) z = Neg(y)
    }}"""
    model, _ = apply(text, reshapes.run)
    assert ("Transpose" in operators(model)) == stays


@pytest.mark.parametrize(
    ("target", "expected"),
    [([-1, 12, 2], ["Reshape"]), ([0, 24], ["Reshape"]), ([0, 0, 12], ["Reshape", "Transpose", "Reshape"])],
    ids=["all sizes", "the first size is copied", "a size of the middle is copied"],
)
def test_what_is_cut_into_one_piece_and_reshaped_is_only_reshaped(target: list[int], expected: list[str]) -> None:
    text = f"""g (float[n, 6, 4] x) => (z) {{
        s = Constant <value_ints = [-1, 2, 3, 1, 4]> () r = Reshape(x, s)
        t = Transpose <perm = [0, 1, 3, 2, 4]> (r) b = Constant <value_ints = {target}> () z = Reshape(t, b)
    }}"""
    model, _ = apply(text, reshapes.run)
    assert operators(model) == expected


def test_squeeze_undoes_unsqueeze() -> None:
    text = """g (float[n, m] x) => (float[n, m] y) {
        a = Constant <value_ints = [1]> () u = Unsqueeze(x, a) s = Squeeze(u, a) y = Neg(s)
    }"""
    model, _ = apply(text, reshapes.run)
    assert operators(model) == ["Neg"]


def test_unsqueezes_are_merged() -> None:
    text = """g (float[n, m] x) => (float[1, n, 1, m] y) {
        a = Constant <value_ints = [-2]> () b = Constant <value_ints = [0]> () u = Unsqueeze(x, a) y = Unsqueeze(u, b)
    }"""
    model, _ = apply(text, reshapes.run)
    assert operators(model) == ["Unsqueeze"]
    assert constant(model, 1) == [0, 2]
    assert model.graph[0].name == ""


def test_transposes_are_merged() -> None:
    text = """g (float[n, m, 2] x) => (float[m, n, 2] y, float[n, m, 2] z) {
        a = Transpose <perm = [1, 2, 0]> (x) y = Transpose <perm = [0, 2, 1]> (a) b = Transpose <perm = [2, 0, 1]> (a)
        z = Neg(b)
    }"""
    model, _ = apply(text, transposes.run)
    assert operators(model) == ["Transpose", "Neg"]
    assert list(model.graph[0].attributes["perm"].as_ints()) == [1, 0, 2]


def test_an_expand_that_broadcasting_repeats_goes() -> None:
    text = """g (float[1, seq] x, float[batch, seq] other) => (float[batch, seq] y) {
        s = Shape(other) e = Expand(x, s) y = Add(e, other)
    }"""
    model, _ = apply(text, expands.run)
    assert operators(model) == ["Add"]


def test_an_expand_that_makes_the_result_larger_stays() -> None:
    text = """g (float[1, seq] x, float[batch, seq] other) => (float[batch, seq] y) {
        s = Shape(other) e = Expand(x, s) y = Add(e, x)
    }"""
    _, count = apply(text, expands.run)
    assert count == 0


def test_an_expand_that_is_needed_anyway_is_read_by_all() -> None:
    """`x = x + block(x)`: what the block is given is what is added."""
    text = """g (float[1, seq] x, float[batch, seq] other) => (float[batch, seq] y) {
        s = Shape(other) e = Expand(x, s) t = CumSum(e, axis) y = Add(t, e)
    }"""
    model, _ = apply(text.replace("{", "<int64 axis = {0}> {", 1), expands.run)
    assert "Expand" in operators(model)
    assert model.graph.outputs[0].producer().inputs[1].producer().op_type == "Expand"


def test_an_expand_moves_behind_arithmetic_with_numbers() -> None:
    text = """g (float[1, seq] x, float[batch, seq] other) => (float[batch, seq] y) {
        s = Shape(other) e = Expand(x, s) two = Constant <value_float = 2.0> () t = Mul(e, two) y = Add(t, other)
    }"""
    model, _ = apply(text, expands.run)
    assert operators(model) == ["Mul", "Add"]


def test_an_expand_stays_before_a_number_with_more_axes() -> None:
    text = """g (float[1] x, float[seq] other) => (float[1, seq] y) <float[1, 1] two = {2}> {
        s = Shape(other) e = Expand(x, s) y = Mul(e, two)
    }"""
    _, count = apply(text, expands.run)
    assert count == 0


def test_a_constant_of_the_shape_of_the_other_operand_is_a_number() -> None:
    text = """g (float[batch, seq] x) => (float[batch, seq] y) {
        s = Shape(x) c = ConstantOfShape <value = float[1] {2}> (s) y = Max(x, c)
    }"""
    model, _ = apply(text, expands.run)
    assert operators(model) == ["Max"]


def test_a_constant_that_makes_the_result_larger_stays() -> None:
    text = """g (float[seq] x, float[batch, seq] other) => (float[batch, seq] y) {
        s = Shape(other) c = ConstantOfShape <value = float[1] {2}> (s) y = Mul(x, c)
    }"""
    _, count = apply(text, expands.run)
    assert count == 0


def test_axes_in_front_are_left_to_broadcasting() -> None:
    text = """g (float[seq] x, float[batch, seq, 4] other) => (float[batch, seq, 4] y) {
        axes = Constant <value_ints = [0, 2]> () u = Unsqueeze(x, axes) y = Mul(u, other)
    }"""
    model, _ = apply(text, expands.run)
    assert operators(model) == ["Unsqueeze", "Mul"]
    assert constant(model, 1) == [1]


def test_axes_in_front_that_the_result_has_from_them_stay() -> None:
    text = """g (float[seq] x, float[seq] other) => (float[1, seq] y) {
        axes = Constant <value_ints = [0]> () u = Unsqueeze(x, axes) y = Mul(u, other)
    }"""
    _, count = apply(text, expands.run)
    assert count == 0


def test_axes_in_front_of_all_operands_move_behind_to_where_they_vanish() -> None:
    text = """g (float[seq] x, bool[batch, 1, seq] other) => (bool[batch, seq, seq] y) {
        first = Constant <value_ints = [0, 1]> () second = Constant <value_ints = [0, 2]> ()
        a = Unsqueeze(x, first) b = Unsqueeze(x, second) t = Less(a, b) y = And(t, other)
    }"""
    model, _ = apply(text, [expands.run, expands.run])
    assert operators(model) == ["Unsqueeze", "Less", "And"]


def test_axes_in_front_stay_where_a_reader_needs_them() -> None:
    text = """g (float[seq] x) => (float[1, seq, seq] y) {
        first = Constant <value_ints = [0, 1]> () second = Constant <value_ints = [0, 2]> ()
        a = Unsqueeze(x, first) b = Unsqueeze(x, second) t = Sub(a, b) y = Softmax <axis = 0> (t)
    }"""
    model, _ = apply(text, expands.run)
    assert operators(model)[-2:] == ["Sub", "Softmax"]


def test_reshapings_that_only_add_axes_are_an_unsqueeze() -> None:
    text = """g (float[batch, seq] x) => (float[1, batch, 1, seq] y) {
        axes = Constant <value_ints = [0, 2, 4]> () u = Unsqueeze(x, axes)
        target = Constant <value_ints = [0, 0, 0, 0]> () y = Reshape(u, target)
    }"""
    model, _ = apply(text, reshapes.run)
    assert operators(model) == ["Unsqueeze"]
    assert constant(model, 1) == [0, 2]


def test_a_size_that_was_multiplied_and_divided_again_is_read() -> None:
    text = """g (float[batch, seq] x) => (int64 y) {
        s = Shape(x) zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
        b = Gather(s, zero) n = Gather(s, one) p = Mul(b, n) q = Div(p, b) y = Neg(q)
    }"""
    model, _ = apply(text, shape_values.run)
    assert operators(model) == ["Shape", "Gather", "Neg"]


def test_passes_know_that_a_table_cut_to_the_length_has_that_length() -> None:
    table = ", ".join(str(number) for number in np.random.default_rng(0).integers(0, 9, 8))
    text = f"""g (float[batch, seq] x) => (float[batch, seq] y) <float[1, 8] positions = {{{table}}}> {{
        s = Shape(x) zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> () l = Gather(s, one)
        cut = Slice(positions, zero, l, one) sum = Add(x, cut) t = Shape(sum) y = Reshape(sum, t)
    }}"""
    model, _ = apply(text, no_ops.run)
    assert operators(model) == ["Shape", "Gather", "Slice", "Add"]

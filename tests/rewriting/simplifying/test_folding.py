"""Constants: folded, but never a parameter, nothing random, nothing that makes the file larger."""

from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from onnxlift.ir.origin.tensors import mark_computed, mark_made, mark_told
from onnxlift.rewriting.simplifying import cast_chains, common_subexpressions, constant_folding, constant_if, no_ops
from rewriting.graphs import apply, normal_form, operators, parse


def test_constants_are_folded() -> None:
    text = """g (float[n, 3] x) => (float[n, 3] y) {
        a = Constant <value_floats = [1.0, 2.0, 5.0]> () b = Constant <value_float = 3.0> ()
        c = Div(a, b) d = Sqrt(c) y = Mul(x, d)
    }"""
    model, count = apply(text, constant_folding.run)
    assert operators(model) == ["Mul"]
    assert count == 2
    assert "d" in model.graph.initializers


def test_parameters_are_not() -> None:
    text = """g (float[n, 3] x) => (y, z) <float[2, 3] weight = {1, 2, 3, 4, 5, 6}, float gain = {2}> {
        t = Transpose(weight) y = MatMul(x, t) e = Exp(gain) z = Mul(x, e)
    }"""
    model, count = apply(text, constant_folding.run)
    assert count == 0
    assert list(model.graph.initializers) == ["weight", "gain"]


@pytest.mark.parametrize(
    ("is_buffer", "operator", "folded"),
    [(True, "Unsqueeze", 0), (True, "Expand", 0), (True, "Add", 1), (False, "Unsqueeze", 1)],
)
def test_a_buffer_that_the_exporter_names_is_not_if_it_only_gets_axes(
    is_buffer: bool, operator: str, folded: int
) -> None:
    text = "g (float[3, 4] x) => (y) <int64[1] i = {1}, int64[1] one = {1}> { u = @(i, one) y = GatherND(x, u) }"
    model = normal_form(parse(text.replace("@", operator)))
    mark_told(model.graph.initializers["i"], is_buffer=is_buffer, reason="the exporter says so")
    assert constant_folding.run(model) == folded


@pytest.mark.parametrize(
    ("name", "folded"),
    [("table", 0), ("onnx::MatMul_7", 0), *((f"onnx::{op}_7", 2) for op in ("Reshape", "Resize", "Concat"))],
)
def test_what_an_exporter_has_folded_before_a_reshape_is_no_parameter(name: str, folded: int) -> None:
    text = """g (float[n, 3] x) => (float[2, 3] y) <float[2, 3] table = {1, 2, 3, 4, 5, 6}> {
        shape = Constant <value_ints = [3, 2]> () r = Reshape(table, shape) t = Transpose(r) y = Mul(x, t)
    }"""
    model = normal_form(parse(text))
    model.graph.initializers["table"].name = name
    assert constant_folding.run(model) == folded


@pytest.mark.parametrize(("sources", "folded"), [((), 0), (("cat", "split"), 1)])
def test_joined_biases_are_cut_apart_again_if_an_exporter_joined_them(sources: tuple[str, ...], folded: int) -> None:
    text = """g (float[n, 2] x, float[n, 3] y) => (float[n, 2] p, float[n, 3] q) <float[5] biases = {1, 2, 3, 4, 5}> {
        sizes = Constant <value_ints = [2, 3]> () a, b = Split(biases, sizes) p = Add(x, a) q = Add(y, b)
    }"""
    model = normal_form(parse(text))
    if sources:
        mark_computed(model.graph.initializers["biases"], sources)
    assert constant_folding.run(model) == folded
    if folded:
        assert [model.graph.initializers[name].const_value.numpy().tolist() for name in "ab"] == [[1, 2], [3, 4, 5]]


def test_results_much_larger_than_their_inputs_are_not() -> None:
    text = """g (float[n] x) => (float[1] y) {
        small = Constant <value_ints = [100]> () large = Constant <value_ints = [1000, 1000, 1000, 1000]> ()
        a = ConstantOfShape(small) b = ConstantOfShape(large) p = ReduceSum(a) q = ReduceSum(b) r = Add(p, q)
        l = Shape(r) y = Cast <to = 1> (l)
    }"""
    model = normal_form(parse(text))
    assert constant_folding.run(model) == 1
    assert "a" in model.graph.initializers


@pytest.mark.parametrize(
    ("rows", "for_runtime", "folded"),
    [(1000, False, 0), (1000, True, 1), (9000, True, 0)],
    ids=["2 MB in source", "2 MB for a runtime", "18 MB for a runtime"],
)
@pytest.mark.parametrize("node", ["c = Add(a, b)", "c = Expand(b, s)"], ids=["computed", "repeated"])
def test_a_runtime_is_given_larger_results_unless_they_only_repeat(
    rows: int, for_runtime: bool, folded: int, node: str
) -> None:
    model = parse(f"g (float[n] x) => (y) {{ {node} y = Add(x, c) }}")
    arrays = {"a": np.zeros((rows, 1)), "b": np.zeros((1, 500)), "s": np.array([rows, 500])}
    for name in re.findall(r"\b[abs]\b", node):
        kind = np.int64 if name == "s" else np.float32
        model.graph.initializer.append(numpy_helper.from_array(arrays[name].astype(kind), name))
    graph = normal_form(model)
    for value in graph.graph.initializers.values():
        mark_made(value, "no parameter")
    assert constant_folding.run(graph, for_runtime=for_runtime) == (folded if "Add" in node else 0)


@pytest.mark.parametrize(("windows", "folded"), [(64, 1), (256, 0)], ids=["615 KB", "2.5 MB"])
def test_the_mask_of_all_windows_is_a_constant_unless_it_is_large(windows: int, folded: int) -> None:
    numbers = " ".join(
        f"{name} = Constant <value_ints = {shape}> ()"
        for name, shape in (("a", [windows, 1, 49]), ("b", [windows, 49, 1]))
    )
    text = f"g (float[n] x) => (y) {{ {numbers} r = ConstantOfShape(a) c = ConstantOfShape(b) y = Sub(r, c) }}"
    model = normal_form(parse(text))
    assert constant_folding.run(model) == 2 + folded


@pytest.mark.parametrize("call", ["Div(a, zero)", "Mod(a, zero)", "RandomUniform <shape = [2]> ()"])
def test_what_has_no_defined_value_is_left_to_the_run(call: str) -> None:
    text = f"""g (int64[n] x) => (y) {{
        a = Constant <value_int = 7> () zero = Constant <value_int = 0> () y = {call}
    }}"""
    assert constant_folding.run(normal_form(parse(text))) == 0


def test_integers_divide_towards_zero() -> None:
    text = """g (int64[4] x) => (int64[4] y, int64[4] z) {
        a = Constant <value_ints = [-7, 7, -7, 7]> () b = Constant <value_ints = [2, -2, -2, 2]> ()
        q = Div(a, b) r = Mod(a, b) y = Add(x, q) z = Add(x, r)
    }"""
    model, count = apply(text, constant_folding.run)
    assert count == 2
    tensor = model.graph.initializers["q"].const_value
    assert tensor is not None and tensor.numpy().tolist() == [-3, -3, 3, 3]


@pytest.mark.parametrize(
    ("source", "middle", "last", "casts"),
    [
        ("int32", ir.DataType.INT64, ir.DataType.FLOAT, 1),
        ("int32", ir.DataType.INT64, ir.DataType.INT32, 0),
        ("bool", ir.DataType.FLOAT, ir.DataType.INT64, 1),
        ("float16", ir.DataType.FLOAT, ir.DataType.FLOAT16, 0),
        ("float", ir.DataType.INT64, ir.DataType.FLOAT, 2),
        ("float", ir.DataType.FLOAT16, ir.DataType.FLOAT, 2),
        ("int64", ir.DataType.FLOAT, ir.DataType.INT64, 2),
        ("int32", ir.DataType.DOUBLE, ir.DataType.UINT8, 2),
        ("int64", ir.DataType.BOOL, ir.DataType.INT64, 2),
    ],
)
def test_casts_that_lose_nothing_are_bypassed(source: str, middle: int, last: int, casts: int) -> None:
    text = f"""g ({source}[n] x) => (y) {{
        a = Cast <to = {int(middle)}> (x) b = Cast <to = {int(last)}> (a) y = Concat <axis = 0> (b, b)
    }}"""
    model, _ = apply(text, [cast_chains.run, no_ops.run])
    assert operators(model).count("Cast") == casts


def test_equal_nodes_are_one() -> None:
    text = """g (float[n] x) => (float[n] y, float[n] z) {
        c = Constant <value_float = 2.0> () d = Constant <value_float = 2.0> ()
        a = Mul(x, c) b = Mul(x, d) p = Elu <alpha = 0.5> (a) q = Elu <alpha = 0.5> (b) y = Neg(p) z = Neg(q)
    }"""
    model, count = apply(text, common_subexpressions.run)
    assert count == 2
    assert operators(model) == ["Mul", "Elu", "Neg", "Neg"]


def test_ranges_of_sizes_with_the_same_name_are_one() -> None:
    text = """g (float[n, m] x, float[m] z) => (int64[k] y) {
        zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
        s = Shape(x) a = Gather(s, one) t = Shape(z) b = Gather(t, zero) c = Gather(s, zero)
        i = Range(zero, a, one) j = Range(zero, b, one) k = Range(zero, c, one)
        ij = Mul(i, j) y = Concat <axis = 0> (ij, k)
    }"""
    model, _ = apply(text, common_subexpressions.run)
    assert operators(model).count("Range") == 2


def test_a_cast_to_the_type_of_a_value_needs_no_value() -> None:
    text = """g (float[n] x) => (y) {
        one = Constant <value = int64 {1}> () like = CastLike(one, x) root = Sqrt(like) y = Mul(x, root)
    }"""
    model, _ = apply(text, [cast_chains.run, constant_folding.run])
    assert operators(model) == ["Mul"]


def test_outputs_stay_two_even_if_they_are_equal() -> None:
    model, _ = apply("g (float[n] x) => (float[n] y, float[n] z) { y = Neg(x) z = Neg(x) }", common_subexpressions.run)
    assert operators(model) == ["Neg", "Neg"]


@pytest.mark.parametrize(
    "calls",
    [
        "a = Elu <alpha = 0.5> (x) b = Elu <alpha = 0.25> (x)",
        "a = Elu <alpha = 0.0> (x) b = Elu <alpha = -0.0> (x)",
        "a = Sub(x, x2) b = Sub(x2, x)",
        "a = RandomNormalLike(x) b = RandomNormalLike(x)",
        "t = Constant <value = bool {1}> () a = Dropout(x, half, t) b = Dropout(x, half, t)",
        "a = Dropout(x, half) b = Dropout(x, half)",
        "a = Mul(x, w) b = Mul(x, v)",
    ],
)
def test_different_nodes_stay_apart(calls: str) -> None:
    weights = "<float[2] w = {1, 2}, float[2] v = {1, 2}, float half = {0.5}>"
    text = f"g (float[2] x, float[2] x2) => (y) {weights} {{ {calls} y = Add(a, b) }}"
    assert common_subexpressions.run(normal_form(parse(text))) == 0


def test_equal_nodes_of_two_modules_stay_apart() -> None:
    model = normal_form(parse("g (float[n] x) => (y) { a = Neg(x) b = Neg(x) c = Neg(x) y = Sum(a, b, c) }"))
    for node, name in zip(model.graph, ["/layer.0/Neg", "/layer.1/Neg", "/layer.1/Neg_1"], strict=False):
        node.name = name
    assert common_subexpressions.run(model) == 1


SIZES = """zero = Constant <value_int = 0> () one = Constant <value_int = 1> () s = Shape(x) size = Gather(s, zero)
    lowest = Constant <value_float = -10000.0> () none = Constant <value_float = 0.5> ()"""


@pytest.mark.parametrize(
    ("twice", "expected"),
    [
        ("? = Cast <to = 9> (m)", 1),
        ("k? = Cast <to = 9> (m) ? = Not(k?)", 2),
        ("k? = Cast <to = 9> (m) ? = Where(k?, x, lowest)", 2),
        ("k? = Cast <to = 1> (m) u? = Sub(k?, none) ? = Mul(u?, lowest)", 3),
        ("r? = Range(zero, size, one) ? = Less(r?, m)", 1),
        ("r? = Range(zero, size, one) p? = Add(r?, one) f? = Cast <to = 1> (p?) ? = Log(f?)", 0),
        ("k? = Cast <to = 1> (m) ? = Sigmoid(k?)", 1),
        ("k? = Cast <to = 1> (m) ? = Mul(k?, w)", 1),
        ("? = Sub(x, lowest)", 0),
        ("? = Add(s, one)", 0),
    ],
    ids=[
        "view",
        "chain",
        "choice",
        "numbers",
        "compared positions",
        "positions",
        "activation",
        "parameter",
        "x",
        "size",
    ],
)
def test_of_two_modules_masks_are_merged_and_little_else(twice: str, expected: int) -> None:
    body = " ".join(twice.replace("?", name) for name in ("a", "b"))
    text = (
        f"g (float[n] x, int64[n] m) => (y, z) <float[2] w = {{1.5, 2.5}}> {{ {SIZES} {body} y = Size(a) z = Size(b) }}"
    )
    model = normal_form(parse(text))
    for node in model.graph:
        node.name = f"/layer.{(node.outputs[0].name or '')[-1]}/{node.op_type}"
    assert common_subexpressions.run(model) == expected


BRANCHES = """y = If (c) <
    then_branch = then () => (float[n] t) { k = Constant <value_float = 2.0> () w = Mul(x, k) t = Neg(w) },
    else_branch = other () => (float[n] e) { k = Constant <value_float = 3.0> () w = Mul(x, k) e = Abs(w) }
>"""


@pytest.mark.parametrize(("condition", "expected"), [(1, ["Mul", "Neg"]), (0, ["Mul", "Abs"])])
def test_an_if_with_a_known_condition_is_its_branch(condition: int, expected: list[str]) -> None:
    text = f"g (float[n] x) => (float[n] y) {{ c = Constant <value = bool {{{condition}}}> () {BRANCHES} }}"
    model, _ = apply(text, constant_if.run)
    assert operators(model) == expected


def test_an_if_with_an_unknown_condition_stays() -> None:
    _, count = apply(f"g (bool c, float[n] x) => (float[n] y) {{ {BRANCHES} }}", constant_if.run)
    assert count == 0


def test_branches_that_use_the_same_names_can_both_move() -> None:
    second = BRANCHES.replace("y = If", "z = If").replace("x, k", "y, k")
    second = second.replace("(float[n] t)", "(float[n] t2)").replace("t = Neg", "t2 = Neg")
    text = f"""g (float[n] x) => (float[n] q) {{
        c = Constant <value = bool {{1}}> () {BRANCHES} {second}
        q = Relu(z)
    }}"""
    model, count = apply(text, constant_if.run)
    assert count == 2
    assert operators(model) == ["Mul", "Neg", "Mul", "Neg", "Relu"]


def test_ifs_inside_a_taken_branch_are_taken_too() -> None:
    text = """g (float[n] x) => (float[n] y) {
        c = Constant <value = bool {1}> ()
        y = If (c) <
            then_branch = a () => (float[n] t) { t = If (c) <
                then_branch = b () => (float[n] u) { u = Neg(x) }, else_branch = d () => (float[n] v) { v = Abs(x) }> },
            else_branch = e () => (float[n] w) { w = Exp(x) }
        >
    }"""
    model, count = apply(text, constant_if.run)
    assert count == 2
    assert operators(model) == ["Neg"]


def test_a_branch_that_gives_an_outer_value_or_a_constant_can_be_an_output() -> None:
    text = """g (float[n] x) => (float[n] y, float[2] z) {
        c = Constant <value = bool {1}> ()
        y, z = If (c) <
            then_branch = a () => (float[n] t, float[2] s)
                { t = Identity(x) s = Constant <value_floats = [1.0, 2.0]> () },
            else_branch = b () => (float[n] u, float[2] r)
                { u = Neg(x) r = Constant <value_floats = [3.0, 2.0]> () }
        >
    }"""
    model, _ = apply(text, constant_if.run)
    assert operators(model) == ["Identity", "Identity"]

"""Inferred types and shapes: symbolic where the model is, and true of what the model computes."""

from __future__ import annotations

import itertools

import onnx
import onnx.helper as oh
import onnx.parser
import onnx_ir as ir
import pytest

from onnxlift.ir.graph.shapes import elements_of
from onnxlift.ir.inference.infer import infer, is_invented_size
from rewriting.running_stages import normalise

HEADER = '<ir_version: 10, opset_import: ["" : 18, "local" : 1]>\n'


def inferred(text: str) -> ir.Model:
    model = ir.from_proto(onnx.parser.parse_model(HEADER + text))
    normalise(model, keep=lambda domain, name: True)
    return model


def values(model: ir.Model) -> dict[str, ir.Value]:
    return {value.name: value for node in model.graph.all_nodes() for value in node.outputs if value.name}


def dims(value: ir.Value) -> tuple[int | str | None, ...] | None:
    return None if value.shape is None else tuple(d if isinstance(d, int) else d.value for d in value.shape)


def anonymous(value: ir.Value) -> tuple[object, ...] | None:
    """The shape with `?` for generated names."""
    shape = dims(value)
    return None if shape is None else tuple("?" if isinstance(d, str) and is_invented_size(d) else d for d in shape)


@pytest.mark.parametrize(
    ("inputs", "body", "expected"),
    [
        ("float[b, s, 768] x", "t = Constant <value_ints = [0, 0, 12, 64]> () y = Reshape(x, t)", ("b", "s", 12, 64)),
        ("float[b, s, 768] x", "t = Constant <value_ints = [0, -1, 64]> () y = Reshape(x, t)", ("b", "12*s", 64)),
        ("float[b, s] x", "t = Constant <value_ints = [-1]> () y = Reshape(x, t)", ("b*s",)),
        ("float[b, s] x, float[s, b] z", "t = Shape(z) y = Reshape(x, t)", ("s", "b")),
        ("float[s, b, 6] x", "n = Shape <start = 1, end = 2> (x) i = Constant <value_ints = [5]> () "
         "k = Constant <value_ints = [2, 3]> () t = Concat <axis = 0> (i, n, k) y = Reshape(x, t)", ("s", "b", 2, 3)),
        ("float[s, b, 6] x", "n = Shape <start = 1, end = 2> (x) i = Constant <value_ints = [5]> () "
         "k = Constant <value_ints = [2, 2]> () t = Concat <axis = 0> (i, n, k) y = Reshape(x, t)", (5, "b", 2, 2)),
        ("float[s, 6] x", "t = Constant <value_ints = [5, 6]> () y = Reshape(x, t)", (5, 6)),
        ("float[b, 1] x, float[s] z", "y = Add(x, z)", ("b", "s")),
        ("float[b] x, float[s] z", "y = Add(x, z)", ("?",)),
        ("float[b] x, float[3] z", "y = Add(x, z)", (3,)),
        ("float[b, 4, s, k] x, float[k, 8] z", "y = MatMul(x, z)", ("b", 4, "s", 8)),
        ("float[b, s] x, float[b, t] z", "y = Concat <axis = 1> (x, z)", ("b", "s + t")),
        ("float[b, s] x", "one = Constant <value_ints = [1]> () n = Shape <start = 0, end = 1> (x) "
         "t = Concat <axis = 0> (n, one) z = ConstantOfShape(t) y = Expand(z, t)", ("b", 1)),
        ("float[s, 3] x", "a = Constant <value_int = 0> () n = Shape(x) l = Gather(n, a) "
         "d = Constant <value_int = 1> () y = Range(a, l, d)", ("s",)),
        ("float[b, s] x", "a = Constant <value_ints = [1]> () e = Constant <value_ints = [9223372036854775807]> () "
         "y = Slice(x, a, e, a)", ("b", "max(0, s - 1)")),
        ("float[b, s] x", "a = Constant <value_ints = [-1]> () e = Constant <value_ints = [9223372036854775807]> () "
         "i = Constant <value_ints = [1]> () y = Slice(x, a, e, i)", ("b", "min(1, s)")),
        ("float[b, s] x", "p = Constant <value_ints = [0, 2, 0, 1]> () y = Pad(x, p)", ("b", "s + 3")),
        ("float[b, s] x", "r = Constant <value_ints = [1, 2]> () y = Tile(x, r)", ("b", "2*s")),
        ("float[b, c, h, w] x", "r = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> () y = Resize(x, , r)",
         ("b", "c", "2*h", "2*w")),
        ("float[b, 3, h, w] x, float[8, 3, 3, 3] z", "y = Conv <pads = [1, 1, 1, 1]> (x, z)", ("b", 8, "h", "w")),
        ("float[b, 3, h, 10] x", "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)", ("b", 3, "h//2", 5)),
        ("float[b, 3, h, 10] x, float[3, 6, 2, 2] z", "y = ConvTranspose <strides = [2, 2]> (x, z)",
         ("b", 6, "2*h", 20)),
        ("float[b, 1, s] x, float[4, 1, 10] z, float[6, 4, 3] w",
         "c = Conv <strides = [5]> (x, z) y = Conv <strides = [2]> (c, w)", ("b", 6, "s//10 - 1")),
        ("float[b, 1, s] x, float[4, 1, 2] z", "c = Conv(x, z) a = Constant <value_ints = [-1]> () "
         "i = Constant <value_ints = [2]> () o = Constant <value_ints = [0]> () y = Slice(c, o, a, i)",
         ("b", 4, "s - 2")),
        ("float[b, s] x, int64[t] z", "y = Gather <axis = 1> (x, z)", ("b", "t")),
        ("float[b, s] x", "y = Squeeze(x)", None),
        ("float[b, s] x", "y = NonZero(x)", (2, "?")),
    ],
)  # fmt: skip
def test_symbolic_shapes(inputs: str, body: str, expected: tuple[object, ...] | None) -> None:
    model = inferred(f"g ({inputs}) => (y) {{ {body} }}")
    assert anonymous(model.graph.outputs[0]) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Shape(x)", ("b", "s", 12)),
        ("y = Size(x)", ("12*b*s",)),
        ("n = Shape(x) i = Constant <value_int = -2> () y = Gather(n, i)", ("s",)),
        ("n = Shape(x) y = ReduceProd <keepdims = 0> (n)", ("12*b*s",)),
        ("n = Shape(x) two = Constant <value_int = 2> () y = Div(n, two)", ("b//2", "s//2", 6)),
        ("n = Shape(x) five = Constant <value_int = 5> () y = Mod(n, five)", ("b%5", "s%5", 2)),
        ("n = Shape(x) four = Constant <value_int = 4> () m = Sub(n, four) y = Div(m, four)", (None, None, 2)),
        ("n = Shape(x) m = Neg(n) y = Add(m, n)", (0, 0, 0)),
        ("n = Shape(x) m = Constant <value_ints = [-1, 5, 12]> () y = Equal(n, m)", (0, None, 1)),
        ("n = Shape(x) o = Constant <value_int = 1> () y = Max(n, o)", ("max(1, b)", "max(1, s)", 12)),
        ("n = Shape(x) y = Cast <to = 6> (n)", ("b", "s", 12)),
        ("n = Shape(x) y = Cast <to = 1> (n)", None),
        ("n = Shape(x) c = Constant <value = bool[3] {1, 0, 1}> () o = Constant <value_ints = [7]> () "
         "y = Where(c, o, n)", (7, "s", 7)),
    ],
)  # fmt: skip
def test_elements_of_shape_arithmetic(body: str, expected: tuple[object, ...] | None) -> None:
    model = inferred(f"g (float[b, s, 12] x) => (y) {{ {body} }}")
    assert elements_of(model.graph.outputs[0]) == expected


HALF = """zero = Constant <value_int = 0> () one = Constant <value_int = 1> () two = Constant <value_int = 2> ()
    three = Constant <value_int = 3> () last = Constant <value_int = -1> () n = Shape(x) s = Gather(n, last)
    less = Sub(s, three) half = Div(less, two) size = Add(half, one) y = Range(zero, size, one)"""


def test_sizes_before_a_convolution_are_those_that_fit_it() -> None:
    """`(s - 3) / 2 + 1` rounds another way for a small `s`, and such a range is empty: but then the convolution, which
    comes later, would fail."""
    model = inferred(f"g (float[b, 2, s] x, float[4, 2, 3] w) => (y, z) {{ {HALF} z = Conv <strides = [2]> (x, w) }}")
    sizes, convolved = model.graph.outputs
    assert dims(sizes) == ("(s + 1)//2 - 1",) and dims(convolved) == ("b", 4, "(s + 1)//2 - 1")


@pytest.mark.parametrize("strides", [1, 3])
def test_another_convolution_says_nothing_of_them(strides: int) -> None:
    conv = f"z = Conv <strides = [{strides}]> (x, w)"
    model = inferred(f"g (float[b, 2, s] x, float[4, 2, 2] w) => (y, z) {{ {HALF} {conv} }}")
    assert anonymous(model.graph.outputs[0]) == ("?",)


def test_a_convolution_in_a_branch_says_nothing_of_what_is_outside() -> None:
    branches = """z = If (c) <then_branch = t () => (u) { u = Conv <strides = [2]> (x, w) },
        else_branch = e () => (v) { v = Identity(x) }>"""
    model = inferred(f"g (float[b, 2, s] x, float[4, 2, 3] w, bool c) => (y, z) {{ {HALF} {branches} }}")
    assert anonymous(model.graph.outputs[0]) == ("?",)


def test_elements_of_a_scalar_are_bare_and_of_a_vector_a_tuple() -> None:
    found = values(
        inferred("g (float[b, 4] x) => (y, z) { y = Shape(x) i = Constant <value_int = 0> () z = Gather(y, i) }")
    )
    assert found["y"].meta["dims"] == ("b", 4)
    assert found["z"].meta["dims"] == "b"


def test_declared_shapes_of_outputs_are_not_believed() -> None:
    model = inferred("g (float[n, 3] x) => (float[7, 8] y) { y = Transpose(x) }")
    assert dims(model.graph.outputs[0]) == (3, "n")


def test_declared_shapes_stand_in_where_nothing_is_known() -> None:
    proto = onnx.parser.parse_model(HEADER + "g (float[n] x) => (float[m, 4] y) { y = local.Unheard(x) }")
    model = ir.from_proto(proto)
    infer(model)
    assert dims(model.graph.outputs[0]) == ("m", 4)


def test_unnamed_sizes_get_names_of_their_own() -> None:
    proto = oh.make_model(
        oh.make_graph(
            [oh.make_node("Add", ["x", "x"], ["y"]), oh.make_node("Add", ["x", "z"], ["w"])],
            "g",
            [oh.make_tensor_value_info(name, 1, shape) for name, shape in [("x", [None, "unk__0"]), ("z", ["?", -1])]],
            [oh.make_tensor_value_info(name, 1, None) for name in "yw"],
        )
    )
    model = ir.from_proto(proto)
    infer(model)
    x, z = map(dims, model.graph.inputs)
    assert x is not None and z is not None
    assert len({*x, *z}) == 4
    assert dims(model.graph.outputs[0]) == x
    assert not {*(dims(model.graph.outputs[1]) or ())} & {*x, *z}


def test_both_branches_must_agree() -> None:
    model = inferred("""g (bool c, float[n, 3] x) => (y) {
        y = If (c) <
            then_branch = a () => (t) { t = Neg(x) }, else_branch = b () => (e) { e = Concat <axis = 0> (x, x) }
        >
    }""")
    assert anonymous(model.graph.outputs[0]) == ("?", 3)


def test_a_loop_that_keeps_its_shapes_and_one_that_does_not() -> None:
    model = inferred("""g (int64 trips, float[n, 3] x) => (kept, grown, scanned) {
        go = Constant <value = bool {1}> ()
        kept, grown, scanned = Loop (trips, go, x, x) <body = body (int64 i, bool c, float[p, q] a, float[r, s] b)
            => (bool d, e, f, h) {
                d = Identity(c) e = Relu(a) f = Concat <axis = 0> (b, x) h = ReduceSum <keepdims = 0> (f)
            }>
    }""")
    kept, grown, scanned = model.graph.outputs
    assert dims(kept) == ("n", 3)
    assert anonymous(grown) == ("?", 3)
    assert anonymous(scanned) == ("?",)
    inside = values(model)["f"].producer()
    assert inside is not None and inside.inputs[0] is not None
    assert dims(inside.inputs[0]) != ("n", 3)


def test_a_function_body_holds_what_is_true_of_every_call() -> None:
    model = inferred("""g (float[n, 3] x, float[m, 3] z, int64[k] i) => (y, w, u, v) {
        y, u = local.Twice(x) w, v = local.Twice(z)
    }
    <domain: "local", opset_import: ["" : 18]>
    Twice (a) => (b, c) { b = Add(a, a) c = NonZero(a) }""")
    y, w, u, v = map(dims, model.graph.outputs)
    assert (y, w) == (("n", 3), ("m", 3))
    assert u is not None and v is not None and u[1] != v[1]
    (function,) = model.functions.values()
    assert anonymous(function.outputs[0]) == ("?", 3)
    assert dims(function.outputs[0]) == dims(function.inputs[0])


def test_functions_that_call_functions_are_not_expanded() -> None:
    opsets = [oh.make_opsetid("", 18), oh.make_opsetid("local", 1)]
    functions = [
        oh.make_function("local", "f0", ["a"], ["b"], [oh.make_node("Concat", ["a", "a"], ["b"], axis=0)], opsets)
    ]
    for level in range(1, 13):
        names = ["a", *(f"v{i}" for i in range(9)), "b"]
        calls = [
            oh.make_node(f"f{level - 1}", [source], [target], domain="local")
            for source, target in itertools.pairwise(names)
        ]
        functions.append(oh.make_function("local", f"f{level}", ["a"], ["b"], calls, opsets))
    graph = oh.make_graph(
        [oh.make_node("f12", ["x"], ["y"], domain="local")],
        "g",
        [oh.make_tensor_value_info("x", 1, ["n"])],
        [oh.make_tensor_value_info("y", 1, None)],
    )
    model = ir.from_proto(oh.make_model(graph, opset_imports=opsets, functions=functions))
    infer(model)
    assert model.graph.outputs[0].dtype == ir.DataType.FLOAT


def test_nonsense_is_merely_unknown() -> None:
    text = """g (float[n, 3] x, int64[1] a) => (y, z, w) {
        y = Transpose <perm = [4, 1]> (x) z = Squeeze(x, a) w = Gather <axis = 7> (x, a)
    }"""
    model = ir.from_proto(onnx.parser.parse_model(HEADER + text))
    infer(model)
    assert all(value.shape is None for value in model.graph.outputs)

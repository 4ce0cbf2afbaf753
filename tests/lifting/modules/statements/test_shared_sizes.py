"""Sizes that a forward needs several times are variables; the others stay where they are needed."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser

import onnxlift
from small_graphs import Graph, code, compare


def size(g: Graph, x: str, axis: int) -> str:
    """One size of `x`, as a list."""
    return g.node("Gather", g.node("Shape", x), g.constant(f"axis{axis}", np.array([axis])), axis=0)


def reshaped(g: Graph, x: str, *sizes: str | int) -> str:
    parts = [s if isinstance(s, str) else g.constant(f"size{s}", np.array([s])) for s in sizes]
    return g.node("Reshape", x, g.node("Concat", *parts, axis=0))


def test_sizes_that_are_needed_several_times_are_read_together() -> None:
    g = Graph()
    x, y = g.input("x", "batch", "seq", 6), g.input("y", "total", 3)
    batch, seq = size(g, x, 0), size(g, x, 1)
    rows = reshaped(g, y, seq, batch, -1)
    forward = code(g.lift(g.node("Add", rows, reshaped(g, y, seq, batch, 1, -1))))
    assert "batch, seq = x.shape[:2]" in forward
    assert forward.count(".shape") == 1


def test_a_size_that_is_needed_once_stays() -> None:
    g = Graph()
    x, y = g.input("x", "batch", "seq", 6), g.input("y", "total", 3)
    forward = code(g.lift(reshaped(g, y, size(g, x, 1), -1)))
    assert "x.shape[1]" in forward and "seq" not in forward.partition("def forward")[2]


def test_sizes_of_one_name_are_one_size() -> None:
    g = Graph()
    x, y, z = g.input("x", "batch", "seq", 6), g.input("y", 4, "seq"), g.input("z", "total")
    a, b = reshaped(g, z, size(g, x, 1), -1), reshaped(g, z, size(g, y, 1), 1, -1)
    forward = code(g.lift(g.node("Add", a, b), g.node("Sin", x), g.node("Sin", y)))
    assert "seq = x.shape[1]" in forward and forward.count(".shape") == 1


def test_an_argument_that_is_there_for_its_size_is_read_itself() -> None:
    g = Graph()
    x, y, z = g.input("x", "batch", "seq", 6), g.input("y", 4, "seq"), g.input("z", "total")
    a, b = reshaped(g, z, size(g, x, 1), -1), reshaped(g, z, size(g, y, 1), 1, -1)
    forward = code(g.lift(g.node("Add", a, b), g.node("Sin", x)))
    assert "y.shape[1]" in forward and "x.shape[1]" in forward


def test_what_was_computed_for_its_size_is_gone() -> None:
    g = Graph()
    x, y = g.input("x", "batch", "seq", 6), g.input("y", "total")
    turned = g.node("Transpose", g.node("Sin", x), perm=[1, 0, 2])
    a, b = reshaped(g, y, size(g, x, 1), -1), reshaped(g, y, size(g, turned, 0), 1, -1)
    forward = code(g.lift(g.node("Add", a, b), g.node("Cos", x)))
    assert "seq = x.shape[1]" in forward and ".sin()" not in forward


def test_a_size_that_is_needed_before_the_tensor_is_there_stays() -> None:
    g = Graph()
    x, w, z = g.input("x", "batch", 3), g.input("w", 3, "seq"), g.input("z", "total")
    first = g.node("Sin", reshaped(g, z, size(g, x, 0), -1))
    t = g.node("MatMul", x, w)
    a, b = reshaped(g, z, size(g, t, 1), -1), reshaped(g, z, size(g, t, 1), 1, -1)
    forward = code(g.lift(first, g.node("Add", a, b), g.node("Exp", t)))
    assert "x.shape[0]" in forward and "seq = " in forward


BRANCHES = """g (float[seq, 3] x, bool c, float[total] t) => (float[a, b] y, float[a, b] z) {
    zero = Constant <value_ints = [0]> () minus = Constant <value_ints = [-1]> () s = Shape(x) n = Gather(s, zero)
    to = Concat <axis = 0> (n, minus)
    y = If (c) <
        then_branch = then () => (float[a, b] p) { p = Reshape(t, to) },
        else_branch = otherwise () => (float[a, b] q) { r = Reshape(t, to) q = Neg(r) }
    >
    z = INPUT
}"""


def lift_text(text: str) -> str:
    return code(onnxlift.lift(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]>\n{text}')))


def test_branches_share_a_size_of_the_forward() -> None:
    forward = lift_text(BRANCHES.replace("INPUT", "Sin(x)"))
    assert forward.index("seq = x.shape[0]") < forward.index("if c")
    assert forward.count(".shape") == 1


def test_variables_that_a_loop_writes_are_asked_each_time() -> None:
    """The body makes its variable longer, though the model gives both lengths one name."""
    text = """g (float[n] x, int64 times, bool go) => (float[m] y) {
        y = Loop (times, go, x) < body = body (int64 i, bool c, float[n] h) => (bool d, float[n] k) {
            d = Identity(c) s = Shape(h) n = Squeeze(s) zero = Constant <value_int = 0> ()
            one = Constant <value_int = 1> () minus = Constant <value_int = -1> ()
            up = Range(zero, n, one) down = Range(n, zero, minus) a = Cast <to = 1> (up) b = Cast <to = 1> (down)
            e = Add(h, a) k = Concat <axis = 0> (e, b)
        } >
    }"""
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]>\n{text}')
    inputs = {"x": np.float32([1, 2, 3]), "times": np.array(3), "go": np.array(True)}
    compare(onnxlift.lift(proto), proto, inputs)


def test_a_tensor_of_unknown_rank_is_not_asked_before_its_time() -> None:
    text = BRANCHES.replace("float[seq, 3] x", "float[seq, 3] o").replace(
        "s = Shape(x)", "x = Reshape(o, d) s = Shape(x)"
    )
    text = text.replace("bool c,", "bool c, int64[r] d,").replace("INPUT", "Sin(o)")
    forward = lift_text(text)
    assert ".shape" in forward and ".shape" not in forward.partition("if c")[0]


def sizes_of_features(*op_types: str) -> str:
    """The sizes of what operators make of a tensor whose last two have no name, needed twice."""
    g = Graph()
    x, y = g.input("x", 2, 3, "h?", "w?"), g.input("y", 1, 1)
    for op_type in op_types:
        weights = [g.weight("conv.weight", 3, 3, 1, 1)] if op_type == "Conv" else []
        x = g.node(op_type, x, *weights, **({"strides": [2, 2]} if weights else {}))
    parts = [size(g, x, 2), size(g, x, 3)]
    shapes = [g.node("Concat", *order, axis=0) for order in (parts, parts[::-1])]
    return code(g.lift(*(g.node("Expand", y, shape) for shape in shapes), g.node("Sin", x)))


def test_sizes_of_images_are_called_as_people_do() -> None:
    assert "height, width = x.shape[2:]" in sizes_of_features("Conv", "Relu")
    assert "height, width = x.shape[2:]" in sizes_of_features("Relu", "Conv")
    assert "n, m = x.shape[2:]" in sizes_of_features("Softmax", "Relu")
    assert "n, m = x.shape[2:]" in sizes_of_features("Conv", "Softmax")

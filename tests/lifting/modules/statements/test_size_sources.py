"""A size that several tensors have is read from one at hand, else from the first parameter, wherever the graph does."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxlift
from small_graphs import Graph, code, compare


def rows(g: Graph, x: str, axis: int, name: str = "") -> str:
    """A row of seven numbers, repeated as often as a size of `x` says."""
    size = g.node("Gather", g.node("Shape", x), g.constant(f"axis{axis}", np.array([axis])), axis=0)
    shape = g.node("Concat", size, g.constant("seven", np.array([7])), axis=0)
    return g.node("Expand", g.weight("row", 1, 7), shape, name=name)


def apart(source: str, axis: int) -> str:
    """The rows are no kin of the other tensors: x, the second input, and y, which is made of x."""
    g = Graph()
    x, second = g.input("x", "batch", "seq"), g.input("second", "seq")
    y = g.node("Sin", x)
    repeated = g.node("Exp", rows(g, {"x": x, "second": second, "y": y}[source], axis))
    return code(g.lift(repeated, g.node("Cos", y), g.node("Cos", second)))


@pytest.mark.parametrize(("source", "axis"), [("x", 1), ("second", 0), ("y", 1)])
def test_a_size_is_read_from_the_first_parameter_that_has_it(source: str, axis: int) -> None:
    assert "self.row.expand(x.shape[1], -1)" in apart(source, axis)
    assert apart(source, axis) == apart("x", 1)


@pytest.mark.parametrize("from_input", [False, True])
def test_a_size_is_read_from_the_tensor_at_hand(from_input: bool) -> None:
    g = Graph()
    x = g.input("x", "batch", 3)
    y = g.node("Softmax", g.linear(x, "fc", 3, 4))
    joined = g.node("Concat", rows(g, x if from_input else y, 0), g.node("Mul", y, g.node("Sin", y)), axis=1)
    forward = code(g.lift(joined)).partition("def forward")[2]
    assert "x = self.fc(x).softmax(-1)" in forward
    assert "torch.cat((self.row.expand(x.shape[0], -1), x * x.sin()), 1)" in forward


def test_a_parameter_that_the_statement_uses_is_at_hand_itself() -> None:
    g = Graph()
    x, y = g.input("x", "batch", 3), g.input("y", "batch", 4)
    forward = code(g.lift(g.node("Concat", y, x, rows(g, y, 0), axis=1)))
    assert "(y, x, self.row.expand(x.shape[0], -1))" in forward


def test_a_parameter_of_the_model_that_is_there_for_its_size_is_read() -> None:
    g = Graph()
    x, like = g.input("x", "batch", 3), g.input("like", "batch", 5)
    assert "like.shape[0]" in code(g.lift(g.node("Exp", rows(g, like, 0)), g.node("Sin", x)))


def test_a_parameter_of_a_module_that_is_there_for_its_size_is_gone() -> None:
    g = Graph()
    x, other = g.input("x", "batch", 3), g.input("other", "batch", 5)
    h = g.node("Sin", g.linear(x, "block.fc", 3, 4), name="/block/Sin")
    joined = g.node("Concat", h, rows(g, other, 0, name="/block/Expand"), axis=1, name="/block/Concat")
    source = code(g.lift(g.linear(joined, "block.out", 11, 4), g.node("Exp", other)))
    assert "self.block(x)" in source


def test_a_first_parameter_that_is_there_for_its_size_is_gone() -> None:
    g = Graph()
    other, x = g.input("other", "batch", 5), g.input("x", "batch", 3)
    h = g.node("Sin", g.linear(x, "block.fc", 3, 4), name="/block/Sin")
    joined = g.node("Concat", h, rows(g, other, 0, name="/block/Expand"), axis=1, name="/block/Concat")
    source = code(g.lift(g.linear(joined, "block.out", 11, 4), g.node("Exp", other)))
    assert "self.block(x)" in source and "//" not in source, source


def test_a_parameter_of_a_module_is_gone_if_another_has_a_multiple_of_its_size() -> None:
    g = Graph()
    x = g.input("x", "batch", 8)
    windows = g.node("Sin", g.node("Reshape", x, g.constant("pairs", np.array([-1, 2]))), name="/Sin")
    h = g.node("Sin", g.linear(windows, "block.fc", 2, 4), name="/block/Sin")
    spread = g.node("Mul", rows(g, x, 0, name="/block/Expand"), g.weight("block.scale", 7), name="/block/Mul")
    total = g.node("Add", g.node("ReduceSum", h, name="/block/Sum", keepdims=0), spread, name="/block/Add")
    source = code(g.lift(total, g.node("Exp", windows, name="/Exp")))
    assert "x.shape[0] // 4" in source and "self.block(x)" in source, source


def test_what_a_loop_writes_has_its_own_size() -> None:
    """The body makes its variable longer, though the model gives both lengths one name."""
    text = """g (float[n] x, int64 times, bool go) => (float[n] y, float[m] z) {
        y = Loop (times, go, x) < body = body (int64 i, bool c, float[n] h) => (bool d, float[n] k) {
            d = Identity(c) k = Concat <axis = 0> (h, h)
        } >
        s = Shape(y) one = Constant <value_floats = [1.5]> () z = Expand(one, s)
    }"""
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]>\n{text}')
    compare(onnxlift.lift(proto), proto, {"x": np.float32([1, 2, 3]), "times": np.array(3), "go": np.array(True)})


def test_sizes_are_handed_down_one_by_one_and_once() -> None:
    """Two lists of sizes are made outside of the block: of the batch, which it reads off its own input, and of
    `min(length, 6)`, which no tensor in there is known to have."""
    g = Graph()
    x, like = g.input("x", "batch", "seq", 8), g.input("like", "length")
    six = g.node("Min", g.node("Shape", like), g.constant("six", np.array([6])), name="/Min")
    batch = g.node("Shape", x, start=0, end=1, name="/Shape")
    heads = g.node("Concat", batch, six, g.constant("heads", np.array([2, 4])), axis=0, name="/Concat")
    turned = g.node("Concat", six, batch, g.constant("width", np.array([8])), axis=0, name="/Concat_1")
    y = g.node("MatMul", x, g.weight("block.fc.weight", 8, 8), name="/block/fc/MatMul")
    y = g.node("Softmax", g.node("Reshape", y, heads, name="/block/Reshape"), name="/block/Softmax")
    y = g.node("Sin", g.node("Reshape", y, turned, name="/block/Reshape_1"), name="/block/Sin")
    lifted = g.lift(y, six)
    assert "def forward(self, x: Tensor, length: int) -> Tensor:" in code(lifted)
    assert ".reshape(batch, length, 2, 4)" in code(lifted) and ".reshape(length, batch, 8)" in code(lifted)
    given = {"x": np.random.default_rng(3).random((3, 5, 8), np.float32), "like": np.ones(5, np.float32)}
    compare(lifted, g.model(y, six), given)

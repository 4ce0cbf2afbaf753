"""The last two axes that are swapped through three axes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.indexing import matrix_transpose
from rewriting.idioms.recognising import found, parse, simplified
from rewriting.running_stages import normalise

SWAP = "a = Reshape(x, three) b = Transpose <perm = [0, 2, 1]> (a) y = Reshape(b, end)"


def model(
    text: str = SWAP, x: str = "2, 3, 4, 5", outputs: str = "float[o, p, q, r] y", **changed: list[int]
) -> onnx.ModelProto:
    known = {"three": [6, 4, 5], "end": [2, 3, 5, 4], **changed}
    shapes = {name: np.array(shape) for name, shape in known.items()}
    return parse(f"g (float[{x}] x) => ({outputs}) {{ {text} }}", **shapes)


def test_one_transpose() -> None:
    proto = model()
    assert found(proto) == ["Transpose"]
    (transpose,) = simplified(proto).graph
    assert transpose.attributes["perm"].as_ints() == (0, 1, 3, 2)


def test_of_another_reshape_of_the_same() -> None:
    """x was itself reshaped, and two reshapes in a row were merged."""
    text = f"r = Reshape(x, four) n = Neg(r) {SWAP.replace('y =', 'c =')} y = MatMul(n, c)"
    operators = found(model(text, "6, 20", four=[2, 3, 4, 5]))
    assert sorted(operators) == ["MatMul", "Neg", "Reshape", "Transpose"]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (SWAP.replace("[0, 2, 1]", "[1, 0, 2]"), {"end": [2, 2, 6, 5], "three": [6, 4, 5]}),
        (SWAP.replace("[0, 2, 1]", "[2, 1, 0]"), {"end": [2, 3, 5, 4]}),
        (SWAP, {"end": [2, 3, 4, 5]}),  # cut elsewhere
        (SWAP, {"end": [3, 2, 5, 4]}),  # other axes in front
        (SWAP, {"three": [12, 2, 5], "end": [2, 6, 5, 2]}),
    ],
    ids=["other axes", "all axes", "rows", "front", "merged otherwise"],
)
def test_what_is_no_swap(text: str, known: dict[str, list[int]]) -> None:
    assert found(model(text, **known)) == ["Reshape", "Transpose", "Reshape"]


@pytest.mark.parametrize(("value", "shape"), [("a", "6, 4, 5"), ("b", "6, 5, 4")])
def test_what_is_read_in_between(value: str, shape: str) -> None:
    outputs = f"float[o, p, q, r] y, float[{shape}] z"
    assert found(model(f"{SWAP} z = Neg({value})", outputs=outputs)).count("Reshape") == 2


@pytest.mark.parametrize(
    ("text", "four"),
    [
        (f"r = Reshape(x, four) n = Neg(r) {SWAP}", [3, 2, 4, 5]),
        (f"{SWAP} r = Reshape(x, four) n = Neg(r)", [2, 3, 4, 5]),
    ],
    ids=["of another shape", "later"],
)
def test_another_reshape_that_cannot_be_read(text: str, four: list[int]) -> None:
    outputs = "float[o, p, q, r] y, float[s, t, u, v] n"
    assert found(model(text, "6, 20", outputs, four=four)).count("Reshape") == 3


def test_through_an_axis_of_size_1() -> None:
    graph = load(model(x="4, 5", outputs="float[q, r] y", three=[1, 4, 5], end=[5, 4]))
    normalise(graph)
    assert matrix_transpose.run(graph) == 1
    (transpose,) = graph.graph
    assert transpose.attributes["perm"].as_ints() == (1, 0)


def test_a_reshape_in_another_branch_cannot_be_read() -> None:
    text = f"""s = ReduceMax <keepdims = 0> (x) c = Greater(s, s2) y = If (c) <
        then_branch = t () => (float[2, 3, 4, 5] p) {{ r = Reshape(x, four) p = Neg(r) }},
        else_branch = e () => (float[2, 3, 5, 4] y2) {{ {SWAP.replace("y =", "y2 =")} }}
    >"""
    proto = model(text, "6, 20", four=[2, 3, 4, 5])
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0.1), "s2"))
    assert found(proto)[-1] == "If"
    branch = simplified(proto).graph[-1].attributes["else_branch"].as_graph()
    assert [node.op_type for node in branch] == ["Reshape", "Transpose", "Reshape"]


def test_a_tensor_that_is_the_shape_of_another() -> None:
    text = f"s = Shape(x) r = Reshape(w, s) {SWAP.replace('(x,', '(s,')}"
    proto = parse(
        f"g (float[1, 1, 2, 2] x, float[4] w) => (int64[1, 1, 2, 2] y, float[1, 1, 2, 2] r) {{ {text} }}",
        three=np.array([1, 2, 2]),
        end=np.array([1, 1, 2, 2]),
    )
    graph = load(proto)
    normalise(graph)
    assert matrix_transpose.run(graph) == 0

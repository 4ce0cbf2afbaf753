"""Grids of coordinates."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from rewriting.idioms.recognising import found, parse

INPUTS = "float[batch] a, float[seq] b"
OUTPUTS = "float[r, c] y, float[r, c] z"
GRID = """
    n = Shape(a) m = Shape(b) sizes = Concat <axis = 0> (n, m)
    p = Unsqueeze(a, one) q = Unsqueeze(b, zero)
    val_1 = Expand(p, sizes) val_2 = Expand(q, sizes)
    y = Exp(val_1) z = Exp(val_2)
"""


def model(body: str = GRID, inputs: str = INPUTS, outputs: str = OUTPUTS) -> onnx.ModelProto:
    axes = {"zero": np.array([0]), "one": np.array([1]), "both": np.array([1, 2]), "last": np.array([-1])}
    used = {name: array for name, array in axes.items() if name in body}
    return parse(f"g ({inputs}) => ({outputs}) {{ {body} }}", **used)


@pytest.mark.parametrize(
    "body",
    [
        GRID,
        GRID.replace("(a, one)", "(a, last)"),
        GRID.replace(
            "val_1 = Expand(p, sizes) val_2 = Expand(q, sizes)", "val_2 = Expand(q, sizes) val_1 = Expand(p, sizes)"
        ),
    ],
    ids=["as written", "axis from the end", "columns first"],
)
def test_grid(body: str) -> None:
    assert found(model(body)) == ["onnxlift.Meshgrid", "Exp", "Exp"]
    assert 'rows, columns = torch.meshgrid(a, b, indexing="ij")' in onnxlift.lift(model(body)).source


def stays(model: onnx.ModelProto) -> None:
    assert "onnxlift.Meshgrid" not in found(model)


def test_rows_without_columns_stay() -> None:
    stays(model(GRID.replace("val_2 = Expand(q, sizes)", "val_2 = Identity(b)"), outputs="float[r, c] y, float[seq] z"))


def test_what_is_repeated_more_often_stays() -> None:
    """Each row is there once for each number of `a`, and as many times again as there are numbers in `c`."""
    body = "n = Shape(a) m = Shape(b) k = Shape(c) sizes = Concat <axis = 0> (k, n, m)" + GRID.partition("(n, m)")[2]
    stays(model(body, f"{INPUTS}, float[3] c", "float[k, r, c] y, float[k, r, c] z"))


def test_repeated_matrices_stay() -> None:
    body = GRID.replace("n = Shape(a)", "n = Shape <start = 0, end = 1> (a)")
    stays(model(body, "float[batch, 1] a, float[seq] b", "float[batch, r, c] y, float[r, c] z"))


def test_rows_of_another_type_stay() -> None:
    stays(model(GRID, "float[batch] a, double[seq] b", "float[r, c] y, double[r, c] z"))


def test_rows_that_are_computed_from_the_columns_stay() -> None:
    """There is no place for one node that makes both."""
    body = GRID.replace("q = Unsqueeze(b, zero)", "").replace(
        "val_2 = Expand(q, sizes)",
        "s = ReduceSum <keepdims = 0> (val_1, one) t = Mul(s, b) q = Unsqueeze(t, zero) val_2 = Expand(q, sizes)",
    )
    stays(model(body, "float[batch] a, float[batch] b"))


def test_grids_of_two_modules_stay() -> None:
    proto = model()
    for node in proto.graph.node:
        node.name = f"/{'left' if node.output[0] in ('p', 'val_1', 'y') else 'right'}/{node.output[0]}"
    stays(proto)


KNOWN = GRID.replace("n = Shape(a) m = Shape(b) sizes = Concat <axis = 0> (n, m)", "")


def known(*sizes: int, body: str = KNOWN, inputs: str) -> onnx.ModelProto:
    shape = ", ".join(map(str, sizes))
    proto = model(body, inputs, f"float[{shape}] y, float[{shape}] z")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(sizes), "sizes"))
    return proto


def test_what_is_filled_up_to_the_same_sizes_stays() -> None:
    body = KNOWN.replace("val_2 = Expand(q, sizes)", "val_2 = CenterCropPad(q, sizes)")
    stays(known(3, 4, body=body, inputs="float[3] a, float[4] b"))


def test_rows_of_a_matrix_stay() -> None:
    stays(known(3, 4, 4, inputs="float[3, 4] a, float[4] b"))


def test_one_half_in_a_branch_stays() -> None:
    then = "then_branch = t () => (float[r, c] w) { w = Expand(q, sizes) }"
    otherwise = "else_branch = e () => (float[r, c] o) { k = Expand(q, sizes) o = Neg(k) }"
    sums = "s = ReduceSum <keepdims = 0> (a) t = ReduceSum <keepdims = 0> (b) flag = Less(s, t)"
    body = GRID.replace("val_2 = Expand(q, sizes)", f"{sums} val_2 = If (flag) <{then}, {otherwise}>")
    stays(model(body))

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.indexing import indexed_axes
from rewriting.idioms import unsimplified
from rewriting.idioms.recognising import found, parse, simplified
from rewriting.running_stages import normalise

PAIRS = np.array([[0, 2], [3, 1], [4, 0], [1, 1]])


def model(body: str, inputs: str, output: str) -> onnx.ModelProto:
    used = {"val_3": PAIRS} if "val_3" in body else {}
    return parse(f"g ({inputs}) => ({output}) {{ {body} }}", 18, **used)


def transposed(perm: list[int], lookup: str, back: list[int]) -> str:
    return f"t = Transpose <perm = {perm}> (x) p = {lookup} y = Transpose <perm = {back}> (p)"


@pytest.mark.parametrize(
    ("shape", "perm", "back", "output", "written"),
    [
        ("batch, 5, 6", [1, 2, 0], [1, 0], "batch, 4", "x[:, self.index, self.index_1]"),
        ("batch, 6, 5", [2, 1, 0], [1, 0], "batch, 4", "x[:, self.index_1, self.index]"),
        ("batch, 5, 6, 7", [1, 2, 0, 3], [1, 0, 2], "batch, 4, 7", "x[:, self.index, self.index_1]"),
        ("batch, 7, 5, 6", [2, 3, 0, 1], [1, 2, 0], "batch, 7, 4", "x[:, :, self.index, self.index_1]"),
    ],
)
def test_several_axes(shape: str, perm: list[int], back: list[int], output: str, written: str) -> None:
    proto = model(transposed(perm, "GatherND(t, val_3)", back), f"float[{shape}] x", f"float[{output}] y")
    assert found(proto) == ["onnxlift.Index"]
    assert written in onnxlift.lift(proto).source


@pytest.mark.parametrize(
    ("perm", "back", "written"),
    [([1, 0, 2], [1, 0, 2], "x[:, i]"), ([2, 0, 1], [1, 2, 0], "x[..., i]")],
)
def test_one_axis(perm: list[int], back: list[int], written: str) -> None:
    inputs = "float[batch, 6, 7] x, int64[3] i"
    output = "float[batch, 3, 7] y" if perm[0] == 1 else "float[batch, 6, 3] y"
    proto = model(transposed(perm, "Gather(t, i)", back), inputs, output)
    assert found(proto) == ["Gather"]
    assert written in onnxlift.lift(proto).source


def test_indices_of_two_axes() -> None:
    body = transposed([1, 0, 2], "Gather(t, i)", [2, 0, 1, 3])
    assert found(model(body, "float[batch, 6, 7] x, int64[3, 2] i", "float[batch, 3, 2, 7] y")) == ["Gather"]


def test_axes_apart_are_first_in_pytorch_too() -> None:
    body = "t = Transpose <perm = [0, 2, 1]> (x) y = GatherND(t, val_3)"
    proto = model(body, "float[5, 7, 6] x", "float[4, 7] y")
    assert found(proto) == ["onnxlift.Index"]
    assert "x[self.index, :, self.index_1]" in onnxlift.lift(proto).source


def test_axes_apart_behind_another_one_are_first_too() -> None:
    body = "t = Transpose <perm = [1, 3, 0, 2]> (x) y = GatherND(t, val_3)"
    proto = model(body, "float[batch, 5, 7, 6] x", "float[4, batch, 7] y")
    assert found(proto) == ["onnxlift.Index"]


def test_the_first_axes_in_another_order() -> None:
    body = "t = Transpose <perm = [1, 0, 2]> (x) y = GatherND(t, val_3)"
    assert found(model(body, "float[6, 5, 7] x", "float[4, 7] y")) == ["onnxlift.Index"]


def test_a_single_index_leaves_no_axis() -> None:
    body = "t = Transpose <perm = [1, 0, 2]> (x) y = Gather(t, i)"
    assert found(model(body, "float[batch, 6, 7] x, int64 i", "float[batch, 7] y")) == ["Gather"]


@pytest.mark.parametrize(
    ("body", "output"),
    [
        ("t = Transpose <perm = [1, 2, 0, 3]> (x) y = GatherND(t, val_3)", "float[4, batch, 7] y"),
        (transposed([1, 2, 0, 3], "GatherND(t, val_3)", [2, 0, 1]), "float[7, 4, batch] y"),
        (transposed([1, 2, 3, 0], "GatherND(t, val_3)", [1, 0, 2]), "float[7, 4, batch] y"),
        (transposed([1, 2, 3, 0], "GatherND(t, val_3)", [2, 0, 1]), "float[batch, 4, 7] y"),
    ],
)
def test_not_if_other_axes_move_too(body: str, output: str) -> None:
    assert "Transpose" in found(model(body, "float[batch, 5, 6, 7] x", output))


def test_not_if_what_was_picked_is_read_before_it_is_brought_back() -> None:
    body = transposed([1, 2, 0], "GatherND(t, val_3)", [1, 0])
    outputs = "float[batch, 4] y, float[4, batch] p"
    assert found(model(body, "float[batch, 5, 6] x", outputs)).count("Transpose") == 2


def test_transposed_data_may_be_read_elsewhere() -> None:
    body = transposed([1, 2, 0], "GatherND(t, val_3)", [1, 0])
    operators = found(model(body, "float[batch, 5, 6] x", "float[batch, 4] y, float[5, 6, batch] t"))
    assert sorted(operators) == ["Transpose", "onnxlift.Index"]


def test_another_axis_of_what_was_transposed() -> None:
    body = "t = Transpose <perm = [1, 0, 2]> (x) y = Gather <axis = 2> (t, i)"
    assert "Transpose" in found(model(body, "float[batch, 6, 7] x, int64[3] i", "float[6, batch, 3] y"))


def test_other_operators_on_what_was_transposed() -> None:
    body = "t = Transpose <perm = [1, 0]> (x) y = MatMul(t, z)"
    assert found(model(body, "float[5, 6] x, float[5, 4] z", "float[6, 4] y"))[-1] != "onnxlift.Index"


def test_an_operator_of_somebody_else() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18, "mine" : 1]>
        g (float[5, 6] x, int64[3] i) => (y) { t = Transpose <perm = [1, 0]> (x) y = mine.Index(t, i) }"""
    graph = load(onnx.parser.parse_model(text))
    normalise(graph)
    assert indexed_axes.run(graph) == 0


def test_axes_of_what_was_transposed_twice() -> None:
    body = transposed([1, 2, 0], "GatherND(t, val_3)", [1, 0]).replace("(x)", "(s)")
    proto = model(f"s = Transpose <perm = [0, 2, 1]> (x) {body}", "float[batch, 6, 5] x", "float[batch, 4] y")
    assert unsimplified.found(proto)[-1] == "onnxlift.Index"


def test_axes_that_are_brought_back_in_a_branch() -> None:
    text = """g (float[5, 6, 7] x, float s) => (y) {
        c = IsNaN(s) t = Transpose <perm = [1, 2, 0]> (x) p = GatherND(t, val_3)
        y = If (c) <
            then_branch = a () => (float[m, n] u) { u = Transpose <perm = [1, 0]> (p) },
            else_branch = b () => (float[m, n] v) { v = ReduceSum <keepdims = 0> (x, first) }
        > }"""
    proto = parse(text, val_3=PAIRS, first=np.array([0]))
    assert "Transpose" in [node.op_type for node in simplified(proto).graph]

import itertools

import onnx_ir as ir

from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.inference.stepwise import Stepwise


def value(name, *sizes):
    return ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(sizes))


def stepwise():
    numbers = itertools.count()
    return Stepwise(lambda: f"unk__{next(numbers)}")


def test_a_node_is_inferred_before_it_is_in_a_graph():
    x, w = value("x", "n", 4), value("w", 4, 3)
    node = ir.Node("", "MatMul", [x, w], outputs=[ir.Value(name="y")])
    assert stepwise().infer(node, {"": 20}) is None
    assert shape_of(node.outputs[0]) == ("n", 3)


def test_what_onnx_refuses_is_told():
    node = ir.Node("", "LSTM", [value("x", 2), value("w", 1, 4, 2), value("r", 1, 4, 1)], outputs=[ir.Value(name="y")])
    assert "rank" in (stepwise().infer(node, {"": 20}) or "").lower()
    assert stepwise().infer(node, {"": 20}, always_runs=False) is None


def test_sizes_of_which_nothing_is_known_have_names_of_their_own():
    inference = stepwise()
    nodes = [ir.Node("", "NonZero", [value("x", 3)], outputs=[ir.Value(name="y")]) for _ in range(2)]
    for node in nodes:
        inference.infer(node, {"": 20})
    assert [shape_of(node.outputs[0]) for node in nodes] == [(1, "unk__0"), (1, "unk__1")]

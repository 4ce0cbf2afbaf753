"""What exporters do to parameters, undone; and what only looks like it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from onnxlift.ir.origin.tensors import may_be_trained
from onnxlift.rewriting.simplifying import constant_folding, copied_weights, zero_biases
from rewriting.graphs import Array, normal_form, parse, proto_of, random, run, with_tensors

CONV = "g (float[n, 3, 5, 5] x) => (float[n, 4, 3, 3] y) {{ {bias} y = Conv(x, w, b) }}"


def test_zeros_of_the_graph_are_no_bias() -> None:
    text = CONV.format(bias="s = Constant <value_ints = [4]> () b = ConstantOfShape <value = float {0}> (s)")
    model = normal_form(with_tensors(text, w=random(4, 3, 3, 3)))
    constant_folding.run(model)
    assert zero_biases.run(model) == 1
    (node,) = model.graph
    assert len(node.inputs) == 2


def test_a_parameter_that_is_zero_now_stays() -> None:
    model = normal_form(with_tensors(CONV.format(bias=""), w=random(4, 3, 3, 3), b=np.zeros(4, np.float32)))
    assert zero_biases.run(model) == 0


def test_a_constant_that_is_not_zero_stays() -> None:
    bias = "b = Constant <value_floats = [0.0, 0.0, 0.5, 0.0]> ()"
    model = normal_form(with_tensors(CONV.format(bias=bias), w=random(4, 3, 3, 3)))
    assert zero_biases.run(model) == 0


def test_a_model_without_initialisers_has_its_weights_in_constants() -> None:
    """As Paddle writes them. Where a weight is an initialiser, constants are none."""
    body = "fc_w = Constant <value = float[2, 3] {1, 2, 3, 4, 5, 6}> () s = Constant <value_float = 2.0> ()"
    text = f"g (float[n, 2] x) => (float[n, 3] y) {{ {body} h = MatMul(x, fc_w) y = Mul(h, s) }}"
    assert [may_be_trained(value) for value in normal_form(parse(text)).graph.initializers.values()] == [True, False]
    model = normal_form(with_tensors(text.replace("y = Mul(h, s)", "y = MatMul(h, w)"), w=random(3, 3)))
    assert [name for name, value in model.graph.initializers.items() if may_be_trained(value)] == ["w"]


TWICE = (
    "g (float[n, 4] x) => (float[n, 4] y) { h = MatMul(x, val_1) a = Add(h, b1) k = MatMul(a, val_2) y = Add(k, b2) }"
)


def twice(copy: Array, names: tuple[str, ...] = ("", ""), text: str = TWICE) -> onnx.ModelProto:
    """A layer that is perhaps called twice. `names` are those of its products."""
    model = with_tensors(
        text, val_1=random(4, 4), val_2=copy, fc_b=random(4), **{"b2": random(4)} if "b2" in text else {}
    )
    for node, name in zip([n for n in model.graph.node if n.op_type == "MatMul"], names, strict=True):
        node.name = name
    return model


SHARED = TWICE.replace("b1", "fc_b").replace("b2", "fc_b")
OTHER = TWICE.replace("b1", "fc_b")


def copies(proto: onnx.ModelProto) -> int:
    """How many copies are replaced; the numbers stay."""
    model, feeds = normal_form(proto), {"x": random(3, 4)}
    found = copied_weights.run(model)
    np.testing.assert_array_equal(run(proto_of(model), feeds)[0], run(proto, feeds)[0])
    return found


def test_a_layer_that_is_called_twice_has_one_matrix() -> None:
    assert copies(twice(random(4, 4), text=SHARED)) == 1
    assert copies(twice(random(4, 4), ("/block/fc/MatMul", "/block/fc_1/MatMul"), OTHER)) == 1


def test_layers_that_are_told_apart_keep_their_matrices() -> None:
    assert copies(twice(random(4, 4), text=OTHER)) == 0
    assert copies(twice(random(4, 4), ("/block/fc/MatMul", "/block/head/MatMul"), OTHER)) == 0


def test_matrices_that_differ_are_not_of_one_layer() -> None:
    other = random(4, 4)
    other[-1, -1] += 1
    assert copies(twice(other, text=SHARED)) == 0


def test_matrices_that_are_equal_by_chance_stay() -> None:
    proto = twice(np.ones((4, 4), np.float32), text=SHARED)
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((4, 4), np.float32), "val_1"))
    assert copies(proto) == 0


def test_a_matrix_with_a_name_is_no_copy() -> None:
    proto = twice(random(4, 4), text=SHARED)
    for tensor in proto.graph.initializer[:2]:
        for node in proto.graph.node:
            node.input[:] = [f"w.{name}" if name == tensor.name else name for name in node.input]
        tensor.name = f"w.{tensor.name}"
    assert copies(proto) == 0


def convolutions(bias: Array) -> onnx.ModelProto:
    """A convolution that is perhaps called twice, with a batch norm folded into it each time."""
    text = "g (float[1, 4, n] x) => (float[1, 4, m] y) { h = Conv(x, val_1, val_2) y = Conv(h, val_3, val_4) }"
    kernel = random(4, 4, 2)
    model = with_tensors(text, val_1=kernel, val_2=np.arange(4, dtype=np.float32), val_3=kernel, val_4=bias)
    for node, name in zip(model.graph.node, ("/block/conv/Conv", "/block/conv_1/Conv"), strict=True):
        node.name = name
    return model


def test_a_convolution_that_is_called_twice_has_one_kernel_and_one_bias() -> None:
    for bias, expected in ((np.arange(4), 1), (np.arange(1, 5), 0)):
        proto = convolutions(bias.astype(np.float32))
        model, feeds = normal_form(proto), {"x": random(1, 4, 7)}
        assert copied_weights.run(model) == expected
        assert len({node.inputs[2] for node in model.graph}) == 2 - expected
        np.testing.assert_array_equal(run(proto_of(model), feeds)[0], run(proto, feeds)[0])

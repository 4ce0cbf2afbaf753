"""What is a weight with a norm, and what only looks like one; and who may read it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.layers import weight_norm
from rewriting.idioms.layers.test_computed_weights import LINEAR, OLD, WEIGHT, V, normed, turned, written
from rewriting.idioms.recognising import Data, assert_same_numbers, parse
from rewriting.running_stages import normalise

G = '"fc.weight_g"'
WRITTEN = "self.fc = nn.utils.weight_norm(nn.Linear(6, 4))"


def is_held_in_parts(model: onnx.ModelProto) -> bool:
    """Whether both parts are parameters as they were, and no layer computes from them; of a model whose numbers are
    right."""
    assert_same_numbers(model)
    lifted = onnxlift.lift(model)
    return "weight_norm" not in lifted.source and "fc.weight" not in lifted.state_dict


TURNED = "t = Transpose <perm = [1, 0]> (w) y = MatMul(x, t)"


@pytest.mark.parametrize(
    ("layer", "outputs"),
    [
        ("y = MatMul(k, w)", "float[3, 6] y"),
        ("y = Gemm <transB = 1> (w, x)", "float[4, batch] y"),
        (LINEAR.replace("transB = 1", "transB = 1, alpha = 2.0"), "float[batch, 4] y"),
        (LINEAR.replace("transB = 1", "transB = 1, beta = 2.0"), "float[batch, 4] y"),
        ("b = ReduceMax <keepdims = 0> (x) y = Gemm <transB = 1> (x, w, b)", "float[batch, 4] y"),
        (f"{TURNED} z = Sub(one, t)", "float[batch, 4] y, float[6, 4] z"),
        (f"{TURNED} z = MatMul(t, columns)", "float[batch, 4] y, float[6, 2] z"),
        (f"{TURNED} z = Identity(t)", "float[batch, 4] y, float[6, 4] z"),
        (f"{TURNED} z = Neg(w)", "float[batch, 4] y, float[4, 6] z"),
        (f"{LINEAR} z = Identity(w)", "float[batch, 4] y, float[4, 6] z"),
    ],
    ids=["MatMul", "first operand", "alpha", "beta", "another bias", "Sub", "left", "transpose", "Neg", "output"],
)
def test_a_weight_that_is_not_only_read_as_a_layers(layer: str, outputs: str) -> None:
    model = normed(layer=layer, outputs=outputs)
    given = parse("g () => () { }", k=(3, 4), columns=(4, 2), one=1.5)
    model.graph.initializer.extend(tensor for tensor in given.graph.initializer if tensor.name in layer)
    assert is_held_in_parts(model)


def test_a_weight_that_is_read_in_a_branch() -> None:
    layer = f"""s = ReduceMax <keepdims = 0> (x) c = Greater(s, zero) y = If (c) <
        then_branch = t () => (float[batch, 4] p) {{ {LINEAR.replace("y =", "p =")} }},
        else_branch = e () => (float[batch, 4] q) {{ q = Gemm <transB = 1> (x, w) }}
    >"""
    model = normed(layer=layer)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0.5), "zero"))
    assert is_held_in_parts(model)


def test_a_weight_of_another_operator() -> None:
    model = normed(layer='y = com.microsoft.FusedGemm <transB = 1, activation = "Relu"> (x, w, "fc.bias")')
    model.opset_import.add(domain="com.microsoft", version=1)
    graph = load(model)
    normalise(graph)
    assert weight_norm.run(graph) == 0


@pytest.mark.parametrize("name", OLD)
def test_a_part_that_is_no_parameter(name: str) -> None:
    model = normed()
    (part,) = [tensor for tensor in model.graph.initializer if tensor.name == name]
    model.graph.initializer.remove(part)
    model.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, part.dims))
    assert_same_numbers(model)
    assert "weight_norm" not in onnxlift.lift(model).source


def test_axes_that_are_given_though_none_would_mean_none() -> None:
    assert written(normed(WEIGHT.replace("keepdims = 1", "noop_with_empty_axes = 1"))) == WRITTEN


def test_axes_that_are_not_known() -> None:
    model = normed()
    (axes,) = [tensor for tensor in model.graph.initializer if tensor.name == "axes"]
    model.graph.initializer.remove(axes)
    model.graph.input.append(onnx.helper.make_tensor_value_info("axes", onnx.TensorProto.INT64, [1]))
    graph = load(model)
    normalise(graph)
    assert weight_norm.run(graph) == 0


@pytest.mark.parametrize(
    ("moves", "is_norm"),
    [
        ("c = Reshape(n, four) e = Reshape(c, flat) l = Reshape(e, column)", True),
        ("c = Reshape(n, four) e = Transpose <perm = [1, 0]> (c) l = Reshape(e, column)", False),
    ],
    ids=["in one row", "in another order"],
)
def test_lengths_that_are_moved(moves: str, is_norm: bool) -> None:
    weight = f"n = ReduceL2 ({V}, axes) {moves} d = Div({V}, l) w = Mul(d, {G})"
    model = normed(weight)
    four = [1, 4] if is_norm else [2, 2]
    shapes = {"four": np.array(four), "flat": np.array([4]), "column": np.array([4, 1])}
    given = parse("g () => () { }", **shapes)
    model.graph.initializer.extend(tensor for tensor in given.graph.initializer if tensor.name in weight)
    graph = load(model)
    normalise(graph)
    assert weight_norm.run(graph) == int(is_norm)
    assert_same_numbers(model)


@pytest.mark.parametrize("length", [(1, 1), (1, 1, 1)], ids=str)
def test_one_length_that_adds_an_axis(length: tuple[int, ...]) -> None:
    text = f"n = ReduceL2 ({V}) l = Reshape(n, one) d = Div({V}, l) w = Mul(d, {G})"
    known: dict[str, Data] = {"one": np.array(length), OLD[0]: 1.5, OLD[1]: (4, 6)}
    if len(length) == 2:
        model = parse(
            f"g (float[batch, 6] x) => (float[batch, 4] y) {{ {text} y = Gemm <transB = 1> (x, w) }}", **known
        )
    else:
        model = parse(f"g (float[batch, 4, 9] x) => (float[batch, 1, 4] y) {{ {text} y = Conv(x, w) }}", **known)
    assert_same_numbers(model)
    assert ("weight_norm" in onnxlift.lift(model).source) == (len(length) == 2)


SQUARE = f"""t = Transpose <perm = [1, 0, 2]> ({V}) m = Reshape(t, rows) n = ReduceL2 <keepdims = 0> (m, axes)
    r = Reshape(n, column) d = Div({G}, r) w = Mul({V}, d)"""


@pytest.mark.parametrize(
    ("axes", "rows", "count"),
    [([1], [4, 4], 1), ([-1], [4, 4], 1), ([0], [4, 4], 0), ([1], [1, 4, 4], 0)],
    ids=["rows", "the last axis", "columns", "columns behind another axis"],
)
def test_the_lengths_of_the_rows_of_a_matrix(axes: list[int], rows: list[int], count: int) -> None:
    given = {"rows": np.array(rows), "axes": np.array(axes), "column": np.array([1, 4, 1])}
    parts = {OLD[0]: (1, 4, 1), OLD[1]: (2, 4, 2)}
    model = parse(
        f"g (float[batch, 2, 9] x) => (float[batch, 4, 10] y) {{ {SQUARE} y = ConvTranspose(x, w) }}", **given, **parts
    )
    assert_same_numbers(model)
    assert onnxlift.lift(model).source.count("weight_norm") == count


def test_a_part_without_axes() -> None:
    text = f"m = Reshape({V}, one) n = ReduceL2 (m, axes) d = Div({V}, n) w = Mul(d, {G}) y = Gemm <transB = 1> (x, w)"
    known: dict[str, Data] = {"one": np.array([1, 1]), "axes": np.array([1]), OLD[0]: 1.5, OLD[1]: 2.5}
    graph = load(parse(f"g (float[batch, 1] x) => (float[batch, 1] y) {{ {text} }}", **known))
    normalise(graph)
    assert weight_norm.run(graph) == 0


@pytest.mark.parametrize(("model", "axes"), [(normed(), (1,)), (turned(), (0, 2))], ids=["rows", "columns"])
def test_the_numbers_of_the_weight(model: onnx.ModelProto, axes: tuple[int, ...]) -> None:
    """For whoever reads them: a layer that is wrapped does not."""
    graph = load(model)
    normalise(graph)
    assert weight_norm.run(graph) == 1
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    g, v = (tensors[name] for name in OLD)
    weight = graph.graph.initializers["fc.weight"].const_value
    assert weight is not None
    expected = g * v / np.sqrt(np.square(v).sum(axes, keepdims=True))
    np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-6)

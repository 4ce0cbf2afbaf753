"""Weights in 8 and 4 bits: what is stored, what is computed, and what stays."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from onnxlift.ir.writing.proto import to_proto
from onnxlift.workbench.quantize.preparing import prepare
from onnxlift.workbench.quantize.recipe import Recipe
from onnxlift.workbench.quantize.weights import quantize_weights
from onnxlift.workbench.report import open_model
from workbench.running import model_of, operators, outputs_of

from .networks import convnet, normal, perceptron, samples, sqnr

IDS = np.arange(10, dtype=np.int64).reshape(2, 5)


def quantised(model: onnx.ModelProto, recipe: Recipe, keep: tuple[str, ...] = ()) -> onnx.ModelProto:
    prepared, _ = prepare(open_model(model), recipe)
    result = to_proto(quantize_weights(prepared, recipe, keep))
    onnx.checker.check_model(result, full_check=True)
    return result


def test_bytes_are_a_127th_of_the_largest_number_of_each_channel() -> None:
    model = convnet()
    result = quantised(model, Recipe("weights"))
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.graph.initializer}
    before = numpy_helper.to_array(next(t for t in model.graph.initializer if t.name == "w2"))
    assert stored["w2_quantized"].dtype == np.int8 and "w2" not in stored
    again = stored["w2_quantized"] * stored["w2_scale"].reshape(-1, 1, 1, 1)
    assert np.abs(again - before).max() <= stored["w2_scale"].max() / 2 * 1.001
    np.testing.assert_allclose(stored["w2_scale"] * 127, np.abs(before).max((1, 2, 3)), rtol=1e-6)
    assert "w1" in stored and "w3" in stored, "small weights stay"
    feeds = samples(1)[0]
    assert sqnr(*(outputs_of(each, feeds)[0] for each in (model, result))) > 35


@pytest.mark.parametrize(
    ("recipe", "found", "least"),
    [
        (Recipe("weights"), {"DequantizeLinear": 3, "Gather": 1, "MatMul": 1, "Gemm": 1}, 30),
        (Recipe("weights", per_channel=False), {"DequantizeLinear": 3}, 30),
        (Recipe("weights", "qoperator", bits=4), {"MatMulNBits": 2, "Gather": 1, "Add": 1}, 15),
        (Recipe("weights", "qdq", bits=4), {"DequantizeLinear": 2, "MatMul": 2, "Add": 1}, 15),
        (Recipe("weights", "qoperator", bits=4, block_size=16), {"MatMulNBits": 2}, 15),
    ],
    ids=str,
)
def test_products_and_embeddings(recipe: Recipe, found: dict[str, int], least: float) -> None:
    model = perceptron()
    result = quantised(model, recipe)
    assert {name: operators(result).count(name) for name in found} == found
    expected, actual = (outputs_of(each, {"ids": IDS})[0] for each in (model, result))
    assert least < sqnr(expected, actual) < 70


def test_both_forms_of_4_bits_hold_the_same_numbers() -> None:
    first, second = (quantised(perceptron(), Recipe("weights", form, bits=4)) for form in ("qdq", "qoperator"))
    np.testing.assert_allclose(*(outputs_of(each, {"ids": IDS})[0] for each in (first, second)), rtol=0.02, atol=0.5)


def test_a_weight_that_two_nodes_read_is_stored_once() -> None:
    model = model_of(
        "(float[n, 40] x) => (float[n, 40] y) { a = MatMul(x, w) b = Relu(a) y = MatMul(b, w) }", {"w": normal(40, 40)}
    )
    result = quantised(model, Recipe("weights"))
    assert operators(result).count("DequantizeLinear") == 1
    assert (
        sum(tensor.data_type == onnx.TensorProto.INT8 and len(tensor.dims) == 2 for tensor in result.graph.initializer)
        == 1
    )


def test_a_turned_gemm_has_its_channels_in_rows() -> None:
    weight = normal(50, 40) * np.geomspace(1, 1e4, 50, dtype=np.float32)[:, None]
    model = model_of("(float[n, 40] x) => (float[n, 50] y) { y = Gemm <transB = 1> (x, w) }", {"w": weight})
    x = normal(3, 40)
    for recipe in (Recipe("weights"), Recipe("weights", "qoperator", bits=4)):
        expected, actual = (outputs_of(each, {"x": x})[0] for each in (model, quantised(model, recipe)))
        rows = [sqnr(a, b) for a, b in zip(expected.T, actual.T, strict=True)]
        assert min(rows) > (25 if recipe.bits == 8 else 5), "every row has steps of its own"


def test_nodes_to_keep_and_products_of_other_kinds_stay() -> None:
    model = perceptron()
    prepared, _ = prepare(open_model(model), Recipe("weights"))
    names = tuple(node.name or "" for node in prepared.graph)
    assert operators(quantised(model, Recipe("weights"), names)) == [node.op_type for node in prepared.graph]
    scaled = model_of("(float[n, 40] x) => (float[n, 50] y) { y = Gemm <alpha = 2.0> (x, w) }", {"w": normal(40, 50)})
    assert operators(quantised(scaled, Recipe("weights", "qoperator", bits=4))) == ["Gemm"]


def test_weights_are_quantised_when_they_are_written() -> None:
    prepared, _ = prepare(open_model(convnet()), Recipe("weights"))
    result = quantize_weights(prepared, Recipe("weights"), ())
    tensor = result.graph.initializers["w2_quantized"].const_value
    assert isinstance(tensor, ir.LazyTensor)

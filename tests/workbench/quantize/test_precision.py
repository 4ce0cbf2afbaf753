"""float16 and bfloat16: what is converted, and what would not fit and stays."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from onnxlift.ir.writing.proto import to_proto
from onnxlift.workbench.quantize.precision import convert_precision, emulated, overflowing
from onnxlift.workbench.quantize.preparing import prepare
from onnxlift.workbench.quantize.recipe import QuantizeError, Recipe
from onnxlift.workbench.report import open_model
from workbench.running import model_of, operators, outputs_of

from .networks import convnet, normal, samples, sqnr


def prepared(model: onnx.ModelProto, mode: str = "float16"):
    return prepare(open_model(model), Recipe(mode))[0]


def test_all_weights_are_halves_and_the_interface_stays() -> None:
    model = convnet()
    result = to_proto(convert_precision(prepared(model), "float16", ()))
    onnx.checker.check_model(result, full_check=True)
    assert {t.data_type for t in result.graph.initializer if len(t.dims) > 1} == {TensorProto.FLOAT16}
    assert list(result.graph.input) == list(model.graph.input) and list(result.graph.output) == list(model.graph.output)
    assert operators(result).count("Cast") == 2
    feeds = samples(1)[0]
    assert 50 < sqnr(*(outputs_of(each, feeds)[0] for each in (model, result))) < 90


def test_what_would_overflow_stays_in_float32() -> None:
    model = model_of(
        "(float[n, 8] x, bool[n, 8] m) => (float[n, 8] y) "
        "{ a = MatMul(x, w) b = Mul(a, big) c = Div(b, big) d = Where(m, c, low) e = Softmax(d) y = MatMul(e, w) }",
        {"w": normal(8, 8), "big": np.array(3e5, np.float32), "low": np.array(-3e38, np.float32)},
    )
    ready = prepared(model)
    ranges = {"a": (-9.0, 9.0), "b": (-2e6, 2e6), "c": (-9.0, 9.0), "d": (-3e38, 9.0), "e": (0.0, 1.0)}
    wide = overflowing(ready, "float16", ranges)
    assert {node.op_type for node in ready.graph if node.name in wide} == {"Mul", "Div", "Where", "Softmax"}
    result = to_proto(convert_precision(ready, "float16", wide))
    x, mask = normal(4, 8), np.arange(32).reshape(4, 8) % 3 > 0
    feeds = {"x": x, "m": mask}
    assert sqnr(*(outputs_of(each, feeds)[0] for each in (model, result))) > 45
    types = {tensor.name: tensor.data_type for tensor in result.graph.initializer}
    assert types == {"w": TensorProto.FLOAT16, "big": TensorProto.FLOAT, "low": TensorProto.FLOAT}
    assert overflowing(ready, "bfloat16", ranges) == []


def test_what_the_schema_does_not_allow_and_what_holds_graphs_stays() -> None:
    model = model_of(
        "(float[4, 8] x, bool k) => (float[4, 8] y, float[2, 4] z) { a = MatMul(x, w)"
        "  b = If(k) <then_branch = t () => (float[4, 8] p) { p = Relu(a) },"
        "             else_branch = f () => (float[4, 8] q) { q = MatMul(a, w) }>"
        "  y = Add(b, a)  h = Resize(x, , s)  z = Relu(h) }",
        {"w": normal(8, 8), "s": np.array([0.5, 0.5], np.float32)},
    )
    result = to_proto(convert_precision(prepared(model), "float16", ()))
    onnx.checker.check_model(result)
    types = {tensor.name: tensor.data_type for tensor in result.graph.initializer}
    assert types["s"] == TensorProto.FLOAT, "scales of a Resize are float32 by its schema"
    assert types["w"] == TensorProto.FLOAT, "one of its readers is in a branch"
    for choice in (True, False):
        feeds = {"x": normal(4, 8), "k": np.array(choice)}
        for expected, actual in zip(outputs_of(model, feeds), outputs_of(result, feeds), strict=True):
            assert sqnr(expected, actual) > 40


def test_bfloat16_is_emulated_by_rounding_each_value() -> None:
    model = convnet()
    result = convert_precision(prepared(model, "bfloat16"), "bfloat16", ())
    proto = to_proto(result)
    assert {t.data_type for t in proto.graph.initializer if len(t.dims) > 1} == {TensorProto.BFLOAT16}
    onnx.checker.check_model(proto, full_check=True)
    shown = to_proto(emulated(result))
    feeds = samples(1)[0]
    (expected,), (rounded,) = outputs_of(model, feeds), outputs_of(shown, feeds)
    assert 25 < sqnr(expected, rounded) < 55
    bits = rounded.view(np.uint32) & 0xFFFF
    assert not bits.any(), "the output itself is a whole bfloat16"


def test_bfloat16_agrees_with_the_reference_of_onnx() -> None:
    from onnx.reference import ReferenceEvaluator

    model = model_of(
        "(float[3, 8] x) => (float[3, 6] y) { a = MatMul(x, w) b = Relu(a) y = Mul(b, b) }", {"w": normal(8, 6)}
    )
    result = convert_precision(prepared(model, "bfloat16"), "bfloat16", ())
    x = normal(3, 8)
    (expected,) = ReferenceEvaluator(to_proto(result)).run(None, {"x": x})
    (emulation,) = outputs_of(to_proto(emulated(result)), {"x": x})
    np.testing.assert_allclose(emulation, expected, rtol=0.05, atol=0.05)


def test_a_model_without_float32_is_an_error() -> None:
    model = model_of("(int64[n] x) => (int64[n] y) { y = Add(x, x) }")
    with pytest.raises(QuantizeError, match="no node of the main graph computes in float32"):
        convert_precision(prepared(model), "float16", ())

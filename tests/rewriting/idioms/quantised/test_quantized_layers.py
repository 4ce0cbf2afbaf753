"""Layers whose weights are stored in integers: a case for each condition."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.quantised import quantized_layers
from rewriting.idioms.recognising import Array, assert_same_numbers, parse
from rewriting.running_stages import normalise

RANDOM = np.random.default_rng(5)


def integers(*shape: int, dtype: type = np.int8) -> Array:
    low = 0 if dtype == np.uint8 else -60
    return RANDOM.integers(low, low + 120, shape).astype(dtype)


def steps(*shape: int) -> Array:
    return RANDOM.uniform(0.01, 0.1, shape).astype(np.float32)


def written(text: str, inputs: str, outputs: str, opset: int, given: dict[str, Any]) -> onnx.ModelProto:
    used = {name: data for name, data in given.items() if f" {name}" in text or f"({name}" in text}
    return parse(f"g ({inputs}) => ({outputs}) {{ {text} }}", opset, **used)


def recognised(model: onnx.ModelProto) -> list[str]:
    """The operators after this idiom alone."""
    graph = load(model)
    normalise(graph)
    quantized_layers.run(graph)
    return [node.op_type for node in graph.graph]


def operators(text: str, inputs: str, outputs: str, opset: int = 21, atol: float = 1e-5, **given: Any) -> list[str]:
    """The operators after this idiom alone, in a model that the lifted module agrees with."""
    model = written(text, inputs, outputs, opset, given)
    assert_same_numbers(model, rtol=max(atol, 1e-4), atol=atol)
    return recognised(model)


# Linear layers

LINEAR = "d = DequantizeLinear(w, s, z) y = MatMul(x, d)"
X = "float[batch, seq, 6] x"
Y = "float[batch, seq, 4] y"
STORED = {"w": integers(6, 4), "s": steps(), "z": np.array(5, np.int8), "b": (4,), "c": (4,)}
KEPT = ["DequantizeLinear", "MatMul"]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"w": integers(6, 4, dtype=np.uint8), "z": np.array(70, np.uint8)},
        {"s": steps(4), "z": integers(4)},
        {"s": steps(1), "z": integers(1)},
    ],
    ids=["one-scale", "bytes", "one-for-each-output", "one-in-an-axis"],
)
def test_linear(changed: dict[str, Array]) -> None:
    assert operators(LINEAR, X, Y, **STORED | changed) == ["QuantizedLinear"]


def test_linear_of_a_tensor_of_which_no_axes_are_known() -> None:
    text = f"""shape = Shape(all) size = Abs(k) given = GreaterOrEqual(size, none)
        some = Compress <axis = 0> (shape, given) x = Reshape(all, some) {LINEAR}"""
    found = operators(text, "float[batch, seq, 6] all, float[3] k", Y, **STORED, none=np.array(0, np.float32))
    assert found[-1] == "QuantizedLinear"


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"w": integers(6, 4).astype(np.int32), "z": np.array(0, np.int32)}, id="long-integers"),
        pytest.param({"w": integers(6, 4).astype(np.int16), "z": np.array(9, np.int16)}, id="short-integers"),
        pytest.param({"w": integers(1, 6, 4)}, id="a-matrix-for-each-of-a-batch"),
        pytest.param({"w": integers(6, 0)}, id="no-outputs"),
    ],
)
def test_other_weights(changed: dict[str, Array]) -> None:
    assert operators(LINEAR, X, "float[batch, seq, n] y", **STORED | changed) == KEPT


def test_weights_of_half_precision() -> None:
    half = {"s": np.array(0.05, np.float16)}
    found = operators(LINEAR, X.replace("float", "float16"), Y.replace("float", "float16"), atol=0.05, **STORED | half)
    assert found == KEPT


@pytest.mark.parametrize(
    ("name", "given"), [("w", "int8[6, 4] w"), ("s", "float[1] k"), ("z", "int8[1] k")], ids=["weight", "scale", "zero"]
)
def test_weights_that_are_given(name: str, given: str) -> None:
    text = LINEAR if name == "w" else f"{name} = Squeeze(k) {LINEAR}"
    constants = {key: value for key, value in STORED.items() if key != name}
    assert operators(text, f"{X}, {given}", Y, **constants)[-2:] == KEPT


def test_scales_along_another_axis_or_in_blocks() -> None:
    square = {"w": integers(6, 6), "s": steps(6), "z": integers(6)}
    text = LINEAR.replace("DequantizeLinear", "DequantizeLinear <axis = {}> ")
    assert operators(text.format(0), X, "float[batch, seq, 6] y", **square) == KEPT
    assert operators(text.format(-1), X, "float[batch, seq, 6] y", **square) == ["QuantizedLinear"]
    blocks = LINEAR.replace("DequantizeLinear", "DequantizeLinear <axis = 0, block_size = 3> ")
    assert operators(blocks, X, Y, **STORED | {"s": steps(2, 4), "z": integers(2, 4)}) == KEPT


GEMM = "d = DequantizeLinear(w, s, z) y = Gemm(x, d, b)"
ROWS = {"inputs": "float[batch, 6] x", "outputs": "float[batch, 4] y"}


@pytest.mark.parametrize(
    ("attributes", "inputs"),
    [("alpha = 0.5", "float[batch, 6] x"), ("beta = 0.5", "float[batch, 6] x"), ("transA = 1", "float[6, batch] x")],
)
def test_other_products(attributes: str, inputs: str) -> None:
    assert operators(GEMM, **ROWS, **STORED) == ["QuantizedLinear"]
    text = GEMM.replace("Gemm", f"Gemm <{attributes}> ")
    assert operators(text, inputs, ROWS["outputs"], **STORED) == ["DequantizeLinear", "Gemm"]


def test_two_factors() -> None:
    """Together they are what they are apart: only each of them must be 1."""
    text = GEMM.replace("Gemm", "Gemm <alpha = 0.5, beta = 0.5> ")
    assert operators(text, **ROWS, **STORED) == ["DequantizeLinear", "Gemm"]


@pytest.mark.parametrize("shape", [(1,), (5, 4), (5, 1)])
def test_other_biases(shape: tuple[int, ...]) -> None:
    sizes = {"inputs": "float[5, 6] x", "outputs": "float[5, 4] y"}
    assert operators(GEMM, **sizes, **STORED | {"b": shape}) == ["DequantizeLinear", "Gemm"]
    text = f"{LINEAR.replace('y =', 'h =')} y = Add(h, b)"
    assert operators(text, **sizes, **STORED | {"b": shape}) == ["QuantizedLinear", "Add"]


def test_a_second_bias() -> None:
    text = f"{GEMM.replace('y =', 'h =')} y = Add(h, c)"
    assert operators(text, **ROWS, **STORED) == ["QuantizedLinear", "Add"]


def test_a_bias_of_what_somebody_else_reads() -> None:
    text = f"{LINEAR.replace('y =', 'h =')} y = Add(h, b) v = Exp(h)"
    found = operators(text, X, f"{Y}, float[batch, seq, 4] v", **STORED)
    assert found == ["QuantizedLinear", "Add", "Exp"]


def test_a_bias_in_either_order() -> None:
    for total in ("Add(h, b)", "Add(b, h)"):
        assert operators(f"{LINEAR.replace('y =', 'h =')} y = {total}", X, Y, **STORED) == ["QuantizedLinear"]


# Convolutions

CONV = "d = DequantizeLinear <axis = 0> (w, s) y = Conv <{}> (x, d, b)"
IMAGE = {"inputs": "float[batch, 4, 7, 9] x", "outputs": "float[batch, c, h, v] y"}
KERNEL = {"w": integers(6, 4, 3, 2), "s": steps(6), "b": (6,)}


@pytest.mark.parametrize("attributes", ["kernel_shape = [3, 2]", 'auto_pad = "NOTSET", pads = [2, 1, 2, 1]'])
def test_convolution(attributes: str) -> None:
    assert operators(CONV.format(attributes), **IMAGE, **KERNEL) == ["QuantizedConv"]


@pytest.mark.parametrize("attributes", ["pads = [1, 0, 0, 0]", "pads = [1, 0, 1, 1]"])
def test_pads_that_differ_are_put_around_the_input(attributes: str) -> None:
    assert operators(CONV.format(attributes), **IMAGE, **KERNEL) == ["QuantizedConv"]


@pytest.mark.parametrize("attributes", ['auto_pad = "SAME_UPPER"', 'auto_pad = "VALID"'])
def test_other_pads(attributes: str) -> None:
    assert operators(CONV.format(attributes), **IMAGE, **KERNEL) == ["DequantizeLinear", "Conv"]


def test_pads_that_cut() -> None:
    """No rule tells of an operator of ONNX Runtime's own, which becomes a Conv."""
    for pads, is_layer in (("1, 1, 1, 1", True), ("-1, -1, -1, -1", False)):
        text = CONV.format(f"pads = [{pads}]").replace(" Conv", " com.microsoft.FusedConv")
        model = written(text, **IMAGE, opset=21, given=KERNEL)
        model.opset_import.add(domain="com.microsoft", version=1)
        assert ("QuantizedConv" in onnxlift.lift(model).source) is is_layer


def test_a_convolution_of_one_scale() -> None:
    text = CONV.format("group = 1").replace(" <axis = 0>", "")
    assert operators(text, **IMAGE, **KERNEL | {"s": steps()}) == ["QuantizedConv"]
    assert operators(text, **IMAGE, **KERNEL | {"s": steps(1)}) == ["QuantizedConv"]


def test_a_convolution_along_one_axis() -> None:
    signal = {"inputs": "float[batch, 4, 9] x", "outputs": "float[batch, c, h] y"}
    found = operators(CONV.format("group = 1"), **signal, **KERNEL | {"w": integers(6, 4, 3)})
    assert found == ["QuantizedConv"]


def test_a_convolution_along_three_axes() -> None:
    volume = {"inputs": "float[batch, 4, 5, 6, 7] x", "outputs": "float[batch, c, h, v, d] y"}
    found = operators(CONV.format("group = 1"), **volume, **KERNEL | {"w": integers(6, 4, 3, 3, 3)})
    assert found == ["DequantizeLinear", "Conv"]


def test_a_convolution_with_a_bias_that_is_given() -> None:
    text, inputs = CONV.format("group = 1"), f"{IMAGE['inputs']}, float[6] b"
    stored = {"w": KERNEL["w"], "s": KERNEL["s"]}
    assert operators(text, inputs, IMAGE["outputs"], **stored) == ["DequantizeLinear", "Conv"]


def test_a_convolution_of_nothing() -> None:
    text = f"x = Slice(all, start, start, axis) {CONV.format('pads = [1, 1, 1, 1]')}"
    cut = {"start": np.array([0]), "axis": np.array([0])}
    found = operators(text, IMAGE["inputs"].replace("x", "all"), "float[a, c, h, v] y", **KERNEL, **cut)
    assert found[-2:] == ["DequantizeLinear", "Conv"]


# Embeddings

ROWS_FIRST = "r = Gather(t, x) y = DequantizeLinear(r, s, z)"
TABLE_FIRST = "r = DequantizeLinear(t, s, z) y = Gather(r, x)"
EITHER = pytest.mark.parametrize("text", [ROWS_FIRST, TABLE_FIRST], ids=["rows-first", "table-first"])
IDS = {"inputs": "int64[batch, seq] x", "outputs": "float[batch, seq, n] y"}
TABLE = {"t": integers(5, 4), "s": steps(), "z": np.array(7, np.int8)}


@EITHER
def test_embedding(text: str) -> None:
    assert operators(text, **IDS, **TABLE) == ["QuantizedEmbedding"]
    assert operators(text, **IDS, **TABLE | {"s": steps(1), "z": integers(1)}) == ["QuantizedEmbedding"]
    back = text.replace("Gather", "Gather <axis = -2> ")
    assert operators(back, **IDS, **TABLE) == ["QuantizedEmbedding"]


@EITHER
def test_columns_of_a_table(text: str) -> None:
    columns = {"inputs": "int64[batch, seq] x", "outputs": "float[n, batch, seq] y"}
    found = operators(text.replace("Gather", "Gather <axis = 1> "), **columns, **TABLE | {"t": integers(4, 5)})
    assert sorted(found) == ["DequantizeLinear", "Gather"]


@EITHER
def test_one_row_of_a_table(text: str) -> None:
    text = f"x = Squeeze(k) {text}"
    found = operators(text, "int64[1] k", "float[n] y", **TABLE)
    assert sorted(found) == ["DequantizeLinear", "Gather", "Squeeze"]


@EITHER
def test_rows_that_somebody_else_reads(text: str) -> None:
    result = "float[batch, seq, n] v" if text == ROWS_FIRST else "float[a, b] v"
    found = operators(f"{text} v = Cast <to = 1> (r)", IDS["inputs"], f"{IDS['outputs']}, {result}", **TABLE)
    assert "QuantizedEmbedding" not in found


def test_an_embedding_with_a_scale_for_each_column() -> None:
    found = operators(TABLE_FIRST, **IDS, **TABLE | {"s": steps(4), "z": integers(4)})
    assert found == ["DequantizeLinear", "Gather"]


def test_rows_of_rows() -> None:
    text = "r = Gather(t, k) y = Gather(r, x)"
    found = operators(text, "int64[batch, seq] x, int64[5] k", IDS["outputs"], t=(5, 4))
    assert found == ["Gather", "Gather"]


# What is quantised while the model runs

DYNAMIC = """q, a, az = DynamicQuantizeLinear(x)
    i = MatMulInteger(q, w, az, z) f = Cast <to = 1> (i) t = Mul(a, s) y = Mul(f, t)"""
PRODUCT = {"w": integers(6, 4) // 2, "s": steps(), "z": np.array(5, np.int8)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("Mul(f, t)", "Mul(t, f)"),
        ("Mul(a, s)", "Mul(s, a)"),
        ("az, z)", "az)"),
        ("Cast <to = 1> (i)", "CastLike(i, x)"),
    ],
)
def test_dynamic(old: str, new: str) -> None:
    assert operators(DYNAMIC.replace(old, new), X, Y, **PRODUCT) == ["DynamicQuantizedLinear"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("(q, w, az, z)", "(q, w, other, z)", id="another-zero-point"),
        pytest.param("(q, w, az, z)", "(q, w)", id="no-zero-point"),
        pytest.param("Mul(a, s)", "Mul(r, s)", id="another-scale"),
        pytest.param("Mul(a, s)", "Add(a, s)", id="a-sum-of-scales"),
    ],
)
def test_other_products_of_integers(old: str, new: str) -> None:
    more = {"other": np.array(9, np.uint8), "r": steps()}
    assert "DynamicQuantizedLinear" not in operators(DYNAMIC.replace(old, new), X, Y, **PRODUCT, **more)


@pytest.mark.parametrize("value", ["f", "t", "i"])
def test_products_that_somebody_else_reads(value: str) -> None:
    result = "float[a, b, c] v" if value != "t" else "float v"
    found = operators(f"{DYNAMIC} v = Cast <to = 1> ({value})", X, f"{Y}, {result}", **PRODUCT)
    assert "DynamicQuantizedLinear" not in found


def test_scales_and_zero_points_of_other_shapes() -> None:
    axes = PRODUCT | {"s": steps(1, 1, 1, 4)}
    assert "DynamicQuantizedLinear" not in operators(DYNAMIC, X, "float[a, b, c, d] y", **axes)
    row = PRODUCT | {"z": integers(1, 4)}
    assert "DynamicQuantizedLinear" not in recognised(written(DYNAMIC, X, Y, 21, row))


def test_nodes_without_inputs_are_passed_by() -> None:
    text = "e = SequenceEmpty() s = SequenceInsert(e, x) y = ConcatFromSequence <axis = 0, new_axis = 1> (s)"
    assert len(operators(text, "float[batch, 3] x", "float[1, batch, 3] y")) == 3


def test_numbers_of_another_type_than_the_scale_stay() -> None:
    text = "d = DequantizeLinear <output_dtype = 10> (w, s, z) y = MatMul(x, d)"
    given = written(text, "float16[batch, seq, 6] x", "float16[batch, seq, 4] y", 23, STORED)
    assert recognised(given) == KEPT

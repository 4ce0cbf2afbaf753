"""Products with weights in blocks, or of four bits, are layers; a case for each condition."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import onnxlift
from rewriting.idioms.recognising import Array, found, parse

RANDOM = np.random.default_rng(4)
PRODUCT = "d = DequantizeLinear <axis = 0, block_size = 16> (w, s, z) y = MatMul(x, d)"
LAYER = "com.microsoft.MatMulNBits"
FOUR = {"int4": TensorProto.INT4, "uint4": TensorProto.UINT4}


def steps(*shape: int) -> Array:
    return RANDOM.uniform(0.01, 0.1, shape).astype(np.float32)


def model_of(
    text: str, inputs: str = "float[batch, seq, 32] x", result: str = "float[batch, seq, 5] y", **given: Any
) -> Any:
    """A model with constants of four bits: an array, and the name of its type."""
    used = {name: data for name, data in given.items() if f" {name}" in text or f"({name}" in text}
    plain = {name: data for name, data in used.items() if not _is_four(data)}
    model = parse(f"g ({inputs}) => ({result}) {{ {text} }}", 21, **plain)
    for name, data in used.items():
        if _is_four(data):
            array, kind = data
            packed = array.astype(getattr(ml_dtypes, kind))
            model.graph.initializer.append(helper.make_tensor(name, FOUR[kind], array.shape, packed.reshape(-1)))
    return model


def _is_four(data: Any) -> bool:
    return isinstance(data, tuple) and isinstance(data[0], np.ndarray)


def operators(text: str, **given: Any) -> list[str]:
    return found(model_of(text, **given))


def four(kind: str, *shape: int) -> tuple[Array, str]:
    low, high = (-8, 8) if kind == "int4" else (0, 16)
    return RANDOM.integers(low, high, shape), kind


@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_blocks_of_four_bits(kind: str) -> None:
    given = {"w": four(kind, 32, 5), "s": steps(2, 5), "z": four(kind, 2, 5)}
    assert operators(PRODUCT, **given) == [LAYER]
    without = PRODUCT.replace(", z)", ")")
    assert operators(without, **given) == [LAYER]
    source = onnxlift.lift(model_of(without, **given)).source
    assert ("zero_points=True" in source) is (kind == "uint4")  # zero is in the middle of their range, or at its end


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_blocks_of_bytes(dtype: type) -> None:
    weight, zero = (RANDOM.integers(0, 100, shape).astype(dtype) for shape in ((32, 5), (2, 5)))
    assert operators(PRODUCT, w=weight, s=steps(2, 5), z=zero) == [LAYER]


def test_a_last_block_that_is_shorter() -> None:
    given = {"w": four("int4", 40, 5), "s": steps(3, 5), "z": four("int4", 3, 5)}
    assert operators(PRODUCT, inputs="float[batch, seq, 40] x", **given) == [LAYER]


@pytest.mark.parametrize("scale", [(), (1,), (5,)], ids=["one", "list", "by output"])
def test_four_bits_without_blocks(scale: tuple[int, ...]) -> None:
    text = "d = DequantizeLinear <axis = 1> (w, s) y = MatMul(x, d)"
    assert operators(text, w=four("int4", 32, 5), s=steps(*scale)) == [LAYER]


@pytest.mark.parametrize("turned", [False, True])
def test_weights_that_are_stored_by_output(turned: bool) -> None:
    text = "d = DequantizeLinear <axis = 1, block_size = 16> (w, s) "
    text += "t = Transpose <perm = [1, 0]> (d) y = MatMul(x, t)" if turned else "y = Gemm <transB = 1> (x, d, b)"
    sizes = {} if turned else {"inputs": "float[batch, 32] x", "result": "float[batch, 5] y"}
    assert operators(text, w=four("uint4", 5, 32), s=steps(5, 2), b=(5,), **sizes) == [LAYER]


def test_a_bias_that_is_added_is_the_layers() -> None:
    given = {"w": four("int4", 32, 5), "s": steps(2, 5), "z": four("int4", 2, 5), "b": (5,)}
    for total in ("Add(h, b)", "Add(b, h)"):
        assert operators(f"{PRODUCT.replace('y =', 'h =')} y = {total}", **given) == [LAYER]
    assert operators(f"{PRODUCT.replace('y =', 'h =')} y = Add(h, b)", **given | {"b": (1,)})[-1] == "Add"
    twice = f"{PRODUCT.replace('y =', 'h =')} k = Add(h, b) y = Add(k, c)"
    assert operators(twice, **given, c=(5,))[-1] == "Add"


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (PRODUCT, {"inputs": "float[batch, seq, 32] x, float[2, 5] s"}),
        (
            PRODUCT.replace("axis = 0", "axis = 1"),
            {
                "w": four("int4", 32, 32),
                "s": steps(32, 2),
                "z": four("int4", 32, 2),
                "result": "float[batch, seq, 32] y",
            },
        ),
        (f"{PRODUCT} v = Neg(d)", {"result": "float[batch, seq, 5] y, float[32, 5] v"}),
        ("d = DequantizeLinear <axis = 0> (w, s) y = MatMul(x, d)", {"s": steps(32)}),
        (PRODUCT.replace("block_size = 16", "block_size = 1"), {"s": steps(32, 5), "z": four("int4", 32, 5)}),
    ],
    ids=["a scale that is given", "blocks of outputs", "read elsewhere", "a scale for each feature", "half a byte"],
)
def test_other_products_stay(text: str, changed: dict[str, Any]) -> None:
    given = {"w": four("int4", 32, 5), "s": steps(2, 5), "z": four("int4", 2, 5)} | changed
    if "float[2, 5] s" in changed.get("inputs", ""):
        del given["s"]
    assert LAYER not in operators(text, **given)

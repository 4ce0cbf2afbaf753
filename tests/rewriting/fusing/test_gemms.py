"""A product of matrices and its bias become a Gemm, where the bias fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnxlift
from workbench.running import assert_same, model_of, operators

RANDOM = np.random.default_rng(4)
BIASES = {"v": (3,), "row": (1, 3), "s": (), "one": (1,), "column": (5, 1), "full": (5, 3), "deep": (1, 1, 3)}


def weights() -> dict[str, np.ndarray[Any, Any]]:
    made = {name: RANDOM.standard_normal(shape).astype(np.float32) for name, shape in BIASES.items()}
    return {"w": RANDOM.standard_normal((4, 3)).astype(np.float32), **made}


def check(nodes: str, x: str, *shapes: tuple[int, ...], opset: int = 18) -> list[str]:
    every = weights()
    read = {name: every[name] for name in every if f", {name})" in nodes or f"({name}, " in nodes}
    model = model_of(f"(float[{x}] x) => (float[] y) {{ {nodes} }}", read, opset)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    result = onnxlift.simplify(model, verify=False).proto()
    assert_same(model, result, *({"x": RANDOM.standard_normal(shape).astype(np.float32)} for shape in shapes))
    return operators(result)


@pytest.mark.parametrize("bias", ["v", "row", "s", "one"])
@pytest.mark.parametrize("order", ["Add(p, {})", "Add({}, p)"])
def test_a_product_with_a_bias_is_a_gemm(bias: str, order: str) -> None:
    assert check(f"p = MatMul(x, w) y = {order.format(bias)}", "n, 4", (5, 4), (2, 4)) == ["Gemm"]


@pytest.mark.parametrize("bias", ["column", "full"])
def test_a_bias_for_each_row_fits_a_known_number_of_rows(bias: str) -> None:
    assert check(f"p = MatMul(x, w) y = Add(p, {bias})", "5, 4", (5, 4)) == ["Gemm"]


@pytest.mark.parametrize(
    ("nodes", "x", "shape"),
    [
        ("p = MatMul(x, w) y = Add(p, v)", "2, n, 4", (2, 5, 4)),  # not a matrix
        ("p = MatMul(x, w) y = Add(p, deep)", "n, 4", (5, 4)),  # the sum has another rank
        ("p = MatMul(x, w) y = Add(p, column)", "n, 4", (1, 4)),  # a single row would be repeated
        ("p = MatMul(x, w) q = Add(p, v) y = Mul(q, p)", "n, 4", (5, 4)),  # somebody else reads the product
    ],
)
def test_other_sums_stay(nodes: str, x: str, shape: tuple[int, ...]) -> None:
    assert "Gemm" not in check(nodes, x, shape)

"""Matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from lifting.ops.checking import check, check_official, official_cases

NODE = helper.make_node


@pytest.mark.parametrize("case", official_cases("Gemm", "MatMul", "MatMulInteger", "Det", "Einsum", alone=True))
def test_official(case: Any) -> None:
    check_official(case)


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(shape).normal(scale=3, size=shape).astype(dtype)


def last_line(source: str) -> str:
    return next(line.strip() for line in source.splitlines() if line.startswith("        return "))


PRODUCTS = [
    ((4,), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((2, 3, 4), (4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((0, 4), (4, 5)),
]


@pytest.mark.parametrize(("a", "b"), PRODUCTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint32])
def test_matmul(a: tuple[int, ...], b: tuple[int, ...], dtype: Any) -> None:
    inputs = {"a": rand(*a).astype(np.int8).astype(dtype), "b": rand(*b).astype(np.int8).astype(dtype)}
    check(NODE("MatMul", ["a", "b"], ["y"]), inputs, reference=True)


@pytest.mark.parametrize("constants", [(), ("a",), ("b",), ("c",), ("b", "c")])
@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.5, 2.0), (3.0, 0.0)])
def test_gemm(constants: tuple[str, ...], transposed: tuple[int, int], scales: tuple[float, float]) -> None:
    trans_a, trans_b = transposed
    a, b = rand(4, 3) if trans_a else rand(3, 4), rand(5, 4) if trans_b else rand(4, 5)
    for c in (rand(5), rand(3, 1), rand(3, 5), rand(1), np.array(2.5, np.float32), None):
        inputs = {"a": a, "b": b} if c is None else {"a": a, "b": b, "c": c}
        alpha, beta = scales
        node = NODE("Gemm", list(inputs), ["y"], transA=trans_a, transB=trans_b, alpha=alpha, beta=beta)
        check(node, inputs, opset=13, constants=[name for name in constants if name in inputs])


def test_gemm_of_the_first_opsets() -> None:
    inputs = {"a": rand(3, 4), "b": rand(4, 5), "c": rand(5)}
    expected = inputs["a"] @ inputs["b"] + inputs["c"]
    check(NODE("Gemm", ["a", "b", "c"], ["y"], broadcast=1), inputs, opset=6, expected=[expected])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_gemm_of_integers(dtype: Any) -> None:
    a, b, c = (np.abs(rand(*shape)).astype(dtype) for shape in ((3, 4), (5, 4), (5,)))
    node = NODE("Gemm", ["a", "b", "c"], ["y"], transB=1, beta=2.0)
    check(node, {"a": a, "b": b, "c": c}, opset=13, expected=[a @ b.T + c * dtype(2)])


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"transB": 1}, "F.linear(a, b, c)"),
        ({"transA": 1, "transB": 1}, "a.T @ b.T + c"),
        ({"transB": 1, "alpha": 0.5}, "torch.addmm(c, a, b.T, alpha=0.5)"),
    ],
)
def test_gemm_source(attributes: dict[str, Any], code: str) -> None:
    inputs = {"a": rand(4, 4), "b": rand(5, 4), "c": rand(5)}
    assert last_line(check(NODE("Gemm", ["a", "b", "c"], ["y"], **attributes), inputs)) == f"return {code}"


@pytest.mark.parametrize("a_type", [np.uint8, np.int8])
@pytest.mark.parametrize("b_type", [np.uint8, np.int8])
@pytest.mark.parametrize("constants", [(), ("a_zero", "b_zero")])
def test_matmul_of_bytes(a_type: Any, b_type: Any, constants: tuple[str, ...]) -> None:
    rng = np.random.default_rng(5)

    def full_range(dtype: Any, *shape: int) -> np.ndarray:
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)

    a, b = full_range(a_type, 2, 3, 70), full_range(b_type, 70, 5)
    for a_shape, b_shape in (((), ()), ((1,), (1,)), ((3,), (5,)), ((2, 3, 1), (1, 5))):
        a_zero, b_zero = full_range(a_type, *a_shape), full_range(b_type, *b_shape)
        inputs = {"a": a, "b": b, "a_zero": a_zero, "b_zero": b_zero}
        rows = a_zero[:, None] if a_shape == (3,) else a_zero
        expected = (a.astype(np.int32) - rows) @ (b.astype(np.int32) - b_zero)
        node = NODE("MatMulInteger", list(inputs), ["y"])
        check(node, inputs, constants=constants, expected=[expected], rtol=0)


def test_matmul_of_bytes_without_zero_points() -> None:
    a, b = np.arange(12, dtype=np.uint8).reshape(3, 4), np.arange(20, dtype=np.int8).reshape(4, 5) - 9
    check(NODE("MatMulInteger", ["a", "b"], ["y"]), {"a": a, "b": b.astype(np.int8)})
    inputs = {"a": a, "b": b.astype(np.int8), "z": np.array(-3, np.int8)}
    check(NODE("MatMulInteger", ["a", "b", "", "z"], ["y"]), inputs, constants=["z"])


@pytest.mark.parametrize("equation", ["ij,jk->ki", "...i,ij", "i j , j k -> i", "...ij,...jk->...ik", "ij,jk->"])
def test_einsum(equation: str) -> None:
    check(NODE("Einsum", ["a", "b"], ["y"], equation=equation), {"a": rand(3, 4), "b": rand(4, 5)})


def test_einsum_of_one_and_of_three() -> None:
    check(NODE("Einsum", ["a"], ["y"], equation="bii->bi"), {"a": rand(2, 3, 3)})
    inputs = {"a": rand(2, 3), "b": rand(3, 4), "c": rand(4)}
    check(NODE("Einsum", ["a", "b", "c"], ["y"], equation="ij,jk,k->i"), inputs)


def test_determinant() -> None:
    check(NODE("Det", ["x"], ["y"]), {"x": rand(2, 4, 3, 3)}, rtol=1e-4)

"""Random numbers. They come from PyTorch's own generator, so that `torch.manual_seed` makes them repeatable.

A node's `seed` has no effect: ONNX does not say which generator it seeds, so no two runtimes agree on the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Expr, torch
from onnxlift.lifting.ops.node import Node, Result, data_type, torch_dtype
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op

from .cast import converted


@op("RandomNormal", ignores=("seed",))
def RandomNormal(n: Node, *, shape: Sequence[int], dtype: int, mean: float, scale: float) -> Result:
    return _normal(torch.randn(*_sizes(shape), **_dtype(dtype), device=n.device), mean, scale)


@op("RandomNormalLike", ignores=("seed",))
def RandomNormalLike(n: Node, input: Tensor, *, dtype: int | None, mean: float, scale: float) -> Result:
    return _normal(_like(n, "randn", input, dtype), mean, scale)


@op("RandomUniform", ignores=("seed",))
def RandomUniform(n: Node, *, shape: Sequence[int], dtype: int, low: float, high: float) -> Result:
    return _uniform(torch.rand(*_sizes(shape), **_dtype(dtype), device=n.device), low, high)


@op("RandomUniformLike", ignores=("seed",))
def RandomUniformLike(n: Node, input: Tensor, *, dtype: int | None, low: float, high: float) -> Result:
    return _uniform(_like(n, "rand", input, dtype), low, high)


@op("Multinomial", ignores=("seed",))
def Multinomial(n: Node, input: Tensor, *, dtype: int, sample_size: int) -> Result:
    """The input has logarithms of probabilities, which need not add up to one."""
    drawn = torch.multinomial(input.softmax(-1), sample_size, replacement=True)
    return drawn if dtype == DataType.INT64 else converted(drawn, data_type(dtype))


@op("Bernoulli", ignores=("seed",))
def Bernoulli(n: Node, input: Tensor, *, dtype: int | None) -> Result:
    drawn = input.bernoulli()
    return drawn if dtype is None or dtype == input.type.dtype else converted(drawn, data_type(dtype))


def _normal(drawn: Expr, mean: float, scale: float) -> Expr:
    scaled = drawn if scale == 1 else drawn * scale
    return scaled if mean == 0 else scaled + mean


def _uniform(drawn: Expr, low: float, high: float) -> Expr:
    scaled = drawn if high - low == 1 else drawn * (high - low)
    return scaled if low == 0 else scaled + low


def _sizes(shape: Sequence[int]) -> list[Any]:
    return list(shape) or [()]


def _dtype(dtype: int) -> dict[str, Expr]:
    return {} if dtype == DataType.FLOAT else {"dtype": torch_dtype(data_type(dtype))}


def _like(n: Node, draw: str, input: Tensor, dtype: int | None) -> Expr:
    """Return `torch.randn_like(input)` or the like. Of strings only the shape is used."""
    if input.type.dtype == DataType.STRING:
        like, options = input.shape, {**_dtype(dtype or DataType.STRING), "device": n.device}
    else:
        draw, like = f"{draw}_like", input
        options = {} if dtype is None or dtype == input.type.dtype else {"dtype": torch_dtype(data_type(dtype))}
    result: Expr = getattr(torch, draw)(like, **options)
    return result

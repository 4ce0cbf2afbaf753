"""Pick, join, scale, normalise and complete features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.types import DataType, ValueType
from onnxlift.lifting.code.expr import Expr, F, equal, torch
from onnxlift.lifting.ops.arguments import attribute_number
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result, torch_dtype
from onnxlift.lifting.ops.operand import Constant, Tensor, exact_number
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.shape.create import constant
from onnxlift.lifting.ops.standard.shape.index import Gather

from .scores import Array, rows, table

ML = "ai.onnx.ml"
_TINIEST = 1e-38  # smaller than the norm of any row of normal numbers, so that only rows of zeros are divided by it


@op("ArrayFeatureExtractor", domain=ML)
def ArrayFeatureExtractor(n: Node, X: Tensor, Y: Tensor) -> Result:
    """Elements of the last axis by their index. The result is a matrix even if the input is a single row."""
    if isinstance(Y, Constant):
        indices: Tensor = constant(ir.tensor(Y.const.reshape(-1)), Y.value.name)
    else:
        indices = Y if Y.type.rank == 1 else Tensor(Y.flatten(), ValueType(DataType.INT64, (Y.type.size,)))
    picked = Gather(n, X, indices, axis=-1)
    assert isinstance(picked, Expr)
    return picked.reshape(1, -1) if X.type.rank == 1 else picked


@op("Binarizer", domain=ML)
def Binarizer(n: Node, X: Tensor, *, threshold: float) -> Result:
    """1 where an element is above the threshold, else 0."""
    bound = attribute_number(threshold, X) if X.type.is_float else math.floor(threshold)
    above = bound < X
    return above.float() if X.type.dtype == DataType.FLOAT else above.to(torch_dtype(X.type.dtype))


@op("FeatureVectorizer", domain=ML)
def FeatureVectorizer(n: Node, *X: Tensor, inputdimensions: tuple[int, ...]) -> Result:
    """All inputs side by side, each cut or filled with zeros to its declared size."""
    if len(inputdimensions or ()) != len(X):
        n.fail(f"it has {len(inputdimensions or ())} sizes for {len(X)} inputs")
    parts = [_resized(x, size) for x, size in zip(X, inputdimensions, strict=True)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def _resized(x: Tensor, size: int) -> Expr:
    part = rows(x) if (x.type.rank or 2) <= 2 else rows(x).flatten(1)
    own = x.type.dim(-1) if (x.type.rank or 2) <= 2 else None
    if size == own:
        return part
    extra = size - own if isinstance(own, int) else size - part.shape[1]
    return F.pad(part, (0, extra))


@op("Imputer", domain=ML)
def Imputer(
    n: Node,
    X: Tensor,
    *,
    imputed_value_floats: tuple[float, ...] | None,
    imputed_value_int64s: tuple[int, ...] | None,
    replaced_value_float: float,
    replaced_value_int64: int,
) -> Result:
    """One value (NaN, for example) is replaced by another, the same for all features or one for each."""
    values: tuple[Any, ...] | None = imputed_value_floats if X.type.is_float else imputed_value_int64s
    if not values or X.type.dtype is None:
        n.fail("it has no values of the element type of its input to put in")
    replaced: float = attribute_number(replaced_value_float, X) if X.type.is_float else replaced_value_int64
    missing = X.isnan() if math.isnan(replaced) else equal(X, replaced)
    array = np.asarray(values, np.float32 if X.type.is_float else np.int64).astype(X.type.dtype.numpy())
    features = X.type.dim(-1)
    if isinstance(features, int) and len(values) not in (1, features):
        n.fail(f"it has {len(values)} values for {features} features")
    if len(values) == 1:
        return X.masked_fill(missing, exact_number(array[0], X.type.dtype))
    return torch.where(missing, table("imputed", array), X)


@op("Normalizer", domain=ML)
def Normalizer(n: Node, X: Tensor, *, norm: str) -> Result:
    """Each row divided by its largest element, by the sum of its absolute values, or by its length. Zeros stay
    zeros."""
    x = X if X.type.dtype == DataType.FLOAT else X.float()
    if norm == "MAX":
        return kernel("divide_by_max")(x)
    return F.normalize(x, 1, -1, _TINIEST) if norm == "L1" else F.normalize(x, dim=-1, eps=_TINIEST)


@op("Scaler", domain=ML)
def Scaler(n: Node, X: Tensor, *, offset: tuple[float, ...] | None, scale: tuple[float, ...] | None) -> Result:
    """(X - offset) * scale. Both are one number, or one for each feature."""
    y: Expr = X
    if offset:
        y = y - _per_feature("offset", offset, X)
    if scale:
        y = y * _per_feature("scale", scale, X)
    return y if X.type.dtype == DataType.FLOAT else y.float()


def _per_feature(name: str, numbers: tuple[float, ...], x: Tensor) -> Array | Expr | float:
    return attribute_number(numbers[0], x) if len(numbers) == 1 else table(name, np.asarray(numbers, np.float32))

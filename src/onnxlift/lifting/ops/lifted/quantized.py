"""Quantised layers, which the idioms recognise (idioms/quantised/)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Expr, F
from onnxlift.lifting.ops import weight_shapes
from onnxlift.lifting.ops.arguments import changed, compact
from onnxlift.lifting.ops.kinds import LayerKind, signature
from onnxlift.lifting.ops.layers import Weight, turned
from onnxlift.lifting.ops.microsoft.integer_functions import integer_function, integer_kind
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Constant, Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.layers.conv import CONV_SIGNATURE
from onnxlift.lifting.ops.steps import own

Ints = tuple[int, ...]

STEPS = frozenset({"scale", "zero_point"})
_STORED = {"per_channel": False, "signed": True}
_ENDS = {"signed_input": False, "signed_output": False}
_END_STEPS = ("input_scale", "input_zero_point", "output_scale", "output_zero_point")


def _linear_kind(name: str) -> LayerKind:
    parameters = signature("in_features", "out_features", bias=True, **_STORED)
    return LayerKind(name, parameters, word="linear", family="linear", steps=STEPS, shapes=weight_shapes.integer_linear)


def _conv_kind(name: str) -> LayerKind:
    return LayerKind(
        name,
        {**CONV_SIGNATURE, **_STORED},
        word="conv",
        family="convolution",
        channels=True,
        steps=STEPS,
        shapes=weight_shapes.integer_conv,
    )


def _conv_ends_kind(name: str) -> LayerKind:
    return LayerKind(
        name,
        {**CONV_SIGNATURE, **_STORED, **_ENDS},
        word="conv",
        family="convolution",
        channels=True,
        steps=STEPS | {*_END_STEPS},
        shapes=weight_shapes.integer_conv_of_integers,
    )


@op("QuantizedLinear", domain=DOMAIN, layer=_linear_kind("QuantizedLinear"), weights=("weight", "bias"))
def QuantizedLinear(
    n: Node,
    x: Tensor,
    weight: Constant,
    scale: Constant,
    zero_point: Constant,
    bias: Constant | None,
    *,
    transposed: int = 0,
) -> Result:
    """`x @ ((weight - zero_point) * scale) (+ bias)`; `transposed` if the weight is stored as (out, in)."""
    return _linear(n, "QuantizedLinear", x, weight, scale, zero_point, bias, bool(transposed))


@op(
    "DynamicQuantizedLinear",
    domain=DOMAIN,
    layer=_linear_kind("DynamicQuantizedLinear"),
    weights=("weight", "bias"),
)
def DynamicQuantizedLinear(
    n: Node, x: Tensor, weight: Constant, scale: Constant, zero_point: Constant, bias: Constant | None
) -> Result:
    """The same with products of integers. `x` is quantised to the range of its values."""
    return _linear(n, "DynamicQuantizedLinear", x, weight, scale, zero_point, bias, False)


def _linear(
    n: Node,
    kind: str,
    x: Tensor,
    weight: Constant,
    scale: Constant,
    zero_point: Constant,
    bias: Constant | None,
    transposed: bool,
) -> Result:
    rows, columns = _sizes(weight)
    out_features, in_features = (rows, columns) if transposed else (columns, rows)
    held = n.weight(weight) if transposed else n.weight(weight, turned, (out_features, in_features))
    row = None if bias is None else n.vector(bias)
    steps, options = _steps(n, weight, scale, zero_point, out_features)
    sizes = {"in_features": in_features, "out_features": out_features, "bias": bias is not None}
    return n.layer(kind, {"weight": held, **steps, "bias": row}, **sizes, **options)(x)


@op(
    "QuantizedConv",
    domain=DOMAIN,
    layer=(_conv_kind("QuantizedConv2d"), _conv_kind("QuantizedConv1d")),
    weights=("weight", "bias"),
)
def QuantizedConv(
    n: Node, x: Tensor, weight: Constant, scale: Constant, zero_point: Constant, bias: Constant | None, **windows: Any
) -> Result:
    """A convolution over two axes. Pads that differ between both sides are put around `x` first."""
    return _conv(n, "QuantizedConv", x, weight, scale, zero_point, bias, **windows)


@op(
    "DynamicQuantizedConv",
    domain=DOMAIN,
    layer=[_conv_kind(name) for name in ("DynamicQuantizedConv2d", "DynamicQuantizedConv1d", "RoundedBiasConv2d")],
    weights=("weight", "bias"),
)
def DynamicQuantizedConv(
    n: Node,
    x: Tensor,
    weight: Constant,
    scale: Constant,
    zero_point: Constant,
    bias: Constant | None,
    *,
    rounds_bias: int = 0,
    **windows: Any,
) -> Result:
    """The same with products of integers. `x` is quantised to the range of its values; with `rounds_bias` the bias is
    rounded too."""
    kind = "RoundedBiasConv" if rounds_bias else "DynamicQuantizedConv"
    return _conv(n, kind, x, weight, scale, zero_point, bias, **windows)


def _conv(
    n: Node,
    kind: str,
    x: Tensor,
    weight: Constant,
    scale: Constant,
    zero_point: Constant,
    bias: Constant | None,
    ends: tuple[dict[str, Weight], dict[str, Any]] = ({}, {}),
    padding: int = 0,
    *,
    dilations: Ints = (1,),
    group: int = 1,
    pads: Ints = (0,),
    strides: Ints = (1,),
) -> Result:
    out_channels, in_channels, *kernel_size = _sizes(weight)
    axes = len(kernel_size)
    data: Expr = x
    begin, end = (pads[:axes], pads[axes:]) if len(pads) == 2 * axes else (pads, pads)
    if begin != end:
        around = tuple(size for sides in zip(reversed(begin), reversed(end), strict=True) for size in sides)
        data, begin = F.pad(x, around, **changed({"value": padding}, value=0)), (0,)
    steps, options = _steps(n, weight, scale, zero_point, out_channels)
    return n.layer(
        f"{kind}{axes}d",
        {"weight": weight, **steps, **ends[0], "bias": None if bias is None else n.vector(bias)},
        in_channels=in_channels * group,
        out_channels=out_channels,
        kernel_size=compact(tuple(kernel_size)) if axes == 2 else (*kernel_size,),
        stride=compact(tuple(strides)),
        padding=compact(tuple(begin)),
        dilation=compact(tuple(dilations)),
        groups=group,
        bias=bias is not None,
        **options,
        **ends[1],
    )(data)


@op(
    "IntegerLinear",
    domain=DOMAIN,
    layer=LayerKind(
        "QLinear",
        signature("in_features", "out_features", bias=True, **_STORED, **_ENDS),
        word="linear",
        family="linear",
        steps=STEPS | {*_END_STEPS},
        shapes=weight_shapes.integer_linear_of_integers,
    ),
    weights=("weight",),
)
def IntegerLinear(
    n: Node,
    x: Tensor,
    weight: Constant,
    scale: Constant,
    zero_point: Constant,
    input_scale: Constant,
    input_zero_point: Constant,
    output_scale: Constant,
    output_zero_point: Constant,
) -> Result:
    """A product of integers with a matrix of integers that gives integers."""
    ends = (input_scale, input_zero_point, output_scale, output_zero_point)
    return integer_linear(n, x, weight, scale, zero_point, ends, None, False)


def integer_linear(
    n: Node,
    x: Tensor,
    weight: Constant,
    scale: Constant,
    zero_point: Constant,
    ends: Sequence[Constant],
    bias: Constant | None,
    transposed: bool,
) -> Result:
    """Return a layer from integers to integers; `transposed` if the weight is stored as (out, in)."""
    rows, columns = _sizes(weight)
    out_features, in_features = (rows, columns) if transposed else (columns, rows)
    held = n.weight(weight) if transposed else n.weight(weight, turned, (out_features, in_features))
    steps, options = _steps(n, weight, scale, zero_point, out_features)
    sizes = {"in_features": in_features, "out_features": out_features, "bias": bias is not None}
    end_steps, signs = _ends(ends)
    row = None if bias is None else n.vector(bias)
    return n.layer("QLinear", {"weight": held, **steps, **end_steps, "bias": row}, **sizes, **options, **signs)(x)


@op("IntegerMatMul", domain=DOMAIN, layer=integer_kind("QLinearMatMul", "matmul"))
def IntegerMatMul(
    n: Node,
    a: Tensor,
    b: Tensor,
    a_scale: Constant,
    a_zero_point: Constant,
    b_scale: Constant,
    b_zero_point: Constant,
    y_scale: Constant,
    y_zero_point: Constant,
) -> Result:
    """A product of two matrices of integers, neither of which is a weight."""
    scales, zeros = (a_scale, b_scale, y_scale), (a_zero_point, b_zero_point, y_zero_point)
    return integer_function(n, "QLinearMatMul", (a, b), scales, zeros)


@op(
    "IntegerConv",
    domain=DOMAIN,
    layer=[_conv_ends_kind(name) for name in ("QLinearConv2d", "QLinearConv1d")],
    weights=("weight", "bias"),
)
def IntegerConv(
    n: Node,
    x: Tensor,
    weight: Constant,
    scale: Constant,
    zero_point: Constant,
    input_scale: Constant,
    input_zero_point: Constant,
    output_scale: Constant,
    output_zero_point: Constant,
    bias: Constant | None,
    **windows: Any,
) -> Result:
    """A convolution of integers that gives integers, over two axes."""
    ends = _ends((input_scale, input_zero_point, output_scale, output_zero_point))
    padding = int(input_zero_point.const.reshape(()))
    return _conv(n, "QLinearConv", x, weight, scale, zero_point, bias, ends, padding, **windows)


def _ends(ends: Sequence[Constant]) -> tuple[dict[str, Weight], dict[str, Any]]:
    """Return the scales and zero points of what a layer takes and gives, and the constructor's arguments about them."""
    steps = {name: own([end], (), end.type.dtype or DataType.FLOAT) for name, end in zip(_END_STEPS, ends, strict=True)}
    signs = (zero.type.dtype == DataType.INT8 for zero in ends[1::2])
    return steps, dict(zip(_ENDS, signs, strict=True))


def _only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.reshape(())


@op(
    "QuantizedEmbedding",
    domain=DOMAIN,
    layer=LayerKind(
        "QuantizedEmbedding",
        signature("num_embeddings", "embedding_dim", **_STORED),
        word="embedding",
        family="embedding",
        steps=STEPS,
        shapes=weight_shapes.integer_embedding,
    ),
    weights=("table",),
)
def QuantizedEmbedding(n: Node, table: Constant, scale: Constant, zero_point: Constant, indices: Tensor) -> Result:
    """Rows of a quantised table."""
    rows, width = _sizes(table)
    steps, stored = _steps(n, table, scale, zero_point, rows)
    if not stored["per_channel"]:
        given = {"scale": scale, "zero_point": zero_point}
        steps = {name: n.weight(each, _only, ()) for name, each in given.items()}
    layer = n.layer(
        "QuantizedEmbedding", {"weight": table, **steps}, num_embeddings=rows, embedding_dim=width, **stored
    )
    return layer(indices)


def _steps(
    n: Node, weight: Constant, scale: Constant, zero_point: Constant, outputs: int
) -> tuple[dict[str, Weight], dict[str, Any]]:
    """Return the scale and zero point of a layer, one for all outputs or one for each, and the constructor's arguments
    about them."""
    per_channel = any(outputs == constant.type.size != 1 for constant in (scale, zero_point))
    shape = (outputs if per_channel else 1, *(1 for _ in _sizes(weight)[1:]))

    def spread(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.broadcast_to(array.reshape(-1, *shape[1:]), shape)

    steps = {"scale": n.weight(scale, spread, shape), "zero_point": n.weight(zero_point, spread, shape)}
    return steps, {"per_channel": per_channel, "signed": weight.type.dtype == DataType.INT8}


def _sizes(weight: Constant) -> Ints:
    return tuple(size for size in weight.type.shape or () if isinstance(size, int))

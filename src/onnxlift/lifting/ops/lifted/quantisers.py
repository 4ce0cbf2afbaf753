"""Layers that round numbers to small integers, or to what these stand for (idioms/quantised/)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.kinds import LayerKind, signature
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Constant, Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.layers.quant import aligned, integer_arguments
from onnxlift.lifting.ops.steps import own

_BITS = (DataType.UINT8, DataType.INT8, DataType.UINT16, DataType.INT16)


def _shapes(_: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {"scale": (), "zero_point": ()}


def _kind(name: str, word: str) -> LayerKind:
    return LayerKind(
        name,
        signature(signed=False, bits=8),
        word=word,
        family="rounding",
        steps=frozenset({"scale", "zero_point"}),
        shapes=_shapes,
    )


@op("FakeQuantize", domain=DOMAIN, layer=_kind("FakeQuantize", "quant"))
def FakeQuantize(n: Node, x: Tensor, scale: Tensor, zero_point: Tensor | None, *, axis: int = 1) -> Result:
    """`x` rounded to whole steps of `scale`."""
    target = DataType.UINT8 if zero_point is None else zero_point.type.dtype
    if _is_one_step(scale, zero_point) and target in _BITS:
        return _layer(n, "FakeQuantize", x, scale, zero_point, target)
    zero = None if zero_point is None else aligned(n, x, zero_point, axis, 0)
    return kernel("fake_quantize")(x, aligned(n, x, scale, axis, 0), *integer_arguments(zero, target))


@op("Quantize", domain=DOMAIN, layer=_kind("Quantize", "quant"))
def Quantize(n: Node, x: Tensor, scale: Constant, zero_point: Constant | None) -> Result:
    """The integers that stand for `x`, in steps of `scale`."""
    return _layer(n, "Quantize", x, scale, zero_point, n.output.dtype)


@op("Dequantize", domain=DOMAIN, layer=_kind("Dequantize", "dequant"))
def Dequantize(n: Node, x: Tensor, scale: Constant, zero_point: Constant | None) -> Result:
    """`(x - zero_point) * scale`."""
    return _layer(n, "Dequantize", x, scale, zero_point, x.type.dtype)


def _is_one_step(scale: Tensor, zero_point: Tensor | None) -> bool:
    return all(
        isinstance(each, Constant | None) and (each is None or each.type.size == 1) for each in (scale, zero_point)
    )


def _layer(n: Node, kind: str, x: Tensor, scale: Tensor, zero: Tensor | None, dtype: DataType | None) -> Result:
    assert dtype is not None
    steps = {"scale": own([scale], ()), "zero_point": own([0 if zero is None else zero], (), dtype)}
    return n.layer(kind, steps, signed=dtype in (DataType.INT8, DataType.INT16), bits=dtype.bitwidth)(x)

"""Functions of numbers that are given in small integers, of ONNX Runtime: layers that hold the steps of both ends.

They are for steps that the model fixes. Other uses are expanded to the bodies in bodies/microsoft_quant.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank
from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Expr
from onnxlift.lifting.ops.arguments import compact
from onnxlift.lifting.ops.kinds import Family, LayerKind, signature
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.steps import has_steps, own
from onnxlift.lifting.ops.window import Ints
from onnxlift.rewriting.bodies.body import MICROSOFT

_STEPS = frozenset({"input_scale", "input_zero_point", "output_scale", "output_zero_point"})
_BINARY = has_steps(1, 4, 6, zeros=(2, 5, 7), data=(0, 3))
_UNARY = has_steps(1, 3, zeros=(2, 4), data=(0,))

Steps = Sequence[Tensor | None]


def integer_kind(name: str, word: str, *required: str, family: Family = "rounding", **optional: Any) -> LayerKind:
    """Return the kind of a layer that takes and gives integers, and has no weights but the steps of both."""
    parameters = signature(*required, **optional, signed=False)
    count = 2 if name in ("QLinearAdd", "QLinearMul", "QLinearWhere", "QLinearMatMul") else 1

    def shapes(arguments: Any) -> dict[str, Ints]:
        ends = (arguments.get("inputs", count),)
        return {"input_scale": ends, "input_zero_point": ends, "output_scale": (), "output_zero_point": ()}

    return LayerKind(name, parameters, word=word, family=family, steps=_STEPS, shapes=shapes)


def integer_function(
    n: Node, kind: str, data: Sequence[Tensor], scales: Steps, zeros: Steps, *before: Expr, **arguments: Any
) -> Result:
    """Return a layer of `data`. The last of `scales`, and of `zeros`, is that of the result. A zero point that is
    missing is 0."""
    dtype = data[0].type.dtype or DataType.UINT8
    steps = [scale for scale in scales if scale is not None]
    points = [0 if zero is None else zero for zero in zeros]
    count = (len(data),)
    weights = {
        "input_scale": own(steps[:-1], count),
        "input_zero_point": own(points[:-1], count, dtype),
        "output_scale": own(steps[-1:], ()),
        "output_zero_point": own(points[-1:], (), dtype),
    }
    layer = n.layer(kind, weights, **arguments, signed=dtype == DataType.INT8)
    return layer(*before, *n.numbers(*data))


@op("QLinearAdd", domain=MICROSOFT, layer=integer_kind("QLinearAdd", "add"), takes=_BINARY)
def QLinearAdd(
    n: Node,
    A: Tensor,
    A_scale: Tensor,
    A_zero_point: Tensor | None,
    B: Tensor,
    B_scale: Tensor,
    B_zero_point: Tensor | None,
    C_scale: Tensor,
    C_zero_point: Tensor | None,
) -> Result:
    scales, zeros = (A_scale, B_scale, C_scale), (A_zero_point, B_zero_point, C_zero_point)
    return integer_function(n, "QLinearAdd", (A, B), scales, zeros)


@op("QLinearMul", domain=MICROSOFT, layer=integer_kind("QLinearMul", "mul"), takes=_BINARY)
def QLinearMul(
    n: Node,
    A: Tensor,
    A_scale: Tensor,
    A_zero_point: Tensor | None,
    B: Tensor,
    B_scale: Tensor,
    B_zero_point: Tensor | None,
    C_scale: Tensor,
    C_zero_point: Tensor | None,
) -> Result:
    scales, zeros = (A_scale, B_scale, C_scale), (A_zero_point, B_zero_point, C_zero_point)
    return integer_function(n, "QLinearMul", (A, B), scales, zeros)


@op(
    "QLinearWhere",
    domain=MICROSOFT,
    layer=integer_kind("QLinearWhere", "where"),
    takes=has_steps(2, 5, 7, zeros=(3, 6, 8), data=(1, 4)),
)
def QLinearWhere(
    n: Node,
    condition: Tensor,
    X: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    Y: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None,
    z_scale: Tensor,
    z_zero_point: Tensor | None,
) -> Result:
    scales, zeros = (x_scale, y_scale, z_scale), (x_zero_point, y_zero_point, z_zero_point)
    return integer_function(n, "QLinearWhere", (X, Y), scales, zeros, condition)


def _concat_has_steps(node: ir.Node) -> bool:
    parts = range(2, len(node.inputs), 3)
    if len(node.inputs) % 3 != 2 or any(node.inputs[place] is None for place in parts):
        return False
    scales, zeros = (place + 1 for place in parts), [1, *(place + 2 for place in parts)]
    return has_steps(0, *scales, zeros=zeros, data=[*parts])(node)


@op(
    "QLinearConcat",
    domain=MICROSOFT,
    layer=integer_kind("QLinearConcat", "concat", "inputs", "dim"),
    takes=_concat_has_steps,
)
def QLinearConcat(n: Node, Y_scale: Tensor, Y_zero_point: Tensor, *inputs: Tensor | None, axis: int) -> Result:
    """The inputs come in threes: tensor, scale, zero point."""
    data = [x for x in inputs[0::3] if x is not None]
    scales, zeros = (*inputs[1::3], Y_scale), (*inputs[2::3], Y_zero_point)
    return integer_function(n, "QLinearConcat", data, scales, zeros, inputs=len(data), dim=axis)


@op("QLinearSigmoid", domain=MICROSOFT, layer=integer_kind("QLinearSigmoid", "sigmoid"), takes=_UNARY)
def QLinearSigmoid(
    n: Node, X: Tensor, X_scale: Tensor, X_zero_point: Tensor | None, Y_scale: Tensor, Y_zero_point: Tensor | None
) -> Result:
    return integer_function(n, "QLinearSigmoid", (X,), (X_scale, Y_scale), (X_zero_point, Y_zero_point))


@op(
    "QLinearLeakyRelu",
    domain=MICROSOFT,
    layer=integer_kind("QLinearLeakyReLU", "act", negative_slope=0.01),
    takes=_UNARY,
)
def QLinearLeakyRelu(
    n: Node,
    X: Tensor,
    X_scale: Tensor,
    X_zero_point: Tensor | None,
    Y_scale: Tensor,
    Y_zero_point: Tensor | None,
    *,
    alpha: float = 0.01,
) -> Result:
    steps = (X_scale, Y_scale), (X_zero_point, Y_zero_point)
    return integer_function(n, "QLinearLeakyReLU", (X,), *steps, negative_slope=alpha)


def _softmax_over_one_axis(node: ir.Node) -> bool:
    """Until opset 12, a softmax goes over all axes from its own on."""
    axis, axes = attribute(node, "axis", -1), rank(node.inputs[0])
    is_last = axis == -1 or (axes is not None and axis == axes - 1)
    return _UNARY(node) and (is_last or (attribute(node, "opset", 0) or 0) >= 13)


@op(
    "QLinearSoftmax",
    domain=MICROSOFT,
    ignores=["opset"],
    layer=integer_kind("QLinearSoftmax", "softmax", "dim"),
    takes=_softmax_over_one_axis,
)
def QLinearSoftmax(
    n: Node,
    X: Tensor,
    X_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor,
    *,
    axis: int = -1,
) -> Result:
    return integer_function(n, "QLinearSoftmax", (X,), (X_scale, y_scale), (x_zero_point, y_zero_point), dim=axis)


def _channels_first(node: ir.Node) -> bool:
    return _UNARY(node) and attribute(node, "channels_last", 0) == 0


@op(
    "QLinearGlobalAveragePool",
    domain=MICROSOFT,
    ignores=["channels_last"],
    layer=integer_kind("QLinearGlobalAvgPool", "pool", family="pool"),
    takes=_channels_first,
)
def QLinearGlobalAveragePool(
    n: Node, X: Tensor, x_scale: Tensor, x_zero_point: Tensor, y_scale: Tensor, y_zero_point: Tensor
) -> Result:
    return integer_function(n, "QLinearGlobalAvgPool", (X,), (x_scale, y_scale), (x_zero_point, y_zero_point))


def _pools_images(node: ir.Node) -> bool:
    """Tell whether a pool goes over two axes, with pads that are the same on both sides."""
    pads = attribute(node, "pads", None) or (0, 0, 0, 0)
    sizes = attribute(node, "kernel_shape", ())
    fits = len(sizes) == 2 and list(pads[:2]) == list(pads[2:])
    fits = fits and all(2 * pad <= size for pad, size in zip(pads, sizes, strict=False))
    return _channels_first(node) and fits and attribute(node, "auto_pad", "NOTSET") == "NOTSET" and min(pads) >= 0


@op(
    "QLinearAveragePool",
    domain=MICROSOFT,
    ignores=["channels_last", "auto_pad"],
    layer=integer_kind(
        "QLinearAvgPool2d",
        "pool",
        "kernel_size",
        "stride",
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        family="pool",
    ),
    takes=_pools_images,
)
def QLinearAveragePool(
    n: Node,
    X: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None,
    *,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Result:
    padding = (pads or (0, 0))[:2]
    return integer_function(
        n,
        "QLinearAvgPool2d",
        (X,),
        (x_scale, y_scale),
        (x_zero_point, y_zero_point),
        kernel_size=compact(tuple(kernel_shape)),
        stride=compact(tuple(strides or (1, 1))),
        padding=compact(tuple(padding)),
        ceil_mode=bool(ceil_mode),
        count_include_pad=bool(count_include_pad) or not any(padding),
    )

"""Activations: functions of each element, the softmax family, and Dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxlift.ir.graph.types import UNSIGNED, DataType
from onnxlift.lifting.code.expr import Expr, F, either, torch
from onnxlift.lifting.ops import weight_shapes
from onnxlift.lifting.ops.arguments import attribute_number
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.kinds import LayerKind, activation, signature
from onnxlift.lifting.ops.node import TRAINS, Node, Result, Unpack
from onnxlift.lifting.ops.operand import Constant, Scalar, Tensor
from onnxlift.lifting.ops.registry import op

_FIRST_OPSETS = ("consumed_inputs",)


@op("Relu", ignores=_FIRST_OPSETS, layer=activation("ReLU", "relu"))
def Relu(n: Node, X: Tensor) -> Result:
    return F.relu(X)


@op("Sigmoid", ignores=_FIRST_OPSETS, layer=(activation("Sigmoid", "sigmoid"), activation("LogSigmoid", "logsigmoid")))
def Sigmoid(n: Node, X: Tensor) -> Result:
    return X.sigmoid()


@op("Tanh", ignores=_FIRST_OPSETS, layer=activation("Tanh", "tanh"))
def Tanh(n: Node, X: Tensor) -> Result:
    return X.tanh()


@op("HardSwish", layer=activation("Hardswish", "hardswish"))
def HardSwish(n: Node, X: Tensor) -> Result:
    return F.hardswish(X)


@op("Mish", layer=activation("Mish", "mish"))
def Mish(n: Node, X: Tensor) -> Result:
    return F.mish(X)


@op("Softplus", layer=activation("Softplus", "softplus", beta=1.0, threshold=20.0))
def Softplus(n: Node, X: Tensor) -> Result:
    """Above a threshold PyTorch returns x itself. Its default, 20, is exact enough up to float32."""
    return F.softplus(X, threshold=37) if X.type.dtype == DataType.DOUBLE else F.softplus(X)


@op("Softsign", layer=activation("Softsign", "softsign"))
def Softsign(n: Node, X: Tensor) -> Result:
    return F.softsign(X)


def _is_float32(value: float, other: float) -> bool:
    return bool(np.float32(value) == np.float32(other))


def _unless(value: float, default: float) -> list[float]:
    """Return the argument in a list, which is empty if the argument is PyTorch's default."""
    return [] if value == default else [value]


@op("Celu", layer=activation("CELU", "celu", alpha=1.0))
def Celu(n: Node, X: Tensor, *, alpha: float) -> Result:
    return F.celu(X, *_unless(attribute_number(alpha, X), 1.0))


@op("Elu", ignores=_FIRST_OPSETS, layer=activation("ELU", "elu", alpha=1.0))
def Elu(n: Node, X: Tensor, *, alpha: float) -> Result:
    return F.elu(X, *_unless(attribute_number(alpha, X), 1.0))


@op("Gelu", layer=activation("GELU", "gelu", approximate="none"))
def Gelu(n: Node, X: Tensor, *, approximate: str) -> Result:
    return F.gelu(X) if approximate == "none" else F.gelu(X, approximate="tanh")


@op("HardSigmoid", ignores=_FIRST_OPSETS, layer=activation("Hardsigmoid", "hardsigmoid"))
def HardSigmoid(n: Node, X: Tensor, *, alpha: float, beta: float) -> Result:
    if _is_float32(alpha, 1 / 6) and beta == 0.5:
        return F.hardsigmoid(X)
    return (X * attribute_number(alpha, X) + attribute_number(beta, X)).clamp(0, 1)


@op("LeakyRelu", ignores=_FIRST_OPSETS, layer=activation("LeakyReLU", "leaky_relu", negative_slope=0.01))
def LeakyRelu(n: Node, X: Tensor, *, alpha: float) -> Result:
    return F.leaky_relu(X, *_unless(attribute_number(alpha, X), 0.01))


@op("Selu", ignores=_FIRST_OPSETS, layer=activation("SELU", "selu"))
def Selu(n: Node, X: Tensor, *, alpha: float, gamma: float) -> Result:
    """The defaults are rounded to 1.6732 and 1.0507 in opset 1; from 6 on they are PyTorch's, in float32."""
    same = _is_float32(alpha, 1.6732632423543772) and _is_float32(gamma, 1.0507009873554805)
    if same and X.type.dtype != DataType.DOUBLE:
        return F.selu(X)
    return F.elu(X, attribute_number(alpha, X)) * attribute_number(gamma, X)


@op(
    "Shrink",
    layer=(activation("Softshrink", "softshrink", lambd=0.5), activation("Hardshrink", "hardshrink", lambd=0.5)),
)
def Shrink(n: Node, input: Tensor, *, bias: float, lambd: float) -> Result:
    """x + bias below -lambd, x - bias above lambd, else 0. PyTorch has it for a bias of 0 (hard) and of lambd
    (soft)."""
    if input.type.is_float and lambd >= 0 and bias in (0, lambd):
        shrink = F.hardshrink if bias == 0 else F.softshrink
        return shrink(input, *_unless(attribute_number(lambd, input), 0.5))
    return kernel("shrink")(input, attribute_number(bias, input), attribute_number(lambd, input))


@op("Swish")
def Swish(n: Node, X: Tensor, *, alpha: float) -> Result:
    return F.silu(X) if alpha == 1 else X * (X * attribute_number(alpha, X)).sigmoid()


@op("ThresholdedRelu")
def ThresholdedRelu(n: Node, X: Tensor, *, alpha: float) -> Result:
    return F.threshold(X, attribute_number(alpha, X), 0.0)


@op(
    "PRelu",
    ignores=_FIRST_OPSETS,
    layer=LayerKind(
        "PReLU",
        signature(num_parameters=1),
        word="act",
        family="activation",
        channels=True,
        shapes=weight_shapes.prelu,
    ),
    weights={"slope": "weight"},
)
def PRelu(n: Node, X: Tensor, slope: Tensor) -> Result:
    """Before opset 7, a slope of more than one element is along the channels, axis 1. From then on it broadcasts as in
    Mul."""
    if X.type.dtype in UNSIGNED:
        return X
    channels = _prelu_channels(n, X, slope)
    if isinstance(slope, Constant) and channels is not None and X.type.is_float:
        return n.layer("PReLU", {"weight": n.vector(slope)}, num_parameters=channels)(X)
    if n.opset < 7 and slope.type.rank == 1 and slope.type.size != 1 and (X.type.rank or 0) > 2:
        return torch.where(X < 0, X * slope.view(-1, *[1] * ((X.type.rank or 0) - 2)), X)
    return torch.where(X < 0, X * n.numbers(X, slope)[1], X)


def _prelu_channels(n: Node, X: Tensor, slope: Tensor) -> int | None:
    """Return the number of slopes of `nn.PReLU`: one, or one for each channel. Return None if the slopes are along
    other axes."""
    shape, rank = slope.type.shape, X.type.rank
    if slope.type.size == 1:
        return 1
    if shape is None or rank is None or rank < 2:
        return None
    if n.opset < 7 and len(shape) == 1:
        return slope.type.size
    aligned = (1,) * (rank - len(shape)) + shape
    others_are_one = all(d == 1 for axis, d in enumerate(aligned) if axis != 1)
    return slope.type.size if others_are_one and aligned[1:2] == X.type.shape[1:2] else None  # type: ignore[index]


@op("Softmax", layer=LayerKind("Softmax", signature(dim=None), function=("softmax", "dim")))
def Softmax(n: Node, input: Tensor, *, axis: int) -> Result:
    return _over_axis(n, input, axis, lambda x, dim: x.softmax(dim))


@op("LogSoftmax", layer=LayerKind("LogSoftmax", signature(dim=None), function=("log_softmax", "dim")))
def LogSoftmax(n: Node, input: Tensor, *, axis: int) -> Result:
    return _over_axis(n, input, axis, lambda x, dim: x.log_softmax(dim))


@op("Hardmax")
def Hardmax(n: Node, input: Tensor, *, axis: int) -> Result:
    return _over_axis(n, input, axis, lambda x, dim: kernel("hardmax")(x, dim))


def _over_axis(n: Node, input: Tensor, axis: int, function: Callable[[Expr, int], Expr]) -> Result:
    """Return `function` over one axis (from opset 13, default -1), or over all axes from `axis` on, flattened (until
    opset 12, default 1)."""
    rank, shape = input.type.rank, input.type.shape
    if rank is not None and axis < 0:
        axis += rank
    if n.opset >= 13 or (shape is not None and all(d == 1 for d in shape[axis + 1 :]) and axis < len(shape)):
        return function(input, -1 if rank is not None and axis == rank - 1 else axis)
    if axis == rank:  # flattened, this is a matrix of one column
        return function(input.unsqueeze(-1), -1).squeeze(-1)
    return function(input.flatten(axis), -1).view_as(input)


@op("Dropout", ignores=_FIRST_OPSETS, layer=LayerKind("Dropout", signature(p=0.5)))
def Dropout(
    n: Node,
    data: Tensor,
    ratio: Scalar | None,
    training_mode: Scalar | None,
    *,
    is_test: int | None = None,
    seed: int | None = None,
) -> Result:
    """`nn.Dropout`, which drops in train mode only. So a model that was exported to predict can be trained further, and
    one that was exported while training can predict.

    The first opsets train unless `is_test`; from 12 on an input says so. If that is known only at run time, or if mask
    or seed matter, the node means the same in both modes. Seeded numbers are drawn by numpy, which takes seeds of 32
    bits.
    """
    training = is_test == 0 if training_mode is None else training_mode.number
    known = 0.5 if ratio is None else ratio.number
    if training and known is not None and not n.wants(1) and seed is None:
        n.warn(TRAINS)
        training = False
    if training is not None and not training:
        output: Expr = data
        if known is not None and 0 < known < 1:
            output = n.layer("Dropout", p=attribute_number(known, data))(data)
        if not n.wants(1):
            return output
        return output, torch.ones_like(data, dtype=torch.bool) if n.opset >= 10 else torch.ones_like(data)
    if n.wants(1) and n.opset < 10:
        n.fail("the mask of a training Dropout before opset 10")
    p: Any = 0.5 if ratio is None else ratio
    if training is None:
        p = either(training_mode, p, 0.0)
    if seed is not None:
        return Unpack(kernel("seeded_dropout")(data, p, seed % 2**32), 2)
    return Unpack(kernel("dropout_with_mask")(data, p), 2) if n.wants(1) else F.dropout(data, p)

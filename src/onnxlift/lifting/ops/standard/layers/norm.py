"""Normalisations. With constant scale and bias they are PyTorch's layers, else its functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxlift.ir.graph.types import DataType
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.code.expr import Expr, F
from onnxlift.lifting.ops import weight_shapes
from onnxlift.lifting.ops.arguments import attribute_number, changed
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.kinds import LayerKind, ranked, signature
from onnxlift.lifting.ops.node import TRAINS, Node, Result, Unpack, torch_dtype
from onnxlift.lifting.ops.operand import Constant, Tensor, size_of
from onnxlift.lifting.ops.registry import op

HALF = (DataType.FLOAT16, DataType.BFLOAT16)
STASH = (DataType.FLOAT, DataType.DOUBLE, *HALF)

STATISTICS = frozenset({"running_mean", "running_var", "num_batches_tracked"})


def _eps(epsilon: float, x: Tensor) -> dict[str, float]:
    """Return `eps=...`, unless it is 1e-5, PyTorch's default."""
    return changed({"eps": attribute_number(epsilon, x)}, eps=1e-5)


@op(
    "BatchNormalization",
    ignores=["consumed_inputs", "is_test"],
    layer=ranked(
        "BatchNorm",
        signature("num_features", eps=1e-5, momentum=0.1, affine=True, track_running_stats=True),
        word="bn",
        family="norm",
        class_word="BN",
        buffers=STATISTICS,
        shapes=lambda _: weight_shapes.channel_norm,
    ),
    weights={"scale": "weight", "B": "bias", "mean": "running_mean", "var": "running_var"},
)
def BatchNormalization(
    n: Node,
    X: Tensor,
    scale: Tensor,
    B: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float,
    momentum: float,
    spatial: int = 1,
    training_mode: int | None = None,
) -> Result:
    """From opset 14 on, `training_mode` says whether the statistics are those of this batch. Before, they are if more
    than the first output is read. Until opset 8, `spatial=0` means statistics for each place, not for each channel.

    A layer of PyTorch uses the statistics of the batch in train mode. So a training node becomes a layer too, if nobody
    reads its new statistics.
    """
    eps = attribute_number(epsilon, X)
    rank, weights = X.type.rank, (scale, B, mean, var)
    names = ("weight", "bias", "running_mean", "running_var")
    constants = {name: w for name, w in zip(names, weights, strict=True) if isinstance(w, Constant)}
    is_layer = spatial and rank in (2, 3, 4, 5) and _torch_mixes(X, weights) and len(constants) == len(weights)
    reads_statistics = any(n.wants(i) for i in range(1, 5))
    if training_mode and is_layer and not reads_statistics:
        n.warn(TRAINS)
    elif training_mode or (training_mode is None and reads_statistics):
        if not spatial:
            n.fail("training with spatial=0")
        keep = attribute_number(momentum, X)
        count = 3 if n.opset >= 14 else 5
        function = kernel("batch_norm_training" if n.opset >= 14 else "batch_norm_training_saved")
        return Unpack(function(X, scale, B, mean, var, eps, keep), count)
    if is_layer:
        # PyTorch's momentum is the share of the new statistics, ONNX's that of the old ones.
        options = {"eps": eps, "momentum": round(1 - attribute_number(momentum, X), 7)}
        layer = f"BatchNorm{max((rank or 0) - 2, 1)}d"
        return n.layer(layer, constants, num_features=scale.type.size, **options)(X)
    if not spatial:
        return kernel("batch_norm_everywhere")(X, scale, B, mean, var, eps)
    x = X.unsqueeze(1) if rank == 1 else X  # a batch of one channel
    if _torch_mixes(X, weights) and _are_fixed(mean, var):
        y = F.batch_norm(x, mean, var, scale, B, **_eps(epsilon, X))
    else:
        y = kernel("batch_norm")(x, scale, B, mean, var, eps)
    return y.squeeze(1) if rank == 1 else y


def _are_fixed(*statistics: Tensor) -> bool:
    """Tell whether no gradient is ever wanted for these: they are buffers. PyTorch's function has no derivative for the
    statistics, and refuses those that need one."""
    return all(isinstance(each, Constant) and not origin_of(each.value).is_parameter for each in statistics)


def _torch_mixes(x: Tensor, weights: tuple[Tensor, ...]) -> bool:
    """Tell whether PyTorch accepts the types: weights of the input's own type, or all float32 for a half-precision
    input."""
    types = {w.type.dtype for w in weights}
    return types == {x.type.dtype} or (types == {DataType.FLOAT} and x.type.dtype in HALF)


@op(
    "InstanceNormalization",
    ignores=["consumed_inputs"],
    layer=ranked(
        "InstanceNorm",
        signature("num_features", eps=1e-5, momentum=0.1, affine=False, track_running_stats=False),
        word="norm",
        family="norm",
        class_word="Norm",
        buffers=STATISTICS,
        shapes=lambda _: weight_shapes.channel_norm,
    ),
    weights={"scale": "weight", "B": "bias"},
)
def InstanceNormalization(n: Node, input: Tensor, scale: Tensor, B: Tensor, *, epsilon: float) -> Result:
    """PyTorch refuses to normalise over a single element, where the result would be the bias."""
    rank, shape = input.type.rank, input.type.shape or ()
    if rank == 2 or (rank is not None and all(d == 1 for d in shape[2:])):
        return kernel("instance_norm")(input, scale, B, attribute_number(epsilon, input))
    if rank in (3, 4, 5) and isinstance(scale, Constant) and isinstance(B, Constant):
        options = {"num_features": scale.type.size, "eps": attribute_number(epsilon, input), "affine": True}
        return n.layer(f"InstanceNorm{rank - 2}d", {"weight": scale, "bias": B}, **options)(input)
    return F.instance_norm(input, weight=scale, bias=B, **_eps(epsilon, input))


@op(
    "GroupNormalization",
    ignores=["stash_type"],
    layer=LayerKind(
        "GroupNorm",
        signature("num_groups", "num_channels", eps=1e-5, affine=True),
        word="norm",
        family="norm",
        class_word="Norm",
        channels=True,
        shapes=weight_shapes.channel_norm,
    ),
    weights={"scale": "weight", "bias": "bias"},
)
def GroupNormalization(n: Node, X: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float, num_groups: int) -> Result:
    """Until opset 20 there is one scale and bias for each group; from 21 on, one for each channel."""
    if num_groups < 1:
        n.fail(f"it has {num_groups} groups")
    per_group = n.opset < 21
    channels = X.type.dim(1) if per_group else scale.type.dim(0)
    if isinstance(scale, Constant) and isinstance(bias, Constant) and isinstance(channels, int):
        repeat = channels // num_groups if per_group else 1
        weights = {
            name: n.weight(c, lambda array: np.repeat(array, repeat), (channels,)) if per_group else c
            for name, c in (("weight", scale), ("bias", bias))
        }
        sizes = {"num_groups": num_groups, "num_channels": channels, "eps": attribute_number(epsilon, X)}
        return n.layer("GroupNorm", weights, **sizes)(X)
    weight: Expr = scale
    offset: Expr = bias
    if per_group:
        repeats = size_of(X, 1) // num_groups
        weight, offset = scale.repeat_interleave(repeats), bias.repeat_interleave(repeats)
    return F.group_norm(X, num_groups, weight, offset, **_eps(epsilon, X))


@op(
    "LayerNormalization",
    layer=LayerKind(
        "LayerNorm",
        signature("normalized_shape", eps=1e-5, elementwise_affine=True, bias=True),
        word="norm",
        family="norm",
        class_word="Norm",
        shapes=weight_shapes.place_norm,
    ),
    weights={"Scale": "weight", "B": "bias"},
)
def LayerNormalization(
    n: Node, X: Tensor, Scale: Tensor, B: Tensor | None, *, axis: int, epsilon: float, stash_type: int
) -> Result:
    """PyTorch computes the statistics of half-precision inputs in float32, as `stash_type` 1 asks."""
    rank = X.type.rank
    if n.wants(1) or n.wants(2):
        if stash_type not in STASH:
            n.fail(f"stash_type {stash_type} is no floating-point type")
        dtype = torch_dtype(DataType(stash_type))
        return Unpack(kernel("layer_norm_stats")(X, Scale, B, axis, attribute_number(epsilon, X), dtype), 3)
    shape = _normalized_shape(X, Scale, axis)
    if shape is not None and (B is None or B.type.shape == Scale.type.shape):
        if isinstance(Scale, Constant) and (B is None or isinstance(B, Constant)):
            options: dict[str, Any] = {"eps": attribute_number(epsilon, X), "bias": B is not None}
            weights = {"weight": Scale, "bias": B}
            return n.layer("LayerNorm", weights, normalized_shape=_one_or_all(shape), **options)(X)
        weight = [Scale] if B is None else [Scale, B]
        return F.layer_norm(X, shape, *weight, **_eps(epsilon, X))
    start = axis if rank is None or axis < 0 else axis - rank
    result = F.layer_norm(X, X.shape[start:], **_eps(epsilon, X)) * Scale
    return result if B is None else result + B


@op(
    "RMSNormalization",
    ignores=["stash_type"],
    layer=LayerKind(
        "RMSNorm",
        signature("normalized_shape", eps=None, elementwise_affine=True),
        word="norm",
        family="norm",
        class_word="Norm",
        shapes=weight_shapes.place_norm,
    ),
    weights={"scale": "weight"},
)
def RMSNormalization(n: Node, X: Tensor, scale: Tensor, *, axis: int, epsilon: float) -> Result:
    rank = X.type.rank
    eps = rms_eps(epsilon, X)
    shape = _normalized_shape(X, scale, axis)
    if shape is not None:
        if isinstance(scale, Constant):
            return n.layer("RMSNorm", {"weight": scale}, normalized_shape=_one_or_all(shape), **eps)(X)
        return F.rms_norm(X, shape, scale, **eps)
    start = axis if rank is None or axis < 0 else axis - rank
    return F.rms_norm(X, X.shape[start:], **eps) * scale


def rms_eps(epsilon: float, x: Tensor) -> dict[str, float]:
    """Return `eps=...`, unless it is PyTorch's default for RMS norms: the difference between 1 and the next float32."""
    is_default = x.type.dtype == DataType.FLOAT and np.float32(epsilon) == np.finfo(np.float32).eps
    return {} if is_default else {"eps": attribute_number(epsilon, x)}


def _normalized_shape(x: Tensor, scale: Tensor, axis: int) -> tuple[int, ...] | None:
    """Return the sizes from `axis` on, if the scale has exactly these sizes; None if it only broadcasts to them."""
    rank, shape = x.type.rank, scale.type.shape
    if shape is None or not all(isinstance(d, int) for d in shape):
        return None
    if axis >= 0 and rank is None:
        return None
    axes = -axis if axis < 0 else (rank or 0) - axis
    if len(shape) != axes:
        return None
    known = [x.type.dim(a) for a in range(-axes, 0)]
    # A size that is not known must equal the scale's, unless that is 1.
    if all(have == want or (not isinstance(have, int) and want != 1) for have, want in zip(known, shape, strict=True)):
        return tuple(int(d or 0) for d in shape)
    return None


def _one_or_all(shape: tuple[int, ...]) -> int | tuple[int, ...]:
    return shape[0] if len(shape) == 1 else shape


@op("LpNormalization")
def LpNormalization(n: Node, input: Tensor, *, axis: int, p: int) -> Result:
    """`F.normalize` divides by at least `eps`, so that a norm of 0 gives 0, as ONNX wants it. The least positive float
    as `eps` leaves every other norm as it is."""
    options = changed({"p": p, "dim": axis}, p=2, dim=1)
    return F.normalize(input, **{**options, "p": float(p)} if "p" in options else options, eps=_least(input))


def _least(x: Tensor) -> float:
    least = {DataType.DOUBLE: 5e-324, DataType.FLOAT16: 6e-8, DataType.BFLOAT16: 9.2e-41}
    return least.get(x.type.dtype or DataType.FLOAT, 1e-45)


@op("LRN")
def LRN(n: Node, X: Tensor, *, alpha: float, beta: float, bias: float, size: int) -> Result:
    """A window of even size has its extra element after the channel in ONNX, before it in PyTorch."""
    options = {"alpha": attribute_number(alpha, X), "beta": attribute_number(beta, X), "k": attribute_number(bias, X)}
    # PyTorch cannot pool half precision on every device.
    if size % 2 and X.type.dtype in (DataType.FLOAT, DataType.DOUBLE):
        return F.local_response_norm(X, size, **changed(options, alpha=1e-4, beta=0.75, k=1.0))
    return kernel("local_response_norm")(X, size, *options.values())


@op("MeanVarianceNormalization")
def MeanVarianceNormalization(n: Node, X: Tensor, *, axes: tuple[int, ...]) -> Result:
    return kernel("mean_variance_norm")(X, tuple(axes))

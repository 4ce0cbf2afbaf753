"""Products, convolutions, poolings, normalisations, softmax, dropout and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from lifting.ops.standard.layers.test_conv import CONV, TRANSPOSED
from lifting.ops.standard.layers.test_pool import CEILED, DILATED, WINDOWS
from lifting.ops.standard.math.test_linalg import PRODUCTS
from matrix.case import Array, Row, each, floats, ints, row, some

POOLS = [*WINDOWS, *CEILED[:4], *DILATED]
UNIT = {"low": 0.5, "high": 1.5}  # scales and variances


SOFTMAX = [
    row(each(3, 4)),
    row(some(2, 3, 4)),
    *(row(some(2, 3, 4), axis=axis) for axis in (0, 1, 2)),
    row(some(2, 3, 4), axis=-2, since=11),
    row(some(0, 3)),
]


def statistics(*shape: int) -> list[Any]:
    """Input, scale, bias, mean and variance."""
    size = shape[1:2]
    return [some(*shape), some(*size, **UNIT), some(*size), some(*size), some(*size, **UNIT)]


def normalised(x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
    scale, bias, mean, variance = (v.reshape(-1, *[1] * (x.ndim - 2)) for v in (scale, bias, mean, variance))
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + bias


def group_normalised(x: Array, scale: Array, bias: Array) -> Array:
    """As opset 18 had it: scale and bias of each group."""
    groups = x.reshape(x.shape[0], len(scale), -1)
    centred = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    return (centred * scale[:, None] + bias[:, None]).reshape(x.shape).astype(x.dtype)


def centred(x: Array) -> Array:
    wide, axes = x.astype(np.float64), (0, 2, 3)
    return ((wide - wide.mean(axes, keepdims=True)) / wide.std(axes, keepdims=True)).astype(x.dtype)


def global_norm(x: Array, p: float) -> Array:
    axes = tuple(range(2, x.ndim))
    norm = (np.abs(x.astype(np.float64)) ** p).sum(axes, keepdims=True) ** (1 / p)
    return np.asarray(norm.astype(x.dtype))


def gemm(a: Array, b: Array, c: Array) -> Array:
    return (a @ b + c).astype(np.float32)


NLL: list[Row] = []
for shape in ((3, 5), (3, 5, 2), (2, 4, 3, 2)):
    target = np.random.default_rng(len(shape)).integers(0, shape[1], (shape[0], *shape[2:]))
    NLL += [row(some(*shape), target, reduction=reduction) for reduction in ("none", "mean", "sum")]
    NLL += [
        row(some(*shape), target.astype(np.int32), some(shape[1], **UNIT)),
        row(some(*shape), target, some(shape[1], **UNIT), reduction="mean", ignore_index=1),
        row(some(*shape), target, reduction="none", ignore_index=0),
    ]
NLL.append(row(each(3, 5), ints(1, 4, 0)))

ROWS: dict[str, list[Row]] = {
    "MatMul": [row(each(2, 3, 4), each(4, 5)), *(row(some(*a), some(*b)) for a, b in PRODUCTS)],
    "Gemm": [
        row(floats(3, 4), floats(4, 5), floats(5), broadcast=1, expected=gemm),
        row(floats(3, 4), floats(4, 5), floats(3, 5), until=6, expected=gemm),
        row(each(3, 4), each(4, 5), each(5), since=7),
        *(
            row(
                some(*((4, 3) if transposed_a else (3, 4))),
                some(*((5, 4) if transposed_b else (4, 5))),
                some(3, 1),
                transA=transposed_a,
                transB=transposed_b,
                alpha=0.5,
                beta=1.5,
                since=7,
            )
            for transposed_a in (0, 1)
            for transposed_b in (0, 1)
        ),
        row(some(3, 4), some(4, 5), since=11),
        row(some(0, 4), some(4, 5), some(5), since=7),
    ],
    "Einsum": [
        row(each(2, 3, low=0, high=3), each(3, 4, low=0, high=3), equation="ij,jk->ik"),
        row(some(2, 3, 4), equation="ijk->kji"),
        row(some(3, 3), equation="ii"),
        row(some(2, 3, 4), some(2, 4, 5), equation="b...j,bjk->b...k"),
        row(some(2, 3), some(2, 3), equation="ij, ij"),
    ],
    "Det": [row(each(3, 3)), row(some(2, 4, 4))],
    "MatMulInteger": [
        *(
            row(each(3, 4, low=0, high=9), each(4, 5, low=0, high=9), *zero_points)
            for zero_points in ((), (some(low=1, high=3), some(low=1, high=3)), (some(low=1, high=3),))
        ),
        row(some(3, 4), some(4, 5), None, some(5, low=1, high=3)),
    ],
    "Conv": [
        row(each(2, 3, 7), each(4, 3, 3), each(4), kernel_shape=[3]),
        *(
            row(
                some(2, channels, *spatial),
                some(out, channels // attributes.get("group", 1), *kernel),
                *(some(out),) * (index % 2),
                open_sizes=False,  # what to pad depends on the shape of the kernel
                **attributes,
            )
            for index, (spatial, channels, out, kernel, attributes, _) in enumerate(CONV)
        ),
        row(some(0, 3, 7), some(4, 3, 3), kernel_shape=[3]),
    ],
    "ConvTranspose": [
        row(each(2, 4, 5), each(4, 3, 3), each(3), kernel_shape=[3]),
        *(
            row(
                some(2, 4, *spatial),
                some(4, 6 // attributes.get("group", 1), *kernel),
                *(some(6),) * (index % 2),
                since=11,  # ONNX Runtime and the reference agree on automatic pads from here
                open_sizes=False,
                **attributes,
            )
            for index, (spatial, kernel, attributes, _) in enumerate(TRANSPOSED)
        ),
        row(some(2, 4, 5, 4), some(4, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
    ],
    "ConvInteger": [
        row(each(2, 3, 6, 5, low=0, high=9), each(4, 3, 3, 3, low=0, high=9), pads=[1, 1, 0, 1], kernel_shape=[3, 3]),
        row(
            some(2, 4, 6, 5, low=0, high=9),
            some(4, 2, 3, 3, low=0, high=9),
            some(low=1, high=3),
            group=2,
            strides=[2, 1],
            open_sizes=False,
        ),
        row(
            *(some(2, 3, 6, low=0, high=9), some(4, 3, 3, low=0, high=9), some(low=1, high=3), some(low=1, high=3)),
            kernel_shape=[3],
        ),
    ],
    "DeformConv": [
        row(some(2, 4, 6, 5), some(3, 4, 2, 3), some(2, 12, 5, 3, low=-1, high=1), kernel_shape=[2, 3]),
        row(
            some(1, 4, 6, 5),
            some(4, 2, 2, 2),
            some(1, 16, 3, 2, low=-1, high=1),
            some(4),
            some(1, 8, 3, 2, low=0, high=1),
            group=2,
            offset_group=2,
            strides=[2, 2],
            dilations=[1, 2],
            kernel_shape=[2, 2],
        ),
        row(
            some(1, 2, 3, 3), some(2, 2, 2, 2), some(1, 8, 4, 4, low=-1, high=1), pads=[1, 1, 1, 1], kernel_shape=[2, 2]
        ),
    ],
    "CausalConvWithState": [
        row(each(2, 3, 5), each(3, 1, 4), outputs=2, open_sizes=False),
        row(some(2, 3, 5), some(3, 1, 4), some(3), some(2, 3, 3), outputs=2, activation="silu", open_sizes=False),
        row(some(2, 3, 1), some(3, 1, 4), None, some(2, 3, 3), outputs=2, open_sizes=False),
    ],
    "MaxPool": [
        row(each(2, 3, 7, 6, low=0, high=90), kernel_shape=[2, 3]),
        *(row(some(2, 3, *spatial), **attributes) for spatial, attributes in POOLS),
        *(row(some(2, 3, *spatial), outputs=2, **attributes) for spatial, attributes in POOLS[::3]),
        row(some(2, 3, 7, 6), outputs=2, kernel_shape=[2, 2], storage_order=1),
    ],
    "AveragePool": [
        row(each(2, 3, 7, 6), kernel_shape=[2, 3]),
        *(row(some(2, 3, *spatial), **attributes, asked=7) for spatial, attributes in POOLS),
        *(row(some(2, 3, *spatial), count_include_pad=1, **attributes) for spatial, attributes in POOLS[1::2]),
    ],
    "LpPool": [
        row(each(2, 3, 7, 6), kernel_shape=[2, 3]),
        *(row(some(2, 3, *spatial), **attributes) for spatial, attributes in POOLS[:6]),
        *(row(some(2, 3, 7, 6), kernel_shape=[2, 3], p=p) for p in (1, 3)),
        *(row(some(2, 3, 7, 6), kernel_shape=[2, 3], p=p) for p in (1.0, 3.0)),
    ],
    "GlobalAveragePool": [row(each(2, 3, 7, 6)), row(some(2, 3, 5)), row(some(0, 3, 2, 2))],
    "GlobalMaxPool": [row(each(2, 3, 7, 6)), row(some(2, 3, 5)), row(some(0, 3, 2, 2))],
    "GlobalLpPool": [
        row(each(2, 3, 7, 6), expected=lambda x: global_norm(x, 2)),
        *(row(some(2, 3, 5), p=p, asked=2) for p in (1, 3)),
        *(row(some(2, 3, 5), p=p, expected=lambda x, p=p: global_norm(x, p)) for p in (1.0, 3.0)),
    ],
    "MaxUnpool": [
        row(each(1, 1, 2, 2), ints([[[5, 7], [13, 15]]]), kernel_shape=[2, 2], strides=[2, 2]),
        row(some(1, 2, 2), ints([[1, 2], [4, 7]]), kernel_shape=[2], strides=[2]),
        row(
            some(1, 1, 2, 2),
            ints([[[5, 7], [13, 15]]]),
            ints(1, 1, 5, 5),
            kernel_shape=[2, 2],
            strides=[2, 2],
            reference=True,
        ),
    ],
    "BatchNormalization": [
        row(*statistics(2, 3, 4, 5), is_test=1, consumed_inputs=[0, 0, 0, 1, 1], expected=normalised, until=5),
        row(*statistics(2, 3, 4, 5), is_test=1, expected=normalised),
        row(*statistics(2, 3, 4, 5), since=7),
        row(*statistics(2, 3), since=7, epsilon=0.01),
        row(each(2, 3, 4), *(each(3, **UNIT) for _ in range(4)), since=7),
        row(*statistics(0, 3, 2), since=7),
        row(*statistics(4, 3, 5), outputs=3, training_mode=1, momentum=0.7),
    ],
    "InstanceNormalization": [
        row(each(2, 3, 4, 5), each(3), each(3)),
        row(some(2, 3, 6), some(3), some(3), epsilon=0.1),
    ],
    "GroupNormalization": [
        row(floats(2, 6, 4), floats(3), floats(3, seed=1), num_groups=3, until=18, expected=group_normalised),
        row(each(2, 6, 4), each(6), each(6), num_groups=3, since=21),
        row(some(2, 6, 4, 3), some(6), some(6), num_groups=2, epsilon=0.1, stash_type=1, since=21),
    ],
    "LayerNormalization": [
        row(each(2, 3, 4), each(4), each(4)),
        row(some(2, 3, 4), some(4), outputs=3),
        row(some(2, 3, 4), some(3, 4), some(3, 4), axis=1, epsilon=0.1),
        row(some(2, 3, 4), some(2, 3, 4), axis=-3),
    ],
    "RMSNormalization": [
        *(row(floats(2, 3, 4).astype(t), floats(4).astype(t)) for t in (np.float32, np.float64, np.float16)),
        row(some(2, 3, 4), some(3, 4), axis=1, epsilon=0.1),
        row(some(2, 3, 4), some(4), stash_type=1),
    ],
    "LRN": [
        # The reference wants as many images as channels.
        row(each(5, 5, 3, 4), size=3),
        row(some(6, 6, 3, 4), size=4, alpha=0.2, beta=0.6, bias=1.5),
    ],
    "LpNormalization": [
        row(each(3, 4)),
        *(row(some(2, 3, 4), axis=axis, p=p) for axis in (0, -1) for p in (1, 2)),
    ],
    "MeanVarianceNormalization": [
        row(each(2, 3, 4, 5), expected=centred),
        row(some(2, 3, 4), axes=[0, 2]),
        row(some(2, 3, 4), axes=[-1]),
    ],
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), SOFTMAX),
    "Dropout": [
        row(each(3, 4), is_test=1, expected=lambda x: x),
        row(some(3, 4), is_test=1, ratio=0.3, expected=lambda x: x),
        row(each(3, 4), since=7),
        row(some(3, 4), ratio=0.3, since=7),
        row(some(3, 4), outputs=2, since=10),
        row(some(3, 4), some(low=0.2, high=0.8), since=12),
        row(some(3, 4), some(low=0.2, high=0.8), np.array(False), outputs=2, since=12),
        row(some(3, 4), some(low=0.2, high=0.8), np.array(True), outputs=2, since=12, random=True),
    ],
    "NegativeLogLikelihoodLoss": NLL,
    "SoftmaxCrossEntropyLoss": [
        *NLL,
        row(some(3, 5), ints(1, 4, 0), outputs=2),
        row(some(3, 5, 2), ints([0, 4], [1, 1], [2, 3]), some(5, **UNIT), outputs=2, reduction="none"),
    ],
}

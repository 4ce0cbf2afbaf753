"""Templates of operators on images and signals: sampling, regions, windows, Fourier transforms."""

from __future__ import annotations

import numpy as np

from fuzz.builder import Builder, UnsuitableError
from fuzz.shapes import axis_of
from fuzz.sizes import ROOMY

FLOAT32 = np.dtype(np.float32)


def is_single(v: object) -> bool:
    return getattr(v, "dtype", None) == FLOAT32


def grid_sample(b: Builder) -> None:
    x = b.pick("f", ranks=[4], where=is_single)
    linear = "bilinear" if b.opset < 20 else "linear"
    grid = b.operand((b.data.random((x.shape[0], 3, 2, 2)) * 2.4 - 1.2).astype(np.float32), "grid")
    b.one(
        "GridSample",
        x,
        grid,
        mode=b.choose.choice([None, linear, "nearest"]),
        padding_mode=b.choose.choice([None, "zeros", "border", "reflection"]),
        align_corners=b.choose.choice([None, 0, 1]),
    )


def affine_grid(b: Builder) -> None:
    theta = b.operand(b.floats((2, 2, 3), FLOAT32), "theta")
    b.one("AffineGrid", theta, b.operand([2, 3, 4, 5], "size"), align_corners=b.choose.choice([None, 0, 1]))


def regions(b: Builder) -> None:
    x = b.pick("f", ranks=[4], where=is_single)
    height, width = x.shape[2:]
    count = b.choose.choice([1, 3])
    corners = b.data.random((count, 2)) * (width, height) / 2
    boxes = np.concatenate([corners, corners + b.data.random((count, 2)) * (width, height) / 2 + 0.3], 1)
    batch = b.integers(0, x.shape[0], (count,))
    if b.choose.random() < 0.3:
        rois = np.concatenate([batch[:, None], boxes.round()], 1).astype(np.float32)
        b.one("MaxRoiPool", x, b.operand(rois, "rois"), pooled_shape=[2, 2])
        return
    b.one(
        "RoiAlign",
        x,
        b.operand(boxes.astype(np.float32), "rois"),
        b.operand(batch, "batch"),
        output_height=2,
        output_width=b.choose.choice([1, 3]),
        sampling_ratio=b.choose.choice([1, 2]),
        mode=b.choose.choice([None, "avg"]),
    )


def unpooled(b: Builder) -> None:
    x = b.pick("f", ranks=[4], where=lambda v: is_single(v) and v.shape[2] % 2 == 0 and v.shape[3] % 2 == 0)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    y, indices = b.node("MaxPool", [x], 2, **window)
    b.one("MaxUnpool", y, indices, **window)


def columns_to_image(b: Builder) -> None:
    x = b.operand(b.floats((2, 3 * 4, 6), FLOAT32), "columns")
    b.one("Col2Im", x, b.operand([3, 4]), b.operand([2, 2]))


def center_crop_pad(b: Builder) -> None:
    x = b.pick("fi", ranks=ROOMY)
    axis = axis_of(b, x)
    b.one("CenterCropPad", x, b.operand([b.choose.choice([1, 3, 6])], "shape"), axes=[axis])


def deform_conv(b: Builder) -> None:
    x = b.pick("f", ranks=[4], where=lambda v: is_single(v) and min(v.shape[2:]) > 2)
    size = [n - 1 for n in x.shape[2:]]
    offsets = b.operand((b.floats((x.shape[0], 8, *size), FLOAT32)).astype(np.float32), "offset")
    b.one("DeformConv", x, b.weight((2, x.shape[1], 2, 2)), offsets, kernel_shape=[2, 2])


def suppression(b: Builder) -> None:
    corners = b.data.random((1, 6, 2))
    boxes = b.operand(np.concatenate([corners, corners + b.data.random((1, 6, 2))], 2).astype(np.float32), "boxes")
    scores = b.operand(b.data.random((1, 2, 6)).astype(np.float32), "scores")
    limits = [b.operand([3]), b.operand(np.asarray([0.4], np.float32)), b.operand(np.asarray([0.2], np.float32))]
    b.one("NonMaxSuppression", boxes, scores, *limits, center_point_box=b.choose.choice([None, 1]))


def fourier(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3], where=is_single)
    y = b.one("Unsqueeze", x, b.constant([-1]))
    axis = b.choose.randrange(1, x.rank)
    if b.opset < 20:
        b.one("DFT", y, axis=axis, onesided=b.choose.choice([None, 1]))
    elif b.choose.random() < 0.6:
        b.one("DFT", y, None, b.operand(np.asarray(axis)), onesided=b.choose.choice([None, 1]))
    else:  # not the way back, which would leave rounding errors around zero
        b.one("DFT", b.one("Concat", y, b.one("Cos", y), axis=-1), None, b.operand(np.asarray(axis)), inverse=1)


def short_time_fourier(b: Builder) -> None:
    signal = b.operand(b.floats((2, 16, 1), FLOAT32), "signal")
    size = b.constant(np.asarray(8))
    window = b.one(
        b.choose.choice(["HannWindow", "HammingWindow", "BlackmanWindow"]), size, periodic=b.choose.choice([None, 0])
    )
    b.one("STFT", signal, b.constant(np.asarray(4)), window, onesided=b.choose.choice([None, 1]))


def mel_matrix(b: Builder) -> None:
    numbers = [b.operand(np.asarray(n)) for n in (6, 16, 8000)]
    edges = [b.operand(np.asarray(n, np.float32)) for n in (20.0, 3800.0)]
    b.one("MelWeightMatrix", *numbers, *edges)


def determinant(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3], where=lambda v: is_single(v) and v.shape[-1] == v.shape[-2])
    b.one("Det", x)


def lp_global(b: Builder) -> None:
    b.one("GlobalLpPool", b.pick("f", ranks=[3, 4], where=is_single), p=b.choose.choice([None, 1, 3]))


def rotary(b: Builder) -> None:
    x = b.pick("f", ranks=[4], where=lambda v: is_single(v) and v.shape[-1] % 2 == 0)
    shape = (x.shape[0], x.shape[2], x.shape[-1] // 2)
    tables = [b.operand(b.floats(shape, FLOAT32), name) for name in ("cos", "sin")]
    b.one("RotaryEmbedding", x, *tables, interleaved=b.choose.choice([None, 0, 1]))


def fused_attention(b: Builder) -> None:
    x = b.pick("f", ranks=[4], where=is_single)
    length = b.choose.choice([2, 5])
    keys, values = (b.operand(b.floats((*x.shape[:2], length, x.shape[-1]), FLOAT32), "keys") for _ in range(2))
    inputs = [x, keys, values]
    if b.choose.random() < 0.5:
        inputs.append(b.operand(b.floats((x.shape[2], length), FLOAT32), "mask"))
    b.one("Attention", *inputs, is_causal=b.choose.choice([None, 0, 1]), scale=b.choose.choice([None, 0.3]))


def loss(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3], where=lambda v: is_single(v) and v.shape[1] > 1)
    labels = b.one(b.choose.choice(["ArgMax", "ArgMin"]), x, axis=1, keepdims=0)
    reduction = b.choose.choice([None, "mean", "sum", "none"])
    weight = [b.operand(b.data.random(x.shape[1]).astype(np.float32) + 0.1)] if b.choose.random() < 0.4 else []
    if b.choose.random() < 0.5:
        b.one("SoftmaxCrossEntropyLoss", x, labels, *weight, reduction=reduction)
    else:
        if b.opset < 13:
            raise UnsuitableError
        scores = b.one("LogSoftmax", x, axis=1)
        b.one("NegativeLogLikelihoodLoss", scores, labels, *weight, reduction=reduction)


TEMPLATES = {
    grid_sample: (16, 2),
    affine_grid: (20, 1),
    regions: (10, 1),
    unpooled: (9, 1),
    columns_to_image: (18, 1),
    center_crop_pad: (18, 1),
    deform_conv: (19, 1),
    suppression: (10, 1),
    fourier: (17, 1),
    short_time_fourier: (17, 1),
    mel_matrix: (17, 1),
    determinant: (11, 1),
    lp_global: (9, 1),
    rotary: (23, 2),
    fused_attention: (23, 2),
    loss: (12, 1),
}

"""Resizing, sampling, regions, detection, and pictures from files."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator

from lifting.ops.standard.media.test_resize import COORDINATES, ROUNDING
from matrix.case import NEWEST, Array, Row, each, floats, ints, row, some

X = floats(1, 2, 4, 5)
GRID = floats(1, 3, 2, 2, low=-1.3, high=1.3)
BOXES = np.array(
    [[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]],
    np.float32,
)
SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.2, 0.8, 0.1, 0.4, 0.65, 0.7]]], np.float32)
ROIS = np.array([[0, 0, 5, 6], [1.3, 2.2, 7, 7.7], [2, 1, 9, 8]], np.float32)


def scales(*values: float) -> Array:
    return np.array(values, np.float32)


def none() -> Array:
    return np.zeros(0, np.float32)


def rounded_samples(x: Array, grid: Array) -> Array:
    """Linear samples of integers. On integers themselves the reference cuts the weights to whole numbers."""
    sample = ReferenceEvaluator(helper.make_node("GridSample", ["x", "grid"], ["y"]))
    return np.rint(sample.run(None, {"x": x.astype(np.float64), "grid": grid})[0]).astype(x.dtype)


PIXELS = np.random.default_rng(1).integers(0, 255, (6, 5, 3), np.uint8)


def png() -> Array:
    """The pixels as a file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = PIXELS.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in PIXELS)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return np.frombuffer(b"\x89PNG\r\n\x1a\n" + parts, np.uint8).copy()


RESIZES = [
    *(row(X, none(), scales(1, 1, *by), mode=mode) for mode in ("nearest", "linear") for by in ((2, 3), (0.5, 0.6))),
    row(X, none(), scales(1, 1, 1.7, 0.7), mode="cubic"),
    *(row(X, none(), none(), ints(1, 2, 7, 3), mode=mode) for mode in ("nearest", "linear", "cubic")),
    *(
        row(X, none(), none(), ints(1, 2, 7, 3), mode=mode, coordinate_transformation_mode=coordinates)
        for mode in ("nearest", "linear", "cubic")
        for coordinates in COORDINATES
        if coordinates != "half_pixel_symmetric"
    ),
    *(
        row(X, None, None, ints(1, 2, 7, 3), mode="linear", coordinate_transformation_mode=c, since=19)
        for c in COORDINATES
    ),
    *(row(X, none(), none(), ints(1, 2, 7, 3), mode="nearest", nearest_mode=mode) for mode in ROUNDING),
    row(
        X,
        scales(0, 0, 0.2, 0.1, 1, 1, 0.8, 0.9),
        none(),
        ints(1, 2, 3, 3),
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.0,
    ),
    row(X, None, scales(2, 0.7), axes=[3, 2], mode="linear", reference=True),
    row(X, None, None, ints(7, 8), axes=[2, 3], keep_aspect_ratio_policy="not_larger", mode="linear"),
    row(X, None, None, ints(7, 8), axes=[2, 3], keep_aspect_ratio_policy="not_smaller", mode="linear"),
    *(row(X, None, scales(1, 1, 0.6, 0.8), antialias=1, mode=mode) for mode in ("linear", "cubic")),
    row(X, scales(1, 1, 2, 3), mode="nearest", until=10),
    row(X, scales(1, 1, 2, 3), mode="linear", until=10),
    row(X, scales(1, 1, 0.5, 0.6), mode="nearest", until=10),
    row(
        each(1, 2, 4, 5, low=0, high=99),
        none(),
        scales(1, 1, 2, 2),
        mode="nearest",
        expected=lambda x, roi, by: x.repeat(2, 2).repeat(2, 3),
    ),
]

ROWS: dict[str, list[Row]] = {
    "Resize": RESIZES,
    "Upsample": [
        row(X, height_scale=2.0, width_scale=3.0, expected=lambda x: x.repeat(2, 2).repeat(3, 3)),
        row(X, scales=[1.0, 1.0, 2.0, 3.0]),
        row(X, scales=[1.0, 1.0, 2.0, 3.0], mode="linear"),
        row(X, scales(1, 1, 2, 3), asked=9),
        row(X, scales(1, 1, 1.5, 2), mode="linear", asked=9),
        row(each(1, 1, 2, 3), scales(1, 1, 2, 2), asked=9),
    ],
    "GridSample": [
        row(each(2, 3, 4, 5, without=("bool", "int", "string")), some(2, 3, 2, 2, low=-1.2, high=1.2)),
        row(
            each(2, 3, 4, 5, high=99, without=("bool", "complex", "double", "float", "string")),
            some(2, 3, 2, 2, low=-1.2, high=1.2),
            expected=rounded_samples,
        ),
        row(each(2, 3, 4, 5, low=0, high=9), some(2, 3, 2, 2, low=-1.2, high=1.2), mode="nearest"),
        *(
            row(X, GRID, mode=mode, padding_mode=padding, align_corners=align, since=since, until=until)
            for modes, since, until in (
                (("bilinear", "nearest", "bicubic"), 1, 16),
                (("linear", "nearest", "cubic"), 20, NEWEST),
            )
            for mode in modes
            for padding in ("zeros", "border", "reflection")
            for align in (0, 1)
        ),
        row(floats(1, 2, 3, 4, 5), floats(1, 2, 3, 2, 3, low=-1.2, high=1.2), since=20),
    ],
    "AffineGrid": [
        row(each(2, 2, 3), ints(2, 3, 4, 5)),
        row(some(2, 2, 3), ints(2, 3, 4, 5), align_corners=1),
        row(some(2, 3, 4), ints(2, 1, 2, 3, 4)),
    ],
    "Col2Im": [
        row(each(1, 9, 4), ints(4, 4), ints(3, 3), open_sizes=False),
        row(some(2, 12, 9), ints(5, 6), ints(2, 3), strides=[2, 2], pads=[0, 1, 1, 0], open_sizes=False),
    ],
    "RoiAlign": [
        row(floats(2, 3, 9, 10), ROIS, ints(0, 1, 0), output_height=2, output_width=3, spatial_scale=0.9),
        row(floats(2, 3, 9, 10), ROIS, ints(0, 1, 0), output_height=2, output_width=3, sampling_ratio=2),
        row(
            floats(2, 3, 9, 10),
            ROIS,
            ints(0, 1, 0),
            coordinate_transformation_mode="output_half_pixel",
            sampling_ratio=3,
        ),
    ],
    "MaxRoiPool": [
        row(
            floats(2, 3, 9, 10), np.array([[0, 0, 0, 5, 6], [1, 1, 2, 7, 8]], np.float32), pooled_shape=[2, 3], asked=1
        ),
        row(
            floats(2, 3, 9, 10),
            np.array([[1, 2, 2, 9, 9]], np.float32),
            pooled_shape=[3, 2],
            spatial_scale=0.7,
            asked=1,
        ),
    ],
    "NonMaxSuppression": [
        row(BOXES, SCORES, ints(3), scales(0.5), scales(0.3)),
        row(BOXES, SCORES, ints(2), scales(0.5)),
        row(BOXES, SCORES),
        row(BOXES + 1, SCORES, ints(3), scales(0.4), scales(0.2), center_point_box=1),
    ],
    "ImageDecoder": [
        row(png(), expected=lambda file: PIXELS),
        row(png(), pixel_format="BGR", expected=lambda file: PIXELS[..., ::-1]),
    ],
}

"""Reading image files, with Pillow."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from onnx import helper
from PIL import Image

import onnxlift
from lifting.ops.checking import check, check_official, model_of, official_cases

NODE = helper.make_node


@pytest.mark.parametrize("case", official_cases("ImageDecoder"))
def test_official(case: Any) -> None:
    check_official(case)


def file(pixels: np.ndarray, kind: str = "PNG") -> np.ndarray:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return np.frombuffer(stream.getvalue(), np.uint8)


def pixels(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_formats_without_loss(kind: str) -> None:
    image = pixels(5, 7, 3)
    for pixel_format, expected in (("RGB", image), ("BGR", image[..., ::-1])):
        node = NODE("ImageDecoder", ["x"], ["y"], pixel_format=pixel_format)
        check(node, {"x": file(image, kind)}, opset=20, dynamic=True, expected=[expected])


def test_grey_image_has_three_equal_channels() -> None:
    image = pixels(4, 6)
    expected = np.stack([image] * 3, axis=-1)
    check(NODE("ImageDecoder", ["x"], ["y"]), {"x": file(image)}, opset=20, expected=[expected])
    grey = NODE("ImageDecoder", ["x"], ["y"], pixel_format="Grayscale")
    check(grey, {"x": file(image)}, opset=20, expected=[image[..., None]])


def test_unknown_pixel_format() -> None:
    model = model_of(NODE("ImageDecoder", ["x"], ["y"], pixel_format="CMYK"), {"x": file(pixels(2, 2))}, 20)
    with pytest.raises(onnxlift.InvalidModelError, match="CMYK"):
        onnxlift.lift(model)

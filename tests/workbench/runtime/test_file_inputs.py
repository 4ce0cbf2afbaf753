"""Pictures and texts become the inputs that they must be for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser
from PIL import Image

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.load import load
from onnxlift.workbench.runtime.file_inputs import PictureSettings, read_files

RGB = "float[n, 3, h, w] x"


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6 x 4 pixels: red is the column, green the row, blue is 255."""
    rows, columns = np.mgrid[0:4, 0:6]
    pixels = np.stack([columns * 10, rows * 20, np.full((4, 6), 255)], -1).astype(np.uint8)
    path = tmp_path_factory.mktemp("pictures") / "p.png"
    Image.fromarray(pixels).save(path)
    return path


def read(inputs: Any, signature: str, settings: PictureSettings | None = None, **sizes: Any) -> dict[str, Any]:
    text = f'<ir_version: 10, opset_import: ["" : 20]> g ({signature}) => (y) {{ y = Shape(x) }}'
    values, _ = read_files(inputs, load(parser.parse_model(text)).graph, settings or PictureSettings(), **sizes)
    assert isinstance(values, dict)
    return values


def test_the_layout_and_the_size_are_those_of_the_input(picture: Path) -> None:
    pixels = np.asarray(Image.open(picture), np.float32) / 255
    np.testing.assert_allclose(read(picture, RGB)["x"], pixels.transpose(2, 0, 1)[None], atol=1e-6)
    np.testing.assert_allclose(read(picture, "float[1, h, w, 3] x")["x"], pixels[None], atol=1e-6)
    assert read(picture, "float[8, 12, 3] x, int64[n] z", PictureSettings(fit="stretch"))["x"].shape == (8, 12, 3)
    assert read(picture, "float[n, 1, 8, 12] x")["x"].shape == (1, 1, 8, 12)
    assert read(picture, "float[n, c, h, w] x", dims={"h": 2, "w": 3})["x"].shape == (1, 3, 2, 3)
    assert read([picture, picture], "float16[n, 3, h, w] x", shapes={"x": (2, 3, 5, 5)})["x"].shape == (2, 3, 5, 5)


def test_mean_and_deviation_refer_to_pixels_up_to_1_or_to_255(picture: Path) -> None:
    plain = read(picture, RGB)["x"]
    mean, std = np.array([0.5, 0.4, 0.3]), np.array([0.2, 0.3, 0.4])
    found = read(picture, RGB, PictureSettings(tuple(mean), tuple(std)))["x"]
    np.testing.assert_allclose(found, (plain - mean.reshape(3, 1, 1)) / std.reshape(3, 1, 1), atol=1e-5)
    found = read(picture, RGB, PictureSettings((127.5,), (128.0,)))["x"]
    np.testing.assert_allclose(found, (plain * 255 - 127.5) / 128, atol=1e-5)


def test_bytes_stay_bytes(picture: Path) -> None:
    found = read(picture, "uint8[n, h, w, 3] x")["x"]
    np.testing.assert_array_equal(found[0], np.asarray(Image.open(picture)))
    with pytest.raises(OnnxLiftError, match="pixels as bytes"):
        read(picture, "uint8[n, h, w, 3] x", PictureSettings((0.5,)))


def test_a_text_is_an_input_of_strings(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("a b\nünïcode\n", encoding="utf-8")
    assert read(path, "string[n] x")["x"].tolist() == ["a b", "ünïcode"]
    assert read(path, "string[n, 1] x")["x"].tolist() == [["a b"], ["ünïcode"]]
    with pytest.raises(OnnxLiftError, match="Tokens are numbers"):
        read(path, "int64[n, s] x")


def test_an_input_may_be_named(picture: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "z.npy", np.arange(3))
    found = read([f"x={picture}", f"z={tmp_path / 'z.npy'}"], f"{RGB}, int64[m] z, float[1, 3, 8, 8] o")
    assert set(found) == {"x", "z"} and found["z"].tolist() == [0, 1, 2]
    found = read([picture, tmp_path / "z.npy"], f"int64[m] z, {RGB}")
    assert found["z"].tolist() == [0, 1, 2] and found["x"].shape == (1, 3, 4, 6)


def test_what_is_not_obvious_is_an_error(picture: Path, tmp_path: Path) -> None:
    with pytest.raises(OnnxLiftError, match="may be for 'x' or 'z': say which, --input x="):
        read(picture, f"{RGB}, float[n, 3, h, w] z")
    with pytest.raises(OnnxLiftError, match="no input of the model takes a picture"):
        read(picture, "float[n] x")
    with pytest.raises(OnnxLiftError, match="takes 2 pictures, and 1 are given"):
        read(picture, "float[2, 3, h, w] x")
    with pytest.raises(OnnxLiftError, match="--mean has 2 numbers, and the picture 3 channels"):
        read(picture, RGB, PictureSettings((0.1, 0.2)))
    (tmp_path / "broken.png").write_bytes(b"no picture")
    with pytest.raises(OnnxLiftError, match="it is no picture of a format that is read"):
        read(tmp_path / "broken.png", RGB)
    with pytest.raises(OnnxLiftError, match=r"cannot read the picture .*: No such file"):
        read(tmp_path / "missing.png", RGB)


def test_without_pillow_the_error_says_what_to_install(picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(OnnxLiftError, match=r"pip install 'onnxlift\[images\]'"):
        read(picture, RGB)

"""Inputs from files that say what they are only together with the model: pictures, and texts.

A picture becomes the input that looks like one: (batch, channels, height, width), or with the channels last. It gets
the size that the model declares. A text becomes the input of strings, a line an element.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.types import Dim, ValueType, shape_text, type_of
from onnxlift.verification.given import Inputs, read_given

PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
_FORMATS = ["PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM"]
"""Only these are read: others run programs, or are of no use here."""
TEXTS = {".txt"}
FITS = ("crop", "stretch", "pad")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}

Array = np.ndarray[Any, Any]
Path_ = str | os.PathLike[str]


@dataclass(frozen=True)
class PictureSettings:
    """How pixels become numbers: `(pixel - mean) / std`, and how a picture of another size is made to fit.

    Pixels are from 0 to 1; if a mean or a deviation is above 1, from 0 to 255, and so they are for integers."""

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    fit: str = "crop"

    @classmethod
    def of(cls, mean: float | Sequence[float], std: float | Sequence[float], fit: str) -> PictureSettings:
        """Return the settings; a single number is that of all channels."""
        return cls(_floats(mean), _floats(std), fit)

    def __post_init__(self) -> None:
        if self.fit not in FITS:
            raise OnnxLiftError(f"{self.fit!r} is no way to fit a picture: it is one of {', '.join(FITS)}.")
        if any(number <= 0 for number in self.std):
            raise OnnxLiftError("a standard deviation (--std) is greater than 0.")

    @property
    def is_given(self) -> bool:
        return bool(self.mean or self.std)

    @property
    def largest(self) -> float:
        """The largest value of a pixel, to which mean and deviation refer."""
        return 255.0 if any(number > 1 for number in (*self.mean, *self.std)) else 1.0


def read_files(
    inputs: Inputs,
    graph: ir.Graph,
    pictures: PictureSettings,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> tuple[Mapping[str, Any] | Sequence[Any], list[str]]:
    """Return the inputs that are given, read from their files, and notes on what became of pictures and texts.

    A file may be named for an input: `mask=mask.npy`. Pictures for one input are a batch."""
    items: list[Any] = []
    if isinstance(inputs, Mapping):
        items = [(name, value) for name, value in inputs.items()]
    elif isinstance(inputs, str | os.PathLike):
        items = [_named(inputs, graph)]
    elif inputs is not None:
        items = [_named(item, graph) if isinstance(item, str | os.PathLike) else ("", item) for item in inputs]
    special = [(name, Path(file)) for name, file in items if _suffix(file) in PICTURES | TEXTS]
    named = [(name, file) for name, file in items if name and _suffix(file) not in PICTURES | TEXTS]
    rest = [file for name, file in items if not name and _suffix(file) not in PICTURES | TEXTS]
    if not special and not named:
        return read_given(rest if rest else inputs if isinstance(inputs, Mapping) else None), []
    found: dict[str, Any] = {name: _only(read_given(file), file) if _is_path(file) else file for name, file in named}
    notes: list[str] = []
    free = {value.name or "": value for value in graph.inputs if constant(value) is None and value.name not in found}
    groups: dict[str, list[Path]] = {}
    for name, file in special:
        wanted = name or _obvious(free, file)
        groups.setdefault(wanted, []).append(file)
    for name, files in groups.items():
        if name not in {value.name for value in graph.inputs}:
            raise OnnxLiftError(f"the model has no input named {quote(name)}; its inputs are {', '.join(free)}.")
        kind = type_of(next(value for value in graph.inputs if value.name == name))
        if files[0].suffix.lower() in TEXTS:
            found[name] = _text(files, name, kind)
        else:
            sizes = dict(enumerate((shapes or {}).get(name, ())))
            found[name] = _pictures(files, name, kind, sizes, dims or {}, pictures)
            notes.append(_told(name, files, found[name], pictures))
    given = read_given(rest) if rest else {}
    if isinstance(given, Mapping):
        return {**given, **found}, notes
    open_names = [name for name in free if name not in found]
    if len(given) > len(open_names):
        raise OnnxLiftError(f"{len(given)} files without names are given for {len(open_names)} inputs.")
    return {**dict(zip(open_names, given, strict=False)), **found}, notes


def _floats(numbers: float | Sequence[float]) -> tuple[float, ...]:
    return (float(numbers),) if isinstance(numbers, int | float) else tuple(map(float, numbers))


def _is_path(file: Any) -> bool:
    return isinstance(file, str | os.PathLike)


def _suffix(file: Any) -> str:
    return Path(file).suffix.lower() if _is_path(file) else ""


def _named(file: Path_, graph: ir.Graph) -> tuple[str, Path_]:
    """Take `name=file` apart, if it is no file itself."""
    text = os.fspath(file)
    if Path(text).exists():
        return "", file
    for value in graph.inputs:
        if value.name and text.startswith(f"{value.name}="):
            return value.name, text[len(value.name) + 1 :]
    return "", file


def _only(values: Mapping[str, Any] | Sequence[Any], file: Any) -> Any:
    found = list(values.values() if isinstance(values, Mapping) else values)
    if len(found) != 1:
        raise OnnxLiftError(f"{str(file)!r} holds {len(found)} arrays, and is given for one input.")
    return found[0]


def _obvious(free: Mapping[str, ir.Value], file: Path) -> str:
    """Return the input that a picture or a text must be for."""
    is_text = file.suffix.lower() in TEXTS
    fitting = [name for name, value in free.items() if (_takes_text if is_text else takes_pictures)(type_of(value))]
    what = "a text" if is_text else "a picture"
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise OnnxLiftError(
            f"{str(file)!r} may be for {' or '.join(map(quote, fitting))}: say which, --input {fitting[0]}={file}."
        )
    told = ", ".join(f"{name}: {type_of(value)}" for name, value in free.items()) or "none"
    hint = " Tokens are numbers: give them as .npy or .npz." if is_text else ""
    raise OnnxLiftError(f"no input of the model takes {what} like {str(file)!r}; its inputs are {told}.{hint}")


def _takes_text(kind: ValueType) -> bool:
    return kind.kind == "tensor" and kind.dtype == ir.DataType.STRING


def takes_pictures(kind: ValueType) -> bool:
    """Tell whether an input looks like one for pictures: channels of one, three or four, and two other axes."""
    shape = kind.shape
    if kind.kind != "tensor" or kind.dtype is None or shape is None or len(shape) not in (2, 3, 4):
        return False
    if not (kind.dtype.is_floating_point() or kind.dtype in (ir.DataType.UINT8, ir.DataType.INT8)):
        return False
    if len(shape) == 4:
        return shape[1] in _MODES or shape[3] in _MODES or isinstance(shape[1], str)
    sides = [size for size in shape if not isinstance(size, int) or size >= 8]
    return len(shape) == 3 and (shape[0] in _MODES or shape[2] in _MODES) and len(sides) >= 2


def _layout(name: str, shape: Sequence[Dim]) -> str:
    """Return the meaning of the axes of an input for pictures: NCHW, NHWC, CHW, HWC or HW."""
    match len(shape):
        case 4:
            return "NHWC" if shape[3] in _MODES and shape[1] not in _MODES else "NCHW"
        case 3:
            return "HWC" if shape[2] in _MODES and shape[0] not in _MODES else "CHW"
        case 2:
            return "HW"
    raise OnnxLiftError(f"input {name!r} is {shape_text(tuple(shape))}, which no picture fits.")


def read_picture(file: Path, name: str, kind: ValueType, settings: PictureSettings) -> Array:
    """Return a picture as the input of that name and kind."""
    return _pictures([file], name, kind, {}, {}, settings)


def _pictures(
    files: Sequence[Path],
    name: str,
    kind: ValueType,
    sizes: Mapping[int, int],
    dims: Mapping[str, int],
    settings: PictureSettings,
) -> Array:
    if kind.shape is None or kind.dtype is None:
        raise OnnxLiftError(f"input {name!r} has no declared shape that a picture could be fitted to: pass an array.")
    layout = _layout(name, kind.shape)
    known: dict[str, int | None] = {}
    for place, (axis, size) in enumerate(zip(layout, kind.shape, strict=True)):
        chosen = sizes.get(place, dims.get(size) if isinstance(size, str) else size)
        known[axis] = chosen if isinstance(chosen, int) else None
    batch = known.get("N", 1)
    if batch is not None and batch != len(files):
        raise OnnxLiftError(f"input {name!r} takes {batch} pictures, and {len(files)} are given.")
    channels = 1 if layout == "HW" else known["C"] or 3
    if channels not in _MODES:
        raise OnnxLiftError(f"input {name!r} has {channels} channels, and a picture has 1, 3 or 4.")
    read = [_read(file, channels, known["W"], known["H"], settings.fit) for file in files]
    if len({each.shape for each in read}) > 1:
        raise OnnxLiftError(f"the pictures for input {name!r} differ in size: give the size (--shape {name}=...).")
    pixels = _numbers(np.stack(read), kind.dtype, settings)
    order = {"NCHW": (0, 3, 1, 2), "CHW": (0, 3, 1, 2)}.get(layout)
    array = pixels.transpose(order) if order else pixels
    if layout in ("CHW", "HWC"):
        array = array[0]
    elif layout == "HW":
        array = array[0, :, :, 0]
    return np.ascontiguousarray(array)


def _read(file: Path, channels: int, width: int | None, height: int | None, fit: str) -> Array:
    """Return the pixels of a picture as bytes: height, width, channels."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise OnnxLiftError("pictures need the package Pillow: pip install 'onnxlift[images]'.") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=_FORMATS) as opened:
                picture = ImageOps.exif_transpose(opened).convert(_MODES[channels])
    except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise OnnxLiftError(f"cannot read the picture {str(file)!r}: {_reason(error, file)}.") from error
    except Image.DecompressionBombWarning as error:
        raise OnnxLiftError(f"the picture {str(file)!r} is too large: {error}") from error
    size = (width or picture.width, height or picture.height)
    if picture.size != size:
        way = {"crop": ImageOps.fit, "pad": ImageOps.pad}.get(fit)
        how = Image.Resampling.BILINEAR
        picture = picture.resize(size, how) if way is None else way(picture, size, method=how)
    return np.asarray(picture, np.uint8).reshape(size[1], size[0], channels)


def _reason(error: Exception, file: Path) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return "it is no picture of a format that is read" if "cannot identify" in text else text.rstrip(".")


def _numbers(pixels: Array, dtype: ir.DataType, settings: PictureSettings) -> Array:
    """Return bytes as the numbers that the model reads."""
    if dtype in (ir.DataType.UINT8, ir.DataType.INT8):
        if settings.is_given:
            raise OnnxLiftError("the model reads pixels as bytes, so that there is no mean and no deviation to take.")
        shift = 128 if dtype == ir.DataType.INT8 else 0
        return (pixels.astype(np.int16) - shift).astype(dtype.numpy())
    values = pixels.astype(np.float32) * np.float32(settings.largest / 255.0)
    channels = pixels.shape[-1]
    for option, numbers, change in (("--mean", settings.mean, np.subtract), ("--std", settings.std, np.divide)):
        if len(numbers) not in (0, 1, channels):
            raise OnnxLiftError(f"{option} has {len(numbers)} numbers, and the picture {channels} channels.")
        if numbers:
            values = change(values, np.asarray(numbers, np.float32))
    return values.astype(dtype.numpy())


def _told(name: str, files: Sequence[Path], array: Array, settings: PictureSettings) -> str:
    what = files[0].name if len(files) == 1 else f"{len(files)} pictures"
    if array.dtype.kind in "iu":
        return f"{name} is {what}, pixels as bytes"
    text = f"{name} is {what}, pixels from 0 to {settings.largest:g}"
    text += f", less {_list(settings.mean)}" if settings.mean else ""
    return text + (f", over {_list(settings.std)}" if settings.std else "")


def _list(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def _text(files: Sequence[Path], name: str, kind: ValueType) -> Array:
    if not _takes_text(kind):
        raise OnnxLiftError(
            f"input {name!r} is {kind}, and takes no text. Tokens are numbers: give them as .npy or .npz."
        )
    try:
        texts = [file.read_text(encoding="utf-8-sig") for file in files]
    except (OSError, UnicodeDecodeError) as error:
        raise OnnxLiftError(f"cannot read a text from {str(files[0])!r}: {error}.") from error
    lines = [line for text in texts for line in text.splitlines()]
    shape = kind.shape
    if shape is None or len(shape) == 1:
        return np.array(lines, dtype=object)
    if not shape:
        return np.array("\n".join(texts).rstrip("\n"), dtype=object)
    sizes = [size if isinstance(size, int) else -1 for size in shape]
    if sizes.count(-1) > 1:  # as many rows as lines
        sizes = [-1 if place == 0 else max(size, 1) for place, size in enumerate(sizes)]
    try:
        return np.array(lines, dtype=object).reshape(sizes)
    except ValueError as error:
        raise OnnxLiftError(f"input {name!r} is {shape_text(shape)}, and the text has {len(lines)} lines.") from error

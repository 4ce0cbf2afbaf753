"""Types of inputs and outputs, as operations say them: an element type by name, and a list of sizes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.reading.weights import MAX_RANK

from .arrays import data_type

Sizes = tuple[int | str | None, ...]
"""The sizes of a tensor: numbers, names, or None where a size is open and has no name."""


def tensor_type_proto(dtype: str, shape: Sizes | None) -> onnx.TypeProto:
    """Return the type of a tensor. Without a shape, the number of its axes is open."""
    known = data_type(dtype)
    if known is None:
        raise OnnxLiftError(f"{quote(dtype)} is no element type, such as float32, int64 or bool.")
    return onnx.helper.make_tensor_type_proto(int(known), None if shape is None else checked_sizes(shape))


def checked_sizes(shape: Sizes) -> Sequence[int | str | None]:
    """Return the sizes, if they can be those of a tensor."""
    if len(shape) > MAX_RANK:
        raise OnnxLiftError(f"a tensor has at most {MAX_RANK} axes, not {len(shape)}.")
    for size in shape:
        check_size(size)
    return list(shape)


def check_size(size: int | str | None) -> None:
    """Refuse what is no size: a negative number, one beyond all memory, or an empty name."""
    if isinstance(size, int) and not 0 <= size < 2**40:
        raise OnnxLiftError(f"{size} is no size of a tensor.")
    if isinstance(size, str) and not size.strip():
        raise OnnxLiftError("a size has a number, a name that is not empty, or None.")

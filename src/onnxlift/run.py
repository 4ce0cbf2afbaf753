"""Running lifted code: the one place outside `verify` that imports torch."""

from __future__ import annotations

import linecache
import sys
import types
from typing import Any

import ml_dtypes
import numpy as np
import torch


def execute(source: str, name: str) -> dict[str, Any]:
    """The names that the generated source defines. Tracebacks show its lines, and `inspect` finds them."""
    filename = f"<onnxlift {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = types.ModuleType(f"onnxlift_generated.{name}")
    module.__file__ = filename
    sys.modules[module.__name__] = module
    exec(compile(source, filename, "exec"), module.__dict__)
    return module.__dict__


_VIEWS = {
    np.dtype(ml_dtypes.bfloat16): (np.uint16, torch.bfloat16),
    np.dtype(ml_dtypes.float8_e4m3fn): (np.uint8, torch.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e4m3fnuz): (np.uint8, torch.float8_e4m3fnuz),
    np.dtype(ml_dtypes.float8_e5m2): (np.uint8, torch.float8_e5m2),
    np.dtype(ml_dtypes.float8_e5m2fnuz): (np.uint8, torch.float8_e5m2fnuz),
    np.dtype(ml_dtypes.float8_e8m0fnu): (np.uint8, torch.float8_e8m0fnu),
}
_WIDER = {
    np.dtype(ml_dtypes.int4): np.int8,
    np.dtype(ml_dtypes.uint4): np.uint8,
    np.dtype(ml_dtypes.int2): np.int8,
    np.dtype(ml_dtypes.uint2): np.uint8,
    np.dtype(ml_dtypes.float4_e2m1fn): np.float32,
}


def to_torch(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """A tensor with the values of `array`, in the representation that lifted code uses for its type."""
    array = np.asarray(array)
    if array.dtype in _WIDER:
        array = array.astype(_WIDER[array.dtype])
    view = _VIEWS.get(array.dtype)
    if view is None:
        return torch.from_numpy(np.require(array, requirements=["C", "W"]).copy())
    return torch.from_numpy(array.copy(order="C").view(view[0])).view(view[1])


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The values of a tensor as numpy, in ml_dtypes where numpy has no such type."""
    tensor = tensor.detach().cpu()
    for dtype, (bits, torch_dtype) in _VIEWS.items():
        if tensor.dtype == torch_dtype:
            raw = tensor.contiguous().view(torch.uint16 if bits is np.uint16 else torch.uint8)
            return raw.numpy().view(dtype)
    return tensor.numpy()

"""Run lifted code. This is the one file outside `verify` that imports torch."""

from __future__ import annotations

import linecache
import sys
import types
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import torch


def execute(source: str, name: str) -> dict[str, Any]:
    """Execute generated source and return the names that it defines.

    Tracebacks show its lines, and Python's `inspect` finds them."""
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
TRAVELS_AS = {  # element types that torch lacks -> the type in which lifted code holds them
    np.dtype(ml_dtypes.int4): np.int8,
    np.dtype(ml_dtypes.uint4): np.uint8,
    np.dtype(ml_dtypes.int2): np.int8,
    np.dtype(ml_dtypes.uint2): np.uint8,
    np.dtype(ml_dtypes.float6_e2m3fn): np.float32,
    np.dtype(ml_dtypes.float6_e3m2fn): np.float32,
    np.dtype(ml_dtypes.float4_e2m1fn): np.float32,
}


def to_torch(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """Return a tensor with the values of `array`, of the type that lifted code uses for them (int8 for int4)."""
    array = np.asarray(array)
    if array.dtype in TRAVELS_AS:
        array = array.astype(TRAVELS_AS[array.dtype])
    view = _VIEWS.get(array.dtype)
    if view is None:
        if array.dtype.kind in "iu":  # C has two types for the same 64 bits (long, long long); torch takes only one
            array = array.view(array.dtype.str)
        return torch.from_numpy(np.require(array, requirements=["C", "W"]).copy())
    return torch.from_numpy(array.copy(order="C").view(view[0])).view(view[1])


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return the values of a tensor as a numpy array, of a type of ml_dtypes where numpy has no such type."""
    tensor = tensor.detach().cpu()
    for dtype, (bits, torch_dtype) in _VIEWS.items():
        if tensor.dtype == torch_dtype:
            raw = tensor.contiguous().view(torch.uint16 if bits is np.uint16 else torch.uint8)
            return raw.numpy().view(dtype)
    return tensor.numpy()


def to_argument(value: Any, device: str = "cpu") -> Any:
    """Convert an input of a model to what lifted code takes.

    Arrays and numbers become tensors, strings become arrays of objects. Tensors, maps and None stay as they are. The
    items of a list or tuple are converted one by one."""
    match value:
        case None | torch.Tensor():
            return value
        case list() | tuple():
            return [to_argument(item, device) for item in value]
        case dict():
            return value
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "OUS" else to_torch(array).to(device)


def to_result(value: Any, type: ir.TypeProtocol | None = None) -> Any:
    """Convert an output of lifted code to numpy.

    If lifted code holds the element type in a wider one (int4 in int8), the array gets the type that `type` names."""
    if isinstance(type, ir.OptionalType):
        type = type.elem_type
    match value:
        case None | dict():
            return value
        case list() | tuple():
            inner = type.elem_type if isinstance(type, ir.SequenceType) else None
            return [to_result(item, inner) for item in value]
        case torch.Tensor():
            array = to_numpy(value)
            exact = _narrower(type)
            return array if exact is None else array.astype(exact)
    return np.asarray(value)


def _narrower(type: ir.TypeProtocol | None) -> np.dtype[Any] | None:
    """Return the numpy type of `type`, if lifted code holds it in a wider one; else None."""
    if not isinstance(type, ir.TensorType) or type.dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING):
        return None
    dtype = np.dtype(type.dtype.numpy())
    return dtype if dtype in TRAVELS_AS else None

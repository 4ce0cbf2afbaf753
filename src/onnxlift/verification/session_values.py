"""Pass values to and from a session of ONNX Runtime, also those of types that numpy lacks. Called in children only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

# Types that ONNX Runtime computes with but cannot return as numpy arrays. A Cast at the end of the model converts them.
CAST_OUT = {
    "tensor(bfloat16)": (TensorProto.FLOAT, ml_dtypes.bfloat16),
    "tensor(float8e4m3fn)": (TensorProto.FLOAT, ml_dtypes.float8_e4m3fn),
    "tensor(float8e4m3fnuz)": (TensorProto.FLOAT, ml_dtypes.float8_e4m3fnuz),
    "tensor(float8e5m2)": (TensorProto.FLOAT, ml_dtypes.float8_e5m2),
    "tensor(float8e5m2fnuz)": (TensorProto.FLOAT, ml_dtypes.float8_e5m2fnuz),
    "tensor(int4)": (TensorProto.INT8, ml_dtypes.int4),
    "tensor(uint4)": (TensorProto.UINT8, ml_dtypes.uint4),
    "tensor(int2)": (TensorProto.INT8, ml_dtypes.int2),
    "tensor(uint2)": (TensorProto.UINT8, ml_dtypes.uint2),
}
# The same types as inputs: they are passed as their bits, together with the type.
_BITS_IN = {
    np.dtype(ml_dtypes.bfloat16): (np.uint16, TensorProto.BFLOAT16),
    np.dtype(ml_dtypes.float8_e4m3fn): (np.uint8, TensorProto.FLOAT8E4M3FN),
    np.dtype(ml_dtypes.float8_e4m3fnuz): (np.uint8, TensorProto.FLOAT8E4M3FNUZ),
    np.dtype(ml_dtypes.float8_e5m2): (np.uint8, TensorProto.FLOAT8E5M2),
    np.dtype(ml_dtypes.float8_e5m2fnuz): (np.uint8, TensorProto.FLOAT8E5M2FNUZ),
}


def cast_outputs(model: onnx.ModelProto, casts: Mapping[str, str]) -> onnx.ModelProto:
    """Add a Cast to each of these outputs, of which ONNX Runtime's type is given."""
    for name, kind in casts.items():
        to = CAST_OUT[kind][0]
        model.graph.node.append(helper.make_node("Cast", [name], [_cast_name(name)], to=to))
        model.graph.output.append(helper.make_tensor_value_info(_cast_name(name), to, None))
    return model


def _cast_name(name: str) -> str:
    return f"{name}::cast_for_numpy"


def run_session(
    session: Any, casts: Mapping[str, Any], inputs: Mapping[str, Any], outputs: Sequence[str]
) -> dict[str, Any]:
    """Run a session, and return its outputs by name. `casts` are the numpy types of those that a Cast converts."""
    return named_outputs(call_session(session, casts, feeds_of(session, inputs), outputs), casts, outputs)


def feeds_of(session: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs in the form that a session takes."""
    known = {value.name for value in session.get_inputs()}
    feeds = {name: value for name, value in inputs.items() if name in known}
    if any(isinstance(value, np.ndarray) and value.dtype in _BITS_IN for value in feeds.values()):
        return {name: _ort_value(value) for name, value in feeds.items()}
    return feeds


def call_session(
    session: Any, casts: Mapping[str, Any], feeds: Mapping[str, Any], outputs: Sequence[str]
) -> Sequence[Any]:
    """Run a session on what `feeds_of` gives, and return its outputs in their order."""
    names = [_cast_name(name) if name in casts else name for name in outputs]
    if any(type(value).__name__ == "OrtValue" for value in feeds.values()):
        return [result.numpy() for result in session.run_with_ort_values(names, feeds)]
    results: Sequence[Any] = session.run(names, feeds)
    return results


def named_outputs(values: Sequence[Any], casts: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    """Return outputs by name, in their own types."""
    return {
        name: value.astype(casts[name]) if name in casts else value for name, value in zip(outputs, values, strict=True)
    }


def _ort_value(array: np.ndarray[Any, Any]) -> Any:
    from onnxruntime import OrtValue

    if array.dtype not in _BITS_IN:
        return OrtValue.ortvalue_from_numpy(np.asarray(array))
    bits, element = _BITS_IN[array.dtype]
    return OrtValue.ortvalue_from_numpy_with_onnx_type(np.array(array).view(bits), element)

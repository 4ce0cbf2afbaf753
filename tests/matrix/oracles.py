"""What a case should give, by those who know, and whether two answers are the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

from matrix.case import Array

# Relative and absolute, by the narrowest floating-point type that takes part.
TOLERANCES = {
    "float64": (1e-6, 1e-7),  # ONNX Runtime and the reference compute some of it in float32
    "float32": (1e-4, 1e-5),
    "float16": (4e-3, 4e-3),
    "bfloat16": (3e-2, 3e-2),
}


def answers(model: onnx.ModelProto, inputs: Mapping[str, Any], reference: bool) -> Iterator[tuple[str, Sequence[Any]]]:
    """Who knows the outputs of the model, and what they are: first ONNX Runtime, then the ONNX reference.

    Neither is always right: ONNX Runtime gathers strings wrongly and hands out float8 as bytes, the reference computes
    some results in a wider type than the schema says, and fills strings up with the number 0. So an answer is brought
    to the type of the schema, and is none if it is of another kind."""
    declared = _declared_types(model)
    oracles: dict[str, Callable[..., Sequence[Any]]] = {"ONNX Runtime": _onnxruntime, "ONNX reference": _reference}
    if reference:
        del oracles["ONNX Runtime"]
    for name, run in oracles.items():
        try:
            outputs = [_typed(output, dtype) for output, dtype in zip(run(model, inputs), declared, strict=True)]
        except Exception:  # it does not know the operator, its revision, its types, ...
            continue
        yield name, outputs


def _onnxruntime(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> Sequence[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(inputs)))


def _reference(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> Sequence[Any]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # numpy, about numbers that overflow
        outputs = list(ReferenceEvaluator(model).run(None, dict(inputs)))
    if any(output is NotImplemented for output in outputs):
        raise NotImplementedError
    return outputs


def _declared_types(model: onnx.ModelProto) -> list[np.dtype[Any] | None]:
    """The element types of the outputs, as far as the schema tells them."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except onnx.shape_inference.InferenceError:  # some revisions know no types of sequences
        return [None] * len(model.graph.output)
    numbers = [output.type.tensor_type.elem_type for output in inferred.graph.output]
    return [helper.tensor_dtype_to_np_dtype(number) if number else None for number in numbers]


def _typed(output: Any, dtype: np.dtype[Any] | None) -> Any:
    if dtype is None or isinstance(output, list | dict) or output is None:
        return output
    array = np.asarray(output)
    if dtype.kind == "O":
        return np.where(array == 0, "", array).astype(object)  # the zero of strings, in numpy too
    if array.dtype != dtype and (_is_float(array.dtype) != _is_float(dtype)):
        raise TypeError(f"{array.dtype} instead of {dtype}")
    return array.astype(dtype)


def _is_float(dtype: np.dtype[Any]) -> bool:
    return "float" in dtype.name


def tolerance(values: Iterable[Any]) -> tuple[float, float]:
    """How far numbers may be apart that were computed from or to these."""
    names = {array.dtype.name for value in values for array in (value if isinstance(value, list) else [value])
             if isinstance(array, np.ndarray)}  # fmt: skip
    known = [TOLERANCES[name] for name in names & TOLERANCES.keys()]
    return max(known, default=TOLERANCES["float32"])


def assert_same(actual: Any, expected: Any, tolerance: tuple[float, float], random: bool = False) -> None:
    """Equal in type, shape and numbers; in type and shape if `random`."""
    match expected:
        case None:
            assert actual is None, f"{actual} is not None"
            return
        case list() | tuple():
            assert len(actual) == len(expected), f"a sequence of {len(actual)}, not of {len(expected)}"
            for a, e in zip(actual, expected, strict=True):
                assert_same(a, e, tolerance, random)
            return
        case dict():
            assert list(actual) == list(expected), f"keys {list(actual)}, not {list(expected)}"
            values = (np.array(list(one.values()), np.float32) for one in (actual, expected))
            assert_same(*values, tolerance, random)
            return
    actual, expected = np.asarray(actual), np.asarray(expected)
    if expected.dtype.kind == "U":
        expected = expected.astype(object)
    found, wanted = (f"{array.dtype}{list(array.shape)}" for array in (actual, expected))
    assert found == wanted, f"{found}, not {wanted}"
    if random:
        return
    if expected.dtype == object:
        assert actual.tolist() == expected.tolist(), f"{actual.tolist()}, not {expected.tolist()}"
        return
    rtol, atol = tolerance if expected.dtype.name in TOLERANCES or expected.dtype.kind == "c" else (0, 0)
    np.testing.assert_allclose(_wide(actual), _wide(expected), rtol=rtol, atol=atol)


def _wide(array: Array) -> Array:
    """The same numbers in a type that numpy can compare."""
    return array.astype(np.float64) if array.dtype.kind == "V" or _is_float(array.dtype) else array

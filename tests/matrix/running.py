"""Running a case: its model, what it should give, and what the lifted module gives."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnxlift
from onnxlift.backend import Prepared
from onnxlift.emit import file

from .case import Array, Case, Optional, attribute_value

# Relative and absolute, by the element type of what is expected.
TOLERANCES = {
    "float64": (1e-6, 1e-7),  # ONNX Runtime and the reference compute some of it in float32
    "float32": (1e-4, 1e-5),
    "float16": (4e-3, 4e-3),
    "bfloat16": (3e-2, 3e-2),
    "complex64": (1e-4, 1e-5),
    "complex128": (1e-6, 1e-7),
}
FORMS = ("open", "fixed")
ELEMENT = {str: onnx.TensorProto.STRING, int: onnx.TensorProto.INT64, float: onnx.TensorProto.FLOAT}  # in maps


@contextmanager
def unformatted() -> Iterator[None]:
    """Lifting without the call of ruff, which takes three quarters of the time and changes no number."""
    before, file.format_source = file.format_source, lambda text: text
    try:
        yield
    finally:
        file.format_source = before


@dataclass
class Result:
    """How a case went in one form."""

    lifted: onnxlift.Lifted | None
    oracle: str | None  # "onnxruntime", "reference", "numpy", or None if nobody can tell
    error: str = ""


def run_case(case: Case) -> list[Result]:
    """The case in both forms: with all inputs given at run time and their sizes open, and with all but the first as
    constants and the sizes fixed."""
    models = [build_model(case, form) for form in FORMS]
    if models[0] == models[1]:
        del models[1:]
    fed = {name: value for name, value in zip(_names(case), case.inputs, strict=True) if name}
    oracle, expected = _expected(case, models[0], fed)
    return [_run(case, model, fed, oracle, expected) for model in models]


def _run(case: Case, model: onnx.ModelProto, fed: Mapping[str, Any], oracle: str | None, expected: Any) -> Result:
    lifted = None
    try:
        lifted = onnxlift.lift(model)
        inputs = [_plain(fed[value.name]) for value in model.graph.input]
        actual = Prepared(lifted, "cpu").run(inputs)
        if expected is not None:
            assert len(actual) == len(expected), f"{len(actual)} outputs, not {len(expected)}"
            for a, e in zip(actual, expected, strict=True):
                assert_same(a, e, case.row.tolerance, case.row.random)
    except Exception as error:
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return Result(lifted, oracle, f"{kind}{error}")
    return Result(lifted, oracle)


def _names(case: Case) -> list[str]:
    return ["" if value is None else f"x{index}" for index, value in enumerate(case.inputs)]


def build_model(case: Case, form: str) -> onnx.ModelProto:
    """A model of the one node."""
    schema, names = case.revision.schema, _names(case)
    attributes = {name: attribute_value(value) for name, value in case.row.attributes.items()}
    outputs = [f"y{index}" for index in range(case.row.outputs)]
    node = helper.make_node(schema.name, names, outputs, domain=schema.domain, **attributes)
    for attribute in node.attribute:  # an empty list does not say of what
        attribute.type = int(schema.attributes[attribute.name].type.value)
    infos, constants = [], []
    for index, (name, value) in enumerate(zip(names, case.inputs, strict=True)):
        if value is None:
            continue
        if form == "fixed" and index and isinstance(value, np.ndarray):
            constants.append(numpy_helper.from_array(value, name))
        else:
            infos.append(helper.make_value_info(name, _type(name, value, form)))
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    imports = {schema.domain: case.revision.opset}
    if case.row.before:
        imports.setdefault("", 21)
    graph = helper.make_graph([*case.row.before, node], "case", infos, results, constants)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*pair) for pair in imports.items()], ir_version=10
    )


def _type(name: str, value: Any, form: str) -> onnx.TypeProto:
    match value:
        case Optional():
            return helper.make_optional_type_proto(
                _type(name, value.like if value.value is None else value.value, form)
            )
        case list():
            element = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value[0].dtype), None)
            return helper.make_sequence_type_proto(element)
        case dict():
            key, item = next(iter(value.items()))
            return helper.make_map_type_proto(
                ELEMENT[type(key)], helper.make_tensor_type_proto(ELEMENT[type(item)], ())
            )
    shape = [f"{name}_{axis}" for axis in range(value.ndim)] if form == "open" else value.shape
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), shape)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Optional) else value


def _expected(case: Case, model: onnx.ModelProto, fed: Mapping[str, Any]) -> tuple[str | None, Sequence[Any] | None]:
    """Who knows the outputs, and what they are."""
    plain = {name: _plain(value) for name, value in fed.items()}
    if case.row.expected is not None:
        expected = case.row.expected(*(_plain(value) for value in case.inputs))
        return "numpy", list(expected) if isinstance(expected, tuple) else [expected]
    oracles = {"onnxruntime": onnxruntime_run, "reference": reference_run}
    if case.row.reference:
        del oracles["onnxruntime"]
    for name, run in oracles.items():
        try:
            outputs = run(model, plain)
        except Exception:
            continue
        if not any(value is NotImplemented for value in outputs):
            return name, outputs
    return None, None


def onnxruntime_run(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> Sequence[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(inputs)))


def reference_run(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> Sequence[Any]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # numpy, about numbers that overflow
        return list(ReferenceEvaluator(model).run(None, dict(inputs)))


def assert_same(actual: Any, expected: Any, factor: float = 1.0, random: bool = False) -> None:
    """Equal in type, shape and numbers; in type and shape if `random`."""
    match expected:
        case None:
            assert actual is None, f"{actual} is not None"
            return
        case list() | tuple():
            assert len(actual) == len(expected), f"a sequence of {len(actual)}, not of {len(expected)}"
            for a, e in zip(actual, expected, strict=True):
                assert_same(a, e, factor, random)
            return
        case dict():
            assert list(actual) == list(expected), f"keys {list(actual)}, not {list(expected)}"
            assert_same(np.array(list(actual.values())), np.array(list(expected.values())), factor, random)
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
    rtol, atol = (factor * t for t in TOLERANCES.get(expected.dtype.name, (0, 0)))
    np.testing.assert_allclose(_wide(actual), _wide(expected), rtol=rtol, atol=atol)


def _wide(array: Array) -> Array:
    """The same numbers in a type that numpy can compare."""
    return (
        array.astype(np.float64)
        if array.dtype.kind == "V" or array.dtype.name.startswith(("float", "bfloat"))
        else array
    )

"""Running a case: lifted in two forms, and compared with who knows better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from torch import Tensor

import onnxlift
from matrix.case import Case, Optional, attribute_value
from matrix.oracles import answers, assert_same, tolerance
from onnxlift.backend import Prepared
from onnxlift.executing import to_argument
from onnxlift.lifting.text import file

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

    form: str
    lifted: onnxlift.Lifted | None = None
    actual: Sequence[Any] | None = None
    oracle: str = ""  # who knows what it should give
    error: str = ""
    refused: str = ""  # why it cannot be lifted


def lift_case(case: Case) -> list[Result]:
    """The case in two forms: with all inputs given at run time, their sizes open and their axes in another order in
    memory, and with all but the first as constants and the sizes fixed. Lifted and run, but not compared."""
    models = {form: build_model(case, form) for form in ("open", "fixed")}
    if models["open"] == models["fixed"]:
        del models["fixed"]
    return [_lift_and_run(form, model, feeds(case)) for form, model in models.items()]


def run_case(case: Case) -> list[Result]:
    """The case in both forms, compared with who knows better: with one after the other until they agree."""
    results = lift_case(case)
    undecided = [result for result in results if result.actual is not None or result.refused]
    for oracle, expected in expectations(case):
        for result in undecided:
            result.oracle = oracle
            if result.actual is not None:
                result.error = _difference(case, result.actual, expected)
        undecided = [result for result in undecided if result.error]
        if not undecided:
            break
    return results


def expectations(case: Case) -> Iterator[tuple[str, Sequence[Any]]]:
    """Who knows what the case gives, and what that is."""
    fed = feeds(case)
    if case.row.expected is not None:
        expected = case.row.expected(*fed.values())
        yield "numpy", expected if isinstance(expected, tuple) else [expected]
        return
    for opset in (None, case.row.asked) if case.row.asked else (None,):
        yield from answers(build_model(case, "open", opset), fed, case.row.reference)


def _lift_and_run(form: str, model: onnx.ModelProto, fed: Mapping[str, Any]) -> Result:
    result = Result(form)
    try:
        result.lifted = onnxlift.lift(model)
        arguments = [to_argument(fed[value.name]) for value in model.graph.input]
        if form == "open":
            arguments = [_turned(value) if isinstance(value, Tensor) else value for value in arguments]
        result.actual = Prepared(result.lifted, "cpu").run(arguments)
    except onnxlift.UnsupportedError as error:
        result.refused = error.nodes[0].reason or "there is no function for it"
    except Exception as error:  # the text of it is what the test shows: whatever is raised here is our fault
        result.error = f"{type(error).__name__}: {error}"
    return result


def _turned(x: Tensor) -> Tensor:
    """The same tensor as if it came out of a transposition, so that there is no `view` of it."""
    order = list(range(x.ndim))[::-1]
    return x.permute(order).contiguous().permute(order)


def _difference(case: Case, actual: Sequence[Any], expected: Sequence[Any]) -> str:
    try:
        assert len(actual) == len(expected), f"{len(actual)} outputs, not {len(expected)}"
        for a, e in zip(actual, expected, strict=True):
            assert_same(a, e, tolerance([*case.inputs, *expected]), case.row.random)
    except AssertionError as error:
        return str(error).strip()
    return ""


def feeds(case: Case) -> dict[str, Any]:
    """The inputs by name, as ONNX Runtime and the lifted module take them."""
    plain = {name: value.value if isinstance(value, Optional) else value for name, value in _named(case)}
    return {name: value for name, value in plain.items() if name}


def _named(case: Case) -> list[tuple[str, Any]]:
    return [("" if value is None else f"x{index}", value) for index, value in enumerate(case.inputs)]


def build_model(case: Case, form: str, opset: int | None = None) -> onnx.ModelProto:
    """A model of the one node, at the opset of the revision or another."""
    schema = case.revision.schema
    attributes = {name: attribute_value(value) for name, value in case.row.attributes.items()}
    outputs = [f"y{index}" for index in range(case.row.outputs)]
    node = helper.make_node(
        schema.name, [name for name, _ in _named(case)], outputs, domain=schema.domain, **attributes
    )
    infos, constants = [], []
    for index, (name, value) in enumerate(_named(case)):
        if form == "fixed" and index and isinstance(value, np.ndarray):
            constants.append(numpy_helper.from_array(value, name))
        elif value is not None:
            infos.append(helper.make_value_info(name, _type(name, value, form == "open" and case.row.open_sizes)))
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([*case.row.before, node], "case", infos, results, constants)
    imports = {"": 21, schema.domain: opset or case.revision.opset}
    opsets = [helper.make_opsetid(domain, version) for domain, version in imports.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _type(name: str, value: Any, open_sizes: bool) -> onnx.TypeProto:
    match value:
        case Optional():
            inner = value.like if value.value is None else value.value
            return helper.make_optional_type_proto(_type(name, inner, open_sizes))
        case list():
            element = helper.np_dtype_to_tensor_dtype(value[0].dtype)
            return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element, None))
        case dict():
            key, item = next(iter(value.items()))
            return helper.make_map_type_proto(
                ELEMENT[type(key)], helper.make_tensor_type_proto(ELEMENT[type(item)], ())
            )
    shape = [f"{name}_{axis}" for axis in range(value.ndim)] if open_sizes else value.shape
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), shape)

"""Single operators through the real path: lifted, run, and compared with ONNX Runtime or the ONNX reference."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnxlift
from onnxlift.executing import TRAVELS_AS, to_numpy, to_torch

Array = np.ndarray[Any, Any]
OFFICIAL = {"rtol": 1e-3, "atol": 1e-7}


def check(
    model: onnx.ModelProto | onnx.NodeProto | Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    *,
    opset: int = 21,
    constants: Collection[str] = (),
    dynamic: bool = False,
    unranked: bool = False,
    expected: Sequence[Any] | None = None,
    reference: bool = False,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> str:
    """Lift a model, or one of the given nodes, run it, and compare every output: type, shape, numbers. Gives the
    lifted source.

    Of nodes, the outputs of the last are those of the model; `constants` names the inputs that become initialisers,
    `dynamic` leaves all sizes of the others open, and `unranked` their ranks too.

    What is expected comes from ONNX Runtime, or from the ONNX reference if `reference`, unless it is given."""
    if not isinstance(model, onnx.ModelProto):
        model = model_of(model, inputs, opset, constants, dynamic, unranked)
    fed = {value.name: np.asarray(inputs[value.name]) for value in model.graph.input if value.name in inputs}
    if expected is None:
        expected = _reference(model, fed) if reference else _onnxruntime(model, fed)
    lifted = onnxlift.lift(model)
    actual = run(lifted, list(fed.values()))
    assert len(actual) == len(expected), lifted.source
    for a, e in zip(actual, expected, strict=True):
        assert_same(a, e, rtol, atol, lifted.source)
    return lifted.source


def model_of(
    nodes: onnx.NodeProto | Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    opset: int,
    constants: Collection[str] = (),
    dynamic: bool = False,
    unranked: bool = False,
) -> onnx.ModelProto:
    """A model of the nodes. Sizes are those of `inputs`, or all open."""
    nodes = [nodes] if isinstance(nodes, onnx.NodeProto) else nodes
    infos = []
    for name, array in inputs.items():
        if name not in constants:
            shape = [f"{name}_{i}" if dynamic else size for i, size in enumerate(np.shape(array))]
            element = helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
            infos.append(helper.make_tensor_value_info(name, element, None if unranked else shape))
    outputs = [onnx.ValueInfoProto(name=name) for name in nodes[-1].output if name]
    initialisers = [numpy_helper.from_array(np.asarray(inputs[name]), name) for name in constants]
    graph = helper.make_graph(nodes, "case", infos, outputs, initialisers)
    imports = {"": opset, **{node.domain: 1 for node in nodes if node.domain}}
    opsets = [helper.make_opsetid(domain, version) for domain, version in imports.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run(lifted: onnxlift.Lifted, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of the lifted module, as numpy."""
    with torch.no_grad():
        outputs = lifted.module()(*(_to_torch(value) for value in inputs))
    return tuple(_to_numpy(value) for value in (outputs if isinstance(outputs, tuple) else (outputs,)))


def assert_same(actual: Any, expected: Any, rtol: float, atol: float, source: str = "") -> None:
    if isinstance(expected, list):
        assert isinstance(actual, list) and len(actual) == len(expected), source
        for a, e in zip(actual, expected, strict=True):
            assert_same(a, e, rtol, atol, source)
        return
    if expected is None:
        assert actual is None, source
        return
    if isinstance(expected, onnx.TensorProto):
        expected = numpy_helper.to_array(expected)
    actual, expected = np.asarray(actual), np.asarray(expected)
    expected = expected.astype(TRAVELS_AS.get(expected.dtype, expected.dtype))
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), source
    if expected.dtype == object:
        assert actual.tolist() == expected.tolist(), source
        return
    if expected.dtype.kind == "V":  # ml_dtypes
        if expected.dtype.name == "bfloat16":
            rtol = max(rtol, 2**-6)  # as the official suite has it
        actual, expected = actual.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol, err_msg=source)


def _to_torch(value: Any) -> Any:
    if value is None or isinstance(value, list):
        return None if value is None else [_to_torch(v) for v in value]
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    array = np.asarray(value)
    return array if array.dtype.kind in "OU" else to_torch(array)


def _to_numpy(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_to_numpy(v) for v in value]
    return to_numpy(value) if isinstance(value, torch.Tensor) else value


def _onnxruntime(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(inputs))


def _reference(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy, about integers that overflow
        return list(ReferenceEvaluator(model).run(None, dict(inputs)))


@lru_cache(maxsize=1)
def _official() -> list[Any]:
    """The node cases of ONNX's own suite; they are computed when they are loaded, which takes a few seconds."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy, about cases that divide by zero on purpose
        return collect_testcases(None)


def official_cases(*op_types: str, alone: bool = False) -> list[Any]:
    """The official cases whose model has a node of one of the given types (and of no other, if `alone`), as parameters
    of a test."""
    wanted = set(op_types)
    parameters = []
    for case in _official():
        found = {node.op_type for node in case.model.graph.node} if case.model is not None else set()
        if found <= wanted if alone and found else found & wanted:
            parameters.append(pytest.param(case, id=case.name))
    return parameters


def check_official(case: Any) -> str:
    """Lift an official case and compare with its outputs, as strictly as ONNX does. Gives the source."""
    lifted = onnxlift.lift(case.model)
    for inputs, outputs in case.data_sets:
        actual = run(lifted, list(inputs))
        assert len(actual) == len(outputs), lifted.source
        for a, e in zip(actual, outputs, strict=True):
            assert_same(a, e, source=lifted.source, **OFFICIAL)
    return lifted.source

"""Inference and evaluation hold for the cases of the official ONNX suite."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.backend.test.case.node import collect_testcases

from onnxlift.ir.inference.evaluate import EVALUATED, evaluate
from onnxlift.ir.inference.infer import infer, is_invented_size


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    """All node cases but those that spell out the body of a function, which have nothing new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [case for case in collect_testcases(None) if "_expanded" not in case.name]


def with_names(case: Any) -> tuple[onnx.ModelProto, dict[str, int]]:
    """The model with every size of its inputs a name of its own, and what the names stand for."""
    proto = copy.deepcopy(case.model)
    sizes: dict[str, int] = {}
    for value, array in zip(proto.graph.input, case.data_sets[0][0], strict=False):
        if value.type.WhichOneof("value") == "tensor_type" and isinstance(array, np.ndarray):
            for dim, size in zip(value.type.tensor_type.shape.dim, array.shape, strict=False):
                dim.dim_param = f"size{len(sizes)}"
                sizes[dim.dim_param] = size
    for value in proto.graph.output:
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
    return proto, sizes


def number(dim: int | str, sizes: dict[str, int]) -> int:
    return dim if isinstance(dim, int) else int(eval(dim, {"max": max, "min": min}, sizes))


def test_inferred_shapes_are_true(cases: list[Any]) -> None:
    """What is inferred from names of sizes is what the suite expects for the sizes that they stand for."""
    wrong = []
    checked = 0
    for case in cases:
        proto, sizes = with_names(case)
        try:
            model = ir.from_proto(proto)
        except ir.serde.SerdeError:
            continue  # sparse tensors, which loading makes dense
        infer(model)
        for output, array in zip(model.graph.outputs, case.data_sets[0][1], strict=False):
            if not isinstance(array, np.ndarray) or output.shape is None or not isinstance(output.type, ir.TensorType):
                continue
            checked += 1
            shape = [d if isinstance(d, int) else d.value or "" for d in output.shape]
            actual = [
                size if is_invented_size(str(d)) else number(d, sizes)
                for d, size in zip(shape, array.shape, strict=False)
            ]
            same_type = array.dtype == object or output.type.dtype.numpy() == array.dtype
            if len(shape) != array.ndim or tuple(actual) != array.shape or not same_type:
                wrong.append((case.name, str(output), array.shape, array.dtype))
    assert wrong == []
    assert checked > 1000


def test_evaluated_nodes_have_the_expected_value(cases: list[Any]) -> None:
    """A node that numpy evaluates has the value that the suite expects, whatever its operator set."""
    evaluated = set()
    for case in cases:
        graph = case.model.graph
        if len(graph.node) != 1 or graph.node[0].op_type not in EVALUATED or graph.node[0].domain:
            continue
        given, (expected, *_) = case.data_sets[0]
        arrays = dict(zip([value.name for value in graph.input], given, strict=True))
        if not all(isinstance(array, np.ndarray | np.generic) for array in [*given, expected]):
            continue
        model = ir.from_proto(case.model)
        node = model.graph[0]
        opset = model.opset_imports.get("", 1)
        inputs = [None if value is None else np.asarray(arrays[value.name or ""]) for value in node.inputs]
        result = evaluate(node, opset, inputs)
        if result is not None:
            evaluated.add(node.op_type)
            assert result.dtype == expected.dtype, case.name
            assert result.shape == expected.shape, case.name
            assert_close(result, expected, case.name)
    # The suite has casts as protos, and reduces floats only, whose order of summation is left to the running model.
    assert evaluated == EVALUATED - {"Cast", "CastLike", "ReduceProd", "ReduceSum"}


def assert_close(result: Any, expected: Any, name: str) -> None:
    if expected.dtype.kind in "fV":
        result, expected = result.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-7, err_msg=name)
    else:
        np.testing.assert_array_equal(result, expected, err_msg=name)

"""ONNX's backend interface."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import onnxlift
from onnxlift import backend


def model() -> onnx.ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["a", "b"], ["sum"]),
            helper.make_node("Cast", ["sum"], ["small"], to=TensorProto.INT4),
        ],
        "add",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "ab"],
        [
            helper.make_tensor_value_info("sum", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("small", TensorProto.INT4, [2, 3]),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


A = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_run_model_takes_a_list_or_names() -> None:
    for inputs in ([A, -2 * A], {"b": -2 * A, "a": A}):
        outputs = backend.run_model(model(), inputs)
        np.testing.assert_array_equal(outputs["sum"], -A)
        assert outputs[1].dtype == helper.tensor_dtype_to_np_dtype(TensorProto.INT4)
        np.testing.assert_array_equal(outputs[1].astype(np.float32), -A)


def test_a_prepared_model_runs_again() -> None:
    prepared = backend.prepare(model(), "CPU")
    for factor in (1, 3):
        np.testing.assert_array_equal(prepared.run([A, factor * A])[0], (factor + 1) * A)


def test_run_node() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"])
    expected = np.exp(A) / np.exp(A).sum(1, keepdims=True)
    (result,) = backend.run_node(node, [A])
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    old = helper.make_node("Softmax", ["x"], ["y"], axis=0)
    (result,) = backend.run_node(old, [A], opset_version=11)
    np.testing.assert_allclose(result, np.exp(A) / np.exp(A).sum(), rtol=1e-6)


def test_run_node_of_another_domain() -> None:
    with pytest.raises(onnxlift.UnsupportedError, match=r"com\.acme"):
        backend.run_node(helper.make_node("MelBank", ["x"], ["y"], domain="com.acme"), [A])


def test_what_is_supported() -> None:
    assert backend.is_compatible(model())
    unknown = model()
    unknown.graph.node[0].op_type = "Frobnicate"
    unknown.graph.node[0].domain = "com.acme"
    unknown.opset_import.append(helper.make_opsetid("com.acme", 1))
    assert not backend.is_compatible(unknown)
    assert backend.supports_device("CPU")
    assert backend.supports_device("CUDA:0") == torch.cuda.is_available()
    assert not backend.supports_device("TPU")

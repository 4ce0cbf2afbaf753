"""Steps of optimisers, and gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnxlift
from lifting.ops.checking import check, check_official, official_cases

TRAINING = "ai.onnx.preview.training"


@pytest.mark.parametrize("case", official_cases("Adagrad", "Adam", "Momentum"))
def test_official(case: Any) -> None:
    check_official(case)


STEPS = {
    "Adagrad": (3, {"decay_factor": 0.1, "norm_coefficient": 0.02, "epsilon": 1e-3}),
    "Adam": (4, {"alpha": 0.8, "beta": 0.95, "norm_coefficient": 0.02, "norm_coefficient_post": 0.01}),
    "Momentum": (3, {"alpha": 0.9, "beta": 0.7, "norm_coefficient": 0.02, "mode": "nesterov"}),
}


@pytest.mark.parametrize("op", STEPS)
@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shapes", [[(2, 3)], [(), (4,)]])
def test_steps(op: str, count: int, dtype: Any, shapes: list[tuple[int, ...]]) -> None:
    kinds, attributes = STEPS[op]
    rng = np.random.default_rng(count)
    inputs = {"rate": np.array(0.1, dtype), "count": np.array(count)}
    for kind in range(kinds):
        for i, shape in enumerate(shapes):
            inputs[f"{'xgvh'[kind]}{i}"] = np.asarray(rng.uniform(0.1, 1, shape), dtype)
    outputs = [f"y{i}" for i in range(len(shapes) * (kinds - 1))]
    node = helper.make_node(op, list(inputs), outputs, domain=TRAINING, **attributes)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()
    ]
    graph = helper.make_graph([node], op.lower(), infos, [onnx.ValueInfoProto(name=name) for name in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(TRAINING, 1)], ir_version=10)
    expected = [np.asarray(y, dtype) for y in onnx.reference.ReferenceEvaluator(model).run(None, inputs)]
    check(model, inputs, expected=expected)


def official_gradients() -> list[Any]:
    from onnx.backend.test.case.model import collect_testcases

    cases = [case for case in collect_testcases() if case.name.startswith("test_gradient")]
    return [pytest.param(case, id=case.name) for case in cases]


@pytest.mark.parametrize("case", official_gradients())
def test_official_gradients(case: Any) -> None:
    check_official(case)


def gradient_model(nodes: list[onnx.NodeProto], outputs: list[str], weights: Mapping[str, Any]) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"])
    initialisers = [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in weights.items()]
    graph = helper.make_graph(
        nodes, "gradients", [x], [onnx.ValueInfoProto(name=name) for name in outputs], initialisers
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(TRAINING, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def gradient(inputs: list[str], outputs: list[str], xs: list[str], y: str, **more: Any) -> onnx.NodeProto:
    return helper.make_node("Gradient", inputs, outputs, domain=TRAINING, xs=xs, y=y, **more)


CUBE = [
    helper.make_node("Mul", ["x", "x"], ["square"]),
    helper.make_node("Mul", ["square", "x"], ["cube"]),
    helper.make_node("Mul", ["cube", "w"], ["y"]),
]
X, W = np.array([1.0, -2.0, 0.5], np.float32), np.array([2.0, 3.0, 5.0], np.float32)


def test_gradient_of_a_value_that_nobody_else_reads() -> None:
    """By an input and by a weight; of all elements together."""
    model = gradient_model([*CUBE, gradient(["x", "w"], ["dx", "dw"], ["x", "w"], "y")], ["dx", "dw"], {"w": W})
    source = check(model, {"x": X}, expected=[3 * X * X * W, X**3])
    assert "self.w = nn.Parameter" in source


def test_gradient_of_a_gradient() -> None:
    nodes = [*CUBE, gradient(["x"], ["dx"], ["x"], "y"), gradient(["x"], ["ddx"], ["x"], "dx")]
    nodes.append(gradient(["x"], ["dddx"], ["x"], "ddx"))
    model = gradient_model(nodes, ["ddx", "dddx"], {"w": W})
    check(model, {"x": X}, expected=[6 * X * W, 6 * W])


def test_gradient_elsewhere() -> None:
    """At another point than where `y` was computed, by an intermediate value, by one that `y` does not depend on."""
    nodes = [*CUBE, helper.make_node("Add", ["x", "x"], ["twice"])]
    nodes.append(gradient(["twice", "w"], ["at_twice"], ["x"], "y", zs=["w"]))
    nodes.append(gradient(["twice", "x"], ["by_square", "by_x"], ["square", "x"], "cube"))
    nodes.append(gradient(["x", "twice"], ["by_itself", "none"], ["x", "twice"], "cube"))
    model = gradient_model(nodes, ["at_twice", "by_square", "by_x", "by_itself", "none"], {"w": W})
    check(model, {"x": X}, expected=[12 * X * X * W, X, 2 * X, 3 * X * X, 0 * X])


@pytest.mark.parametrize("target", ["z", b"\xff\xfe"], ids=["no value", "no text"])
def test_gradient_of_nothing(target: str | bytes) -> None:
    node = gradient(["x"], ["dx"], ["x"], "z")
    node.attribute[1].s = target.encode() if isinstance(target, str) else target
    model = gradient_model([*CUBE, node], ["y", "dx"], {"w": W})
    with pytest.raises(onnxlift.UnsupportedError, match="not in the graph"):
        onnxlift.lift(model)


def test_nested_gradients_end() -> None:
    nodes = [*CUBE, gradient(["x"], ["d0"], ["x"], "y")]
    nodes += [gradient(["x"], [f"d{i + 1}"], ["x"], f"d{i}") for i in range(40)]
    with pytest.raises(onnxlift.LoadError, match="nested too deep"):
        onnxlift.lift(gradient_model(nodes, ["d40"], {"w": W}))

"""Steps of optimisers, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from checking import check, check_official, official_cases
from onnx import helper

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
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()]
    graph = helper.make_graph([node], op.lower(), infos, [onnx.ValueInfoProto(name=name) for name in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(TRAINING, 1)], ir_version=10)
    expected = [np.asarray(y, dtype) for y in onnx.reference.ReferenceEvaluator(model).run(None, inputs)]
    check(model, inputs, expected=expected)

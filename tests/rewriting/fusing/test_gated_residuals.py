"""A gate that is added to what it gates counts from one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import onnxlift
from workbench.running import assert_same, model_of, operators

RANDOM = np.random.default_rng(8)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(shape).astype(np.float32)


WEIGHTS = {"w": normal(4, 4, 1, 1), "b": normal(4), "t": normal(4, 4, 1, 1), "half": np.array(0.5, np.float32)}
X = normal(2, 4, 6, 5)
GATE = "p = GlobalAveragePool(x) z = Conv(p, w, b) g = HardSigmoid(z)"
NODES = f"{GATE} m = Mul(x, g) y = Add(x, m)"
FUSED = ["GlobalAveragePool", "Conv", "Clip", "Mul"]


def check(nodes: str, outputs: str = "float[p0, q, r, s] y", inputs: str = "float[n, 4, h, v] x", opset: int = 18):
    used = {*re.findall(r"\w+", nodes)} - {*re.findall(r"\w+", inputs)}
    model = model_of(f"({inputs}) => ({outputs}) {{ {nodes} }}", {n: a for n, a in WEIGHTS.items() if n in used}, opset)
    result = onnxlift.simplify(model, verify=False).proto()
    given = {"x": X, "k": normal(2, 4, 6, 5), "w": WEIGHTS["w"]}
    assert_same(model, result, {name: array for name, array in given.items() if f"] {name}" in inputs})
    return operators(result)


@pytest.mark.parametrize(
    "nodes",
    [
        NODES,
        NODES.replace("Mul(x, g)", "Mul(g, x)").replace("Add(x, m)", "Add(m, x)"),
        NODES.replace("HardSigmoid(", "HardSigmoid<alpha = 0.3, beta = 0.1>("),
        NODES.replace("Conv(p, w, b)", "Conv(p, w)"),
        NODES.replace("Conv(p, w, b)", "ConvTranspose(p, t, b)"),
    ],
    ids=["plain", "other orders", "slope", "no bias", "transposed"],
)
def test_gates_count_from_one(nodes: str) -> None:
    assert [name.replace("Transpose", "") for name in check(nodes)] == FUSED


@pytest.mark.parametrize("opset", [7, 10, 11, 20])
def test_opsets(opset: int) -> None:
    assert check(NODES, opset=opset) == FUSED


@pytest.mark.parametrize(
    ("nodes", "outputs", "inputs"),
    [
        (NODES.replace("Add(x, m)", "Add(k, m)"), "float[p0, q, r, s] y", "float[n, 4, h, v] x, float[n, 4, h, v] k"),
        (NODES, "float[p0, q, r, s] y, float[a, b0, c, d] m", "float[n, 4, h, v] x"),
        (NODES, "float[p0, q, r, s] y, float[a, b0, c, d] g", "float[n, 4, h, v] x"),
        (NODES, "float[p0, q, r, s] y, float[a, b0, c, d] z", "float[n, 4, h, v] x"),
        (NODES, "float[p0, q, r, s] y", "float[n, 4, h, v] x, float[4, 4, 1, 1] w"),
        (NODES.replace("HardSigmoid", "Sigmoid"), "float[p0, q, r, s] y", "float[n, 4, h, v] x"),
        (NODES.replace("z = Conv(p, w, b)", "z = Mul(p, half)"), "float[p0, q, r, s] y", "float[n, 4, h, v] x"),
    ],
    ids=["another value", "product read", "gate read", "convolution read", "weight given", "sigmoid", "no convolution"],
)
def test_others_stay(nodes: str, outputs: str, inputs: str) -> None:
    found = check(nodes, outputs, inputs)
    assert found[-2:] == ["Mul", "Add"] and "Clip" not in found


def test_half_precision_stays() -> None:
    half = {name: array.astype(np.float16) for name, array in WEIGHTS.items() if name in "wb"}
    model = model_of(f"(float16[n, 4, h, v] x) => (float16[p0, q, r, s] y) {{ {NODES} }}", half)
    assert operators(onnxlift.simplify(model, verify=False).proto())[-2:] == ["Mul", "Add"]

"""Initial states of zeros are left out, others stay."""

from __future__ import annotations

import numpy as np
import pytest

import onnxlift
from workbench.running import assert_same, model_of

RANDOM = np.random.default_rng(6)
WEIGHTS = {
    "w": RANDOM.standard_normal((1, 12, 4)).astype(np.float32),
    "r": RANDOM.standard_normal((1, 12, 3)).astype(np.float32),
    "rest": np.array([3]),
    "one": np.array([1]),
    "axis": np.array([0]),
    "nought": np.array(0, np.float32),
    "some": np.array([0.5], np.float32),
    "many": np.array([[[0, 0, 1]]], np.float32),
}
STATE = "s = Shape <start = 1, end = 2> (x) size = Concat <axis = 0> (s, rest) e = Expand({}, size) "
STATE += "h = Unsqueeze(e, axis) y, z, c = LSTM <hidden_size = 3> (x, w, r, , , {}, {})"


def check(filler: str, hidden: str, cell: str) -> list[str]:
    weights = {name: value for name, value in WEIGHTS.items() if name in f"w r rest axis {filler} {hidden} {cell}"}
    nodes = STATE.format(filler, hidden, cell)
    model = model_of(f"(float[t, n, 4] x) => (float[t, 1, n, 3] y, float[1, n, 3] c) {{ {nodes} }}", weights)
    result = onnxlift.simplify(model, verify=False).proto()
    batch = 1 if cell == "many" else 2
    assert_same(model, result, {"x": RANDOM.standard_normal((5, batch, 4)).astype(np.float32)})
    return [name for node in result.graph.node if node.op_type == "LSTM" for name in node.input]


def test_states_of_zeros_are_left_out() -> None:
    assert len(check("nought", "h", "h")) == 3


@pytest.mark.parametrize(("filler", "hidden", "cell"), [("some", "h", "h"), ("nought", "h", "many")])
def test_other_states_stay(filler: str, hidden: str, cell: str) -> None:
    inputs = check(filler, hidden, cell)
    assert len(inputs) == 7 and inputs[6]

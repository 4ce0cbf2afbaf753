"""The first step of a loop over a recurrent cell, whose product with a state of zeros the exporter has computed."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from onnxlift.api import lift
from onnxlift.ir.load import load
from onnxlift.rewriting.restoring import first_steps
from rewriting.running_stages import normalise

BIAS = np.float32([1, 2, 3, 4, 5, 6])


def products(computed: Any, owner: str = "cell") -> int:
    """How many products there are where there were two, `computed + x @ weight_ih + bias_ih` and one with weight_hh."""
    text = f"""g (float[2, 4] x) => (float[2, 6] z) {{
        p = Gemm <transB = 1> (x, "cell.weight_ih", "cell.bias_ih") s = Add(linear_1, p) y = Tanh(s)
        z = Gemm <transB = 1> (y, "{owner}.weight_hh", "{owner}.bias_hh") }}"""
    proto = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {text}')
    shapes = {"cell.weight_ih": (6, 4), "cell.bias_ih": (6,), f"{owner}.weight_hh": (6, 6)}
    arrays = {name: np.random.default_rng(1).random(shape, np.float32) for name, shape in shapes.items()}
    arrays |= {f"{owner}.bias_hh": BIAS, "linear_1": np.float32(computed)}
    for name, array in arrays.items():
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    model = load(proto)
    normalise(model)
    return [node.op_type for node in model.graph].count("Gemm")


def test_the_product_comes_back() -> None:
    assert products([BIAS, BIAS]) == 3


def test_other_numbers_are_somebody_elses() -> None:
    assert products([BIAS, 2 * BIAS]) == 2


def test_the_parameters_are_of_one_cell() -> None:
    assert products([BIAS, BIAS], owner="other") == 2


def hostile(computed: tuple[int, int], matrix: tuple[int, int], bias: tuple[int, ...]) -> list[str]:
    """The operators of a graph with constants of these shapes, all zeros."""
    rows, width = computed
    text = f"""g (float[{rows}, 4] x) => (float[{rows}, {width}] y) {{
        p = Gemm <transB = 1> (x, "cell.weight_ih", "cell.bias_ih") y = Add(linear_1, p) }}"""
    proto = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {text}')
    shapes = {"weight_ih": (width, 4), "bias_ih": (width,), "weight_hh": matrix, "bias_hh": bias}
    for name, shape in {**{f"cell.{name}": shape for name, shape in shapes.items()}, "linear_1": computed}.items():
        proto.graph.initializer.append(numpy_helper.from_array(np.zeros(shape, np.float32), name))
    model = load(proto)
    first_steps.run(model)
    return [node.op_type for node in model.graph]


def test_zeros_that_would_need_more_memory_than_the_file_has() -> None:
    assert hostile((30, 1), (1, 30), (1,)).count("Gemm") == 2
    assert hostile((3000, 1), (1, 3000), (1,)).count("Gemm") == 1


def test_a_bias_that_does_not_fit() -> None:
    assert hostile((2, 6), (6, 6), (5,)).count("Gemm") == 1


class Loop(nn.Module):
    def __init__(self, kind: type[nn.Module], bias: bool) -> None:
        super().__init__()
        self.cell = kind(4, 6, bias=bias)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        state: Any = torch.zeros(2, 6)
        state = (state, state) if isinstance(self.cell, nn.LSTMCell) else state
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.head(state[0] if isinstance(state, tuple) else state)


@pytest.mark.parametrize("kind", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
@pytest.mark.parametrize("bias", [True, False])
def test_a_loop_over_a_cell_has_its_keys(tmp_path: Path, kind: type[nn.Module], bias: bool) -> None:
    torch.manual_seed(4)
    model, x = Loop(kind, bias).eval(), torch.randn(2, 3, 4)
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(model, (x,), tmp_path / "m.onnx", dynamo=True, verbose=False, external_data=False)
    lifted = lift(tmp_path / "m.onnx")
    module = lifted.module()
    module.load_state_dict(model.state_dict(), strict=True)
    assert isinstance(module.cell, kind) and "zeros" not in lifted.source
    torch.testing.assert_close(module(x), model(x))

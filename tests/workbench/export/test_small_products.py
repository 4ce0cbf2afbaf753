"""Products of one row become sums where sizes are fixed, and stay what they are elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from onnxlift.workbench.export.small_products import write_small_products_as_sums

SMALL = {
    "linear": (nn.Linear(6, 5), (1, 6)),
    "linear without a bias": (nn.Linear(6, 5, bias=False), (1, 1, 6)),
    "linear of a vector": (nn.Linear(6, 5), (6,)),
    "linear in double precision": (nn.Linear(6, 5).double(), (1, 6)),
    "conv1d": (nn.Conv1d(4, 3, 1), (1, 4, 1)),
    "conv2d": (nn.Conv2d(4, 3, 1), (1, 4, 1, 1)),
    "conv2d with a stride": (nn.Conv2d(4, 3, 1, stride=2, bias=False), (1, 4, 1, 1)),
    "conv3d": (nn.Conv3d(4, 3, 1), (1, 4, 1, 1, 1)),
}
OTHER = {
    "two rows": (nn.Linear(6, 5), (2, 6)),
    "two positions": (nn.Conv2d(4, 3, 1), (1, 4, 1, 2)),
    "two samples": (nn.Conv2d(4, 3, 1), (2, 4, 1, 1)),
    "no sample": (nn.Conv2d(4, 3, 1), (0, 4, 1, 1)),
    "no batch": (nn.Conv2d(4, 3, 1), (4, 1, 1)),
    "a larger kernel": (nn.Conv2d(4, 3, 3, padding=1), (1, 4, 1, 1)),
    "padding": (nn.Conv2d(4, 3, 1, padding=1), (1, 4, 1, 1)),
    "groups": (nn.Conv2d(4, 4, 1, groups=2), (1, 4, 1, 1)),
    "half precision": (nn.Linear(6, 5).bfloat16(), (1, 6)),
}


def _input(layer: nn.Module, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.manual_seed(0)).to(next(layer.parameters()).dtype)


def _operators(program: Any) -> set[str]:
    return {str(node.target) for node in program.graph.nodes if node.op == "call_function"}


@pytest.mark.parametrize("name", SMALL)
@torch.no_grad()
def test_products_of_one_row_are_sums(name: str) -> None:
    layer, shape = SMALL[name]
    x = _input(layer, shape)
    program = export(layer, (x,))
    assert write_small_products_as_sums(program) == 1
    assert not any("linear" in operator or "conv" in operator for operator in _operators(program))
    torch.testing.assert_close(program.module()(x), layer(x))


@pytest.mark.parametrize("name", OTHER)
@torch.no_grad()
def test_others_stay(name: str) -> None:
    layer, shape = OTHER[name]
    program = export(layer, (_input(layer, shape),))
    before = _operators(program)
    assert write_small_products_as_sums(program) == 0
    assert _operators(program) == before


@torch.no_grad()
def test_an_open_number_of_rows_stays() -> None:
    program = export(nn.Linear(6, 5), (torch.randn(3, 6),), dynamic_shapes=({0: Dim("rows")},))
    assert write_small_products_as_sums(program) == 0

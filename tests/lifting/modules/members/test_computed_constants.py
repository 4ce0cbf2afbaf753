"""Constants that a line of code makes: positions, triangles, one number throughout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnxlift
from small_graphs import Graph, code

LOWEST = float(np.finfo(np.float32).min)
INFINITY = np.full((3, 4), -np.inf, np.float32)


def lifted(constant: Any, name: str = "onnx::Constant_7") -> onnxlift.Lifted:
    """A model that reads a constant beside a parameter: as indices, as a condition, or as a summand."""
    g = Graph()
    array = np.asarray(constant)
    kept = g.constant(name, array)
    if array.dtype.kind == "i":
        y = g.node("Gather", g.weight("table.weight", 9, 2), kept)
        return g.lift(g.node("Add", y, g.input("x", "n", *[1] * array.ndim, 2)))
    x = g.node("Mul", g.input("x", "n", *[1] * array.ndim), g.weight("scale", *array.shape))
    zero = g.constant("onnx::Where_9", np.float32(0))
    return g.lift(g.node("Where", kept, x, zero) if array.dtype.kind == "b" else g.node("Add", x, kept))


@pytest.mark.parametrize(
    ("constant", "line"),
    [
        (np.arange(5), "torch.arange(5, device=x.device)"),
        (np.arange(5)[None], "torch.arange(5, device=x.device).unsqueeze(0)"),
        (np.arange(5)[:, None], "torch.arange(5, device=x.device).unsqueeze(1)"),
        (
            np.arange(5, dtype=np.int32)[None, :, None],
            "torch.arange(5, dtype=torch.int32, device=x.device).view(1, -1, 1)",
        ),
        (np.arange(5, dtype=np.float32), "torch.arange(5, dtype=torch.float32, device=x.device)"),
        (np.tri(3, 4, dtype=bool), "torch.ones(3, 4, dtype=torch.bool, device=x.device).tril()"),
        (np.tri(3, 4, 1, dtype=bool)[None], "torch.ones(1, 3, 4, dtype=torch.bool, device=x.device).tril(1)"),
        (np.triu(INFINITY, 1), 'torch.full((3, 4), float("-inf"), device=x.device).triu(1)'),
        (np.tril(np.full((3, 4), -2, np.float32), -1), "torch.full((3, 4), -2.0, device=x.device).tril(-1)"),
        (np.zeros((2, 3), np.int64), "torch.zeros(2, 3, dtype=torch.int64, device=x.device)"),
        (np.full((2, 3), 7), "torch.full((2, 3), 7, dtype=torch.int64, device=x.device)"),
        (np.ones((2, 3), bool), None),
        (np.eye(5, dtype=np.float32), "torch.eye(5, device=x.device)"),
        (np.eye(3, 4, dtype=np.float32)[None], "torch.eye(3, 4, device=x.device).unsqueeze(0)"),
        (np.eye(3, dtype=np.float32)[None, None], "torch.eye(3, device=x.device).view(1, 1, 3, 3)"),
        (np.eye(3, dtype=np.float32).reshape(9), "torch.eye(3, device=x.device).flatten()"),
        (np.eye(3, dtype=np.float32).reshape(1, 9), "torch.eye(3, device=x.device).view(1, -1)"),
        (np.eye(4, dtype=np.int64), "torch.eye(4, dtype=torch.int64, device=x.device)"),
        (np.eye(4, dtype=bool), "torch.eye(4, dtype=torch.bool, device=x.device)"),
        (~np.eye(4, dtype=bool), "~torch.eye(4, dtype=torch.bool, device=x.device)"),
        (np.array(np.tril_indices(4, -1)), "torch.tril_indices(4, 4, -1, device=x.device)"),
        (np.array(np.triu_indices(4)), "torch.triu_indices(4, 4, device=x.device)"),
        (np.array(np.triu_indices(4, 1)).T.copy(), "torch.triu_indices(4, 4, 1, device=x.device).T"),
    ],
)
def test_what_a_line_makes_is_not_stored(constant: Any, line: str | None) -> None:
    source = code(lifted(constant))
    assert "register_buffer" not in source, source
    assert line is None or line in source, source


@pytest.mark.parametrize(
    "constant",
    [
        np.array([0, 1]),
        np.array([0, 1, 2, 4]),
        np.array([1, 2, 3, 4]),
        np.array([[0, 1, 2], [0, 1, 2]]),
        np.array([-0.0, 1, 2, 3], np.float32),
        np.tri(3, 4, 2, dtype=bool),
        np.tri(2, 2, dtype=bool),
        np.triu(np.full((3, 4), -2, np.float32), 1) - np.triu(np.ones((3, 4), np.float32), 3),
        np.where(np.tri(3, 4, dtype=bool), np.float32(-0.0), np.float32(LOWEST)),
        np.full((3, 4), 2, np.float32),
        np.eye(2, dtype=np.float32),
        np.eye(4, dtype=np.float32)[:, None],
        np.eye(4, dtype=np.float32) * 2,
        np.eye(4, k=1, dtype=np.float32),
        np.eye(3, 4, dtype=np.float32).reshape(12),
        np.array(np.tril_indices(4, -2)),
        np.array(np.tril_indices(4, -1))[:, :-1],
        np.array(np.tril_indices(4, -1))[:, ::-1].copy(),
        np.array([[8, 0, 1], [0, 1, 2]]),
    ],
    ids=(
        "short|jump|start|matrix|sign|diagonal|small|corner|zeros|floats|small identity|axis between"
        "|twice|beside|rows of others|few|one less|backwards|places"
    ).split("|"),
)
def test_what_it_would_not_make_exactly_is_stored(constant: Any) -> None:
    source = code(lifted(constant))
    assert "register_buffer" in source or "Parameter" in source.replace("self.scale = nn.Parameter", ""), source


def test_a_buffer_with_a_name_is_kept() -> None:
    assert 'register_buffer("position_ids"' in code(lifted(np.arange(5), "position_ids"))


def test_a_matrix_of_floats_may_be_a_weight_that_is_not_trained() -> None:
    g = Graph()
    kept = g.constant("onnx::MatMul_7", np.eye(4, dtype=np.float32))
    lifted = g.lift(g.node("MatMul", g.node("Mul", g.input("x", "n", 4), g.weight("scale", 4)), kept))
    assert "eye" not in code(lifted)

"""Ranks may become known after the rules were checked: an axis that cannot be is no pattern, and no crash."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.indexing import assigned_parts, gathered_slices, unbind
from rewriting.idioms.recognising import parse
from rewriting.running_stages import normalise

THREE = {name: np.array(i) for i, name in enumerate("ijk")}


def late(text: str, shape: list[int], value: str, **initialisers: object) -> ir.Model:
    """A graph in normal form in which the shape of a value becomes known afterwards."""
    graph = load(parse(text, **initialisers))
    normalise(graph)
    for node in graph.graph:
        for output in node.outputs:
            if output.name == value:
                output.shape = ir.Shape(shape)
    return graph


@pytest.mark.parametrize("shape", [[], [3], [3, 3]])
@pytest.mark.parametrize("axis", [2, -3])
def test_entries(axis: int, shape: list[int]) -> None:
    entries = " ".join(f"{out} = Gather <axis = {axis}> (y, {i})" for out, i in zip("abc", "ijk", strict=True))
    graph = late(f"g (float[] x) => (a, b, c) {{ y = Neg(x) {entries} }}", shape, "y", **THREE)
    assert unbind.run(graph) == 0


@pytest.mark.parametrize("shape", [[], [2], [2, 6]])
def test_slices(shape: list[int]) -> None:
    text = """g (float[] x, int64[3] i) => (z) {
        y = Neg(x) u = Unsqueeze(i, outer) w = Expand(u, wide) z = GatherElements <axis = 2> (y, w) }"""
    graph = late(text, shape, "y", outer=np.array([0, 1]), wide=np.array([2, 6, 3]))
    assert gathered_slices.run(graph) == 0


def test_slices_by_indices_of_another_rank() -> None:
    text = """g (float[2, 6, 5] y, int64[3] i, int64[k] wide) => (z) {
        u = Unsqueeze(i, outer) w = Expand(u, wide) z = GatherElements <axis = 2> (y, w) }"""
    graph = late(text, [2, 6, 3, 3], "w", outer=np.array([0, 1]))
    assert gathered_slices.run(graph) == 0


@pytest.mark.parametrize("shape", [[], [2], [2, 6]])
def test_assigned_elements(shape: list[int]) -> None:
    text = "g (float[] x, float[2, 1] u) => (z) { y = Neg(x) z = ScatterElements <axis = 3> (y, i, u) }"
    assert assigned_parts.run(late(text, shape, "y", i=np.array([[1], [1]]))) == 0

"""A lifted module is one that torch can compile as a whole and export again, with every free size still free."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
import torch
from torch.export import Dim

import onnxlift
from models import Example
from models.every import EXAMPLES
from models.running import Outputs, assert_close, run_torch

# What is left out decides by its values which code runs, which no single graph can hold.
ONE_GRAPH = [example for example in EXAMPLES if not example.data_dependent]
QUICK_TO_COMPILE = [example for example in EXAMPLES if example.name in ("mlp_script", "transformer_block")]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    """Keep one test's compiled code, and its count of recompilations, from the next."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.parametrize("example", ONE_GRAPH, ids=str, indirect=True)
def test_compiles_as_one_graph(example: Example, lifted: onnxlift.Lifted, expected: list[Outputs]) -> None:
    compiled = torch.compile(lifted.module(), fullgraph=True, backend="eager")
    for inputs, outputs in zip(example.samples(), expected, strict=True):
        assert_close(run_torch(compiled, inputs), outputs)


@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.parametrize("example", QUICK_TO_COMPILE, ids=str, indirect=True)
def test_compiles_to_machine_code(example: Example, lifted: onnxlift.Lifted, expected: list[Outputs]) -> None:
    compiled = torch.compile(lifted.module(), fullgraph=True)
    for inputs, outputs in zip(example.samples(), expected, strict=True):
        assert_close(run_torch(compiled, inputs), outputs)


@pytest.mark.parametrize("example", ONE_GRAPH, ids=str, indirect=True)
def test_exports_with_free_sizes(
    example: Example, path: Path, lifted: onnxlift.Lifted, expected: list[Outputs]
) -> None:
    _, traced, other = example.samples()  # torch.export takes a size of one for a constant
    arguments = tuple(map(torch.from_numpy, traced.values()))
    program = torch.export.export(lifted.module(), arguments, dynamic_shapes=_free_sizes(path))
    assert_close(run_torch(program.module(), traced), expected[1])
    assert_close(run_torch(program.module(), other), expected[2])


def _free_sizes(path: Path) -> tuple[dict[int, object], ...]:
    """For each input, the axes that the model declares symbolic. DYNAMIC refuses to make a constant of one."""
    inputs = onnx.load(path).graph.input
    shapes = ([dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in inputs)
    return tuple({axis: Dim.DYNAMIC for axis, symbol in enumerate(shape) if symbol} for shape in shapes)

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
from models.running import Outputs, assert_close, run_onnxruntime, run_torch

ONE_GRAPH = [example for example in EXAMPLES if not example.data_dependent]
QUICK_TO_COMPILE = [example for example in EXAMPLES if example.name in ("mlp_script", "transformer_block")]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    """Keep one test's compiled code from the next, and let recurrent layers in, for which torch wants to be asked."""
    torch.compiler.reset()
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


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
def test_exports_with_free_sizes(example: Example, path: Path, lifted: onnxlift.Lifted) -> None:
    _, shown, other = example.samples()  # the first is a batch of one, which torch.export would take for a constant
    if example.recurrent:
        other = {name: array[:, : shown[name].shape[1]] for name, array in other.items()}
    arguments = tuple(map(torch.from_numpy, shown.values()))
    program = torch.export.export(lifted.module(), arguments, dynamic_shapes=_free_sizes(path, example)).module()
    for inputs, outputs in zip((shown, other), run_onnxruntime(path, (shown, other)), strict=True):
        assert_close(run_torch(program, inputs), outputs)


def _free_sizes(path: Path, example: Example) -> tuple[dict[int, object], ...]:
    """For each input, the axes that the model leaves free. Torch raises an error if it has to make one constant."""
    inputs = onnx.load(path).graph.input
    shapes = ([dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in inputs)
    fixed = {"", "sequence"} if example.recurrent else {""}
    return tuple({axis: Dim.DYNAMIC for axis, size in enumerate(shape) if size not in fixed} for shape in shapes)

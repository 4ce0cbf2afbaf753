"""There and back again: a lifted module is exported with every free size free, ONNX Runtime computes the same of the
new file, and that lifts to the source that it was exported from.

The exporter loses two things on the way, which the first source is compared without:
1. The names of values. Their author's words would be variables, and reasons not to inline (`without_value_names`).
2. Boolean masks of attention. It makes them numbers, of which the lowest stands for False, and which mean something
   else where a row has no True; so they can't be taken for boolean ones again (`BOOLEAN_MASK`).
"""

from __future__ import annotations

import warnings
from pathlib import Path

import onnx
import pytest
import torch

import onnxlift
from models import Example
from models.every import EXAMPLES
from models.running import assert_close, run_onnxruntime

ONE_GRAPH = [example for example in EXAMPLES if not example.data_dependent]
BATCH_NORMS = ("tiny_resnet", "cnn", "mobilenet")  # which the exporter folds into convolutions if it is to optimise
BOOLEAN_MASK = "        mask = torch.where(mask, 0.0, torch.finfo(torch.float32).min)\n"


@pytest.fixture(scope="module")
def again(example: Example, path: Path, lifted: onnxlift.Lifted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the lifted module, exported anew."""
    graph = onnx.load(path).graph
    names = {"input_names": [v.name for v in graph.input], "output_names": [v.name for v in graph.output]}
    arguments = tuple(map(torch.from_numpy, example.samples()[1].values()))
    options = {"optimize": example.model not in BATCH_NORMS, "verbose": False}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        shapes = _free_sizes(graph, example)
        exported = torch.onnx.export(lifted.module(), arguments, dynamic_shapes=shapes, dynamo=True, **names, **options)
    file = tmp_path_factory.mktemp("again") / path.name
    onnx.save(exported.model_proto, file)
    return file


def _free_sizes(graph: onnx.GraphProto, example: Example) -> tuple[dict[int, str], ...]:
    """For each input, the axes that the model leaves free and their names, but time where torch.export unrolls it."""
    shapes = ([dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in graph.input)
    fixed = {"", "sequence"} if example.recurrent else {""}
    return tuple({axis: size for axis, size in enumerate(shape) if size not in fixed} for shape in shapes)


@pytest.mark.parametrize("example", ONE_GRAPH, ids=str, indirect=True)
def test_the_new_file_computes_the_same(example: Example, path: Path, again: Path) -> None:
    _, shown, other = example.samples()
    if example.recurrent:
        other = {name: array[:, : shown[name].shape[1]] for name, array in other.items()}
    for actual, expected in zip(*(run_onnxruntime(file, (shown, other)) for file in (again, path)), strict=True):
        assert_close(actual, expected)


@pytest.mark.parametrize("example", ONE_GRAPH, ids=str, indirect=True)
def test_the_new_file_lifts_to_the_same_source(example: Example, path: Path, again: Path) -> None:
    first = onnxlift.lift(without_value_names(onnx.load(path)), name=example.model)
    assert code(onnxlift.lift(again, name=example.model)) == code(first)


@pytest.mark.parametrize("example", ONE_GRAPH, ids=str, indirect=True)
def test_the_new_file_lifts_to_the_same_parameters(lifted: onnxlift.Lifted, again: Path) -> None:
    ours, theirs = (
        {name: array.shape for name, array in each.state_dict.items()} for each in (onnxlift.lift(again), lifted)
    )
    assert ours == theirs


def code(lifted: onnxlift.Lifted) -> str:
    """The source without its docstring, which counts the nodes of the file, and without masks that become numbers."""
    return lifted.source.split('"""', 2)[2].replace(BOOLEAN_MASK, "")


def without_value_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a number for the name of every value that a node computes, but for the results."""
    results = {value.name for value in model.graph.output}
    computed = (name for node in model.graph.node for name in node.output if name and name not in results)
    numbers = {name: f"onnx::Value_{number}" for number, name in enumerate(computed)}
    for node in model.graph.node:
        node.input[:] = [numbers.get(name, name) for name in node.input]
        node.output[:] = [numbers.get(name, name) for name in node.output]
    for value in model.graph.value_info:
        value.name = numbers.get(value.name, value.name)
    return model

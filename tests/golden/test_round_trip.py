"""There and back again: a lifted module is exported with every free size free, ONNX Runtime computes the same of the
new file, and that lifts to the source that it was exported from."""

from __future__ import annotations

import warnings
from pathlib import Path

import onnx
import pytest
import torch
from torch.export import Dim

import onnxlift
from models import Example
from models.every import EXAMPLES
from models.running import assert_close, run_onnxruntime

ONE_GRAPH = [example for example in EXAMPLES if not example.data_dependent]
BATCH_NORMS = ("tiny_resnet", "cnn", "mobilenet")  # which the exporter folds into convolutions if it is to optimise
# What torch.export makes of the others in another order, merges or computes elsewhere, and the names of values that
# their authors chose, are lost on the way; their layers and parameters are not.
SAME_SOURCE = ("mlp", "cnn", "unet", "lstm", "gru")


@pytest.fixture(scope="module")
def again(example: Example, path: Path, lifted: onnxlift.Lifted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the lifted module, exported anew."""
    graph = onnx.load(path).graph
    names = {"input_names": [v.name for v in graph.input], "output_names": [v.name for v in graph.output]}
    arguments = tuple(map(torch.from_numpy, example.samples()[1].values()))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(lifted.module(), arguments, dynamic_shapes=_free_sizes(graph, example))
        options = {"optimize": example.model not in BATCH_NORMS, "verbose": False}
        exported = torch.onnx.export(program, dynamo=True, **names, **options)
    file = tmp_path_factory.mktemp("again") / path.name
    onnx.save(exported.model_proto, file)
    return file


def _free_sizes(graph: onnx.GraphProto, example: Example) -> tuple[dict[int, object], ...]:
    """For each input, the axes that the model leaves free, but time where torch.export unrolls it."""
    shapes = ([dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in graph.input)
    fixed = {"", "sequence"} if example.recurrent else {""}
    return tuple({axis: Dim.DYNAMIC for axis, size in enumerate(shape) if size not in fixed} for shape in shapes)


@pytest.mark.parametrize("example", ONE_GRAPH, ids=str, indirect=True)
def test_the_new_file_computes_the_same(example: Example, path: Path, again: Path) -> None:
    _, shown, other = example.samples()
    if example.recurrent:
        other = {name: array[:, : shown[name].shape[1]] for name, array in other.items()}
    for actual, expected in zip(*(run_onnxruntime(file, (shown, other)) for file in (again, path)), strict=True):
        assert_close(actual, expected)


@pytest.mark.parametrize("example", [e for e in ONE_GRAPH if e.model in SAME_SOURCE], ids=str, indirect=True)
def test_the_new_file_lifts_to_the_same_source(example: Example, lifted: onnxlift.Lifted, again: Path) -> None:
    assert code(onnxlift.lift(again, name=example.model)) == code(lifted)


@pytest.mark.parametrize("example", ONE_GRAPH, ids=str, indirect=True)
def test_the_new_file_lifts_to_the_same_parameters(lifted: onnxlift.Lifted, again: Path) -> None:
    ours, theirs = (
        {name: array.shape for name, array in each.state_dict.items()} for each in (onnxlift.lift(again), lifted)
    )
    assert ours == theirs


def code(lifted: onnxlift.Lifted) -> str:
    """The source without its docstring, which counts the nodes of the file."""
    return lifted.source.split('"""', 2)[2]

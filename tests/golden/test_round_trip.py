"""There and back again: a lifted module is exported with every free size free, ONNX Runtime computes the same of the
new file, and that lifts to the source that it was exported from (but for what `models/round_trip.py` lists)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import onnxlift
from models import Example
from models.every import EXAMPLES
from models.round_trip import differences, export_again, free_sizes
from models.running import assert_close, run_onnxruntime

ONE_GRAPH = [example for example in EXAMPLES if not example.data_dependent]


@pytest.fixture(scope="module")
def again(example: Example, path: Path, lifted: onnxlift.Lifted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the lifted module, exported anew."""
    file = tmp_path_factory.mktemp("again") / path.name
    arguments = tuple(map(torch.from_numpy, example.samples()[1].values()))
    export_again(lifted.module(), arguments, free_sizes(path, example.recurrent), file, path)
    return file


@pytest.mark.parametrize("example", ONE_GRAPH, ids=str, indirect=True)
def test_the_new_file_computes_the_same(example: Example, path: Path, again: Path) -> None:
    _, shown, other = example.samples()
    if example.recurrent:
        other = {name: array[:, : shown[name].shape[1]] for name, array in other.items()}
    for actual, expected in zip(*(run_onnxruntime(file, (shown, other)) for file in (again, path)), strict=True):
        assert_close(actual, expected)


@pytest.mark.parametrize("example", ONE_GRAPH, ids=str, indirect=True)
def test_the_new_file_lifts_to_the_same_source(example: Example, path: Path, again: Path) -> None:
    assert differences(path, again, example.model) == []


@pytest.mark.parametrize("example", ONE_GRAPH, ids=str, indirect=True)
def test_the_new_file_lifts_to_the_same_parameters(lifted: onnxlift.Lifted, again: Path) -> None:
    ours, theirs = (
        {name: array.shape for name, array in each.state_dict.items()} for each in (onnxlift.lift(again), lifted)
    )
    assert ours == theirs

"""Whole models: what is written for them, what it computes, and what a user gets to train.

The sources are for people to read: `pytest tests/golden --update-golden` rewrites them, and the diff is the review.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import onnxlift
from models import Example, torch_models
from models.every import EXAMPLES
from models.running import Outputs, assert_close, run_torch

SOURCES = Path(__file__).parent / "sources"

NETWORKS = {network.name: network for network in torch_models.NETWORKS}
OTHER_PARAMETERS = {
    "resnet": "the exporter folds batch norms into the weights of convolutions",
    "unet": "the exporter folds batch norms into the weights of convolutions",
}
WITHOUT_BIASES = ("llama", "t5_encoder")
"""Where the exporters fold the only tensor of many layers into one without a name, so the file tells no order."""
SAME_PARAMETERS = [example for example in torch_models.EXAMPLES if example.model not in OTHER_PARAMETERS]
WITH_PARAMETERS = [example for example in EXAMPLES if example.model != "beam_step"]


def test_source_is_the_golden_one(example: Example, lifted: onnxlift.Lifted, request: pytest.FixtureRequest) -> None:
    golden = SOURCES / f"{example.name}.py"
    if request.config.getoption("--update-golden"):
        golden.write_text(lifted.source, encoding="utf-8")
    assert golden.exists(), f"no {golden.name} yet: run pytest with --update-golden, and read what it writes"
    assert lifted.source == golden.read_text(encoding="utf-8")


def test_every_golden_source_has_a_model() -> None:
    assert {file.stem for file in SOURCES.glob("*.py")} <= {example.name for example in EXAMPLES}


def test_numbers_match_onnxruntime(example: Example, lifted: onnxlift.Lifted, expected: list[Outputs]) -> None:
    module = lifted.module()
    for inputs, outputs in zip(example.samples(), expected, strict=True):
        assert_close(run_torch(module, inputs), outputs)


def test_lifting_again_writes_the_same_bytes(example: Example, path: Path, tmp_path: Path) -> None:
    def written(folder: Path) -> dict[str, bytes]:
        onnxlift.lift(path, name=example.model).save(folder)
        return {file.name: file.read_bytes() for file in folder.iterdir()}

    assert written(tmp_path / "first") == written(tmp_path / "second")


@pytest.mark.parametrize("example", WITH_PARAMETERS, ids=str, indirect=True)
def test_gradients_reach_every_parameter(example: Example, lifted: onnxlift.Lifted) -> None:
    module = lifted.module()
    module(*map(torch.from_numpy, example.samples()[1].values())).square().sum().backward()
    assert [name for name, parameter in module.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("example", SAME_PARAMETERS, ids=str, indirect=True)
def test_parameters_are_those_of_the_exported_module(example: Example, lifted: onnxlift.Lifted) -> None:
    exported = NETWORKS[example.model].module()
    ours, theirs = dict(lifted.module().named_parameters()), dict(exported.named_parameters(remove_duplicate=False))
    assert sorted(ours.keys() - theirs.keys()) == []
    if example.model not in WITHOUT_BIASES:
        assert [*ours] == [name for name in theirs if name in ours]  # as optimisers count them
    assert len(ours) == len(list(exported.parameters()))  # so what was tied there is tied here, and nothing else is
    for name, parameter in ours.items():
        torch.testing.assert_close(parameter, theirs[name], rtol=0, atol=0, msg=f"{name} differs")


@pytest.mark.parametrize("example", SAME_PARAMETERS, ids=str, indirect=True)
def test_checkpoints_of_the_exported_module_load_into_the_lifted_one_and_back(
    example: Example, lifted: onnxlift.Lifted
) -> None:
    exported, module = NETWORKS[example.model].module(), lifted.module()
    module.load_state_dict(exported.state_dict(), strict=True)
    exported.load_state_dict(module.state_dict(), strict=True)

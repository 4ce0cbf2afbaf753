"""A lifted module trains as the exported one does: the same gradients, statistics of batches, and live dropout."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.onnx import TrainingMode

import onnxlift
from models import Example, torch_models
from models.network import EXPORTERS, Exporter

NETWORKS = {network.name: network for network in (*torch_models.NETWORKS, *torch_models.UNFOLDED)}
FOLDED = {network.name.removesuffix("_unfolded") for network in torch_models.UNFOLDED}
EXAMPLES = [
    example
    for example in (*torch_models.EXAMPLES, *torch_models.UNFOLDED_EXAMPLES)
    if example.model not in FOLDED  # their weights are products of parameters: no gradient of theirs is comparable
]


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_gradients_are_those_of_the_exported_module(
    example: Example, train: bool, model_file: Callable[[Example], Path]
) -> None:
    exported = without_dropout(NETWORKS[example.model].module()).train(train)
    lifted = onnxlift.lift(model_file(example)).module(train)
    inputs = tuple(map(torch.from_numpy, example.samples()[1].values()))
    for module in (exported, lifted):
        weighed(module(*inputs)).backward()
    expected = gradients(exported)
    actual = {name: parameter.grad for name, parameter in lifted.named_parameters()}
    assert len(actual) == len(list(exported.parameters()))
    rounding = 1e-5 * max(float(gradient.abs().max()) for gradient in expected.values())  # of sums that are 0
    for name, gradient in actual.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=rounding, msg=f"gradient of {name}")
    for name, buffer in exported.named_buffers():
        if "running_" in name:
            torch.testing.assert_close(lifted.get_buffer(name), buffer, msg=name)


def without_dropout(module: nn.Module) -> nn.Module:
    """The module with dropouts that do nothing: exported in eval mode, they leave no trace."""
    for layer in module.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
        elif isinstance(getattr(layer, "dropout", None), float):
            layer.dropout = 0.0
    return module


def weighed(output: Tensor) -> Tensor:
    """One number in which every element of the output counts differently."""
    return (output * torch.linspace(-1.0, 2.0, output.numel()).view_as(output)).sum()


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """The gradients of all parameters, by every name that they may have in a lifted module."""
    found: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        found[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        found[name.replace("in_proj_", "in_proj.")] = found[name]  # attention's projection may be an nn.Linear
    return found


class Perceptron(nn.Module):
    """Dropout in every role: in a chain, shared by two places, and on the weights of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 8), nn.Dropout(0.3))
        self.norm = nn.BatchNorm1d(5)
        self.qkv = nn.Linear(8, 24)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.stem(x))
        q, k, v = self.drop(self.qkv(x)).chunk(3, -1)
        attention = self.drop((q @ k.transpose(1, 2) * 0.5).softmax(-1))
        return self.head(attention @ v)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_dropout_of_a_training_export_is_live_in_train_mode(exporter: Exporter) -> None:
    torch.manual_seed(0)
    exported, x = Perceptron().train(), torch.randn(4, 5, 6)
    lifted = onnxlift.lift(training_export(exported, x, exporter))
    assert "nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 8), nn.Dropout(0.3)" in " ".join(lifted.source.split())
    assert lifted.source.count("nn.Dropout(") == 3
    state = {name: value for name, value in exported.state_dict().items() if "num_batches" not in name}
    for train in (True, False):
        module = lifted.module(train)
        module.load_state_dict(state, strict=False)
        results = []
        for each in (exported.train(train), module):
            torch.manual_seed(1)
            results.append(each(x))
        torch.testing.assert_close(*results)


def training_export(module: nn.Module, x: Tensor, exporter: Exporter) -> onnx.ModelProto:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "dynamo":
            options = {"dynamic_shapes": ({0: "batch"},), "optimize": False, "verbose": False}
            return torch.onnx.export(module, (x,), dynamo=True, **options).model_proto
        file = io.BytesIO()
        options = {"training": TrainingMode.TRAINING, "do_constant_folding": False}
        torch.onnx.export(module, (x,), file, dynamo=False, dynamic_axes={"x": [0]}, input_names=["x"], **options)
        return onnx.load_from_string(file.getvalue())

"""What comes back of a single layer that was exported by itself, and of functions with parameters of other names: keys,
shapes and values of the state dict."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import onnxlift
from models.network import EXPORTERS, Exporter

Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A module, and its inputs for a batch of some size. `only` is the exporter that can write it, if one alone can."""

    build: Callable[[], nn.Module]
    inputs: Callable[[int], Inputs]
    axis: int = 0
    only: Exporter | None = None


def tensor(*sizes: int) -> Callable[[int], Inputs]:
    """A random tensor of these sizes, and the batch before them."""
    return lambda batch: (torch.randn(batch, *sizes),)


def sequence(batch: int) -> Inputs:
    """Four steps of five features, the batch second."""
    return (torch.randn(4, batch, 5),)


def indices(batch: int) -> Inputs:
    return (torch.randint(0, 7, (batch, 3)),)


def pair(batch: int) -> Inputs:
    return torch.randn(batch, 4), torch.randn(batch, 3)


def hidden(count: int) -> Callable[[int], Inputs]:
    """The input of a cell, and its state of one or two tensors."""

    def inputs(batch: int) -> Inputs:
        state = tuple(torch.randn(batch, 7) for _ in range(count))
        return torch.randn(batch, 5), state if count > 1 else state[0]

    return inputs


def attended(width: int, key_width: int, value_width: int) -> Callable[[int], Inputs]:
    """Queries, and other keys and values."""
    sizes = ((3, width), (5, key_width), (5, value_width))
    return lambda batch: tuple(torch.randn(batch, *size) for size in sizes)


def source_and_target(batch: int) -> Inputs:
    return torch.randn(batch, 3, 8), torch.randn(batch, 5, 8)


def encoder_layer() -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)


def decoder_layer() -> nn.TransformerDecoderLayer:
    return nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)


# The older exporter knows no bilinear layer, no RMS norm and no fused attention of a decoder.
LAYERS: dict[str, Case] = {
    "linear": Case(lambda: nn.Linear(4, 3), tensor(5, 4)),
    "linear without bias": Case(lambda: nn.Linear(4, 3, bias=False), tensor(5, 4)),
    "bilinear": Case(lambda: nn.Bilinear(4, 3, 5), pair, only="dynamo"),
    "conv1d": Case(lambda: nn.Conv1d(4, 6, 3, padding=1), tensor(4, 9)),
    "conv2d": Case(lambda: nn.Conv2d(4, 6, 3, stride=2, groups=2), tensor(4, 9, 8)),
    "conv2d with mirrored edges": Case(lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), tensor(4, 9, 8)),
    "conv transpose 1d": Case(lambda: nn.ConvTranspose1d(4, 6, 3, stride=2), tensor(4, 9)),
    "conv transpose 2d": Case(lambda: nn.ConvTranspose2d(4, 6, 3, bias=False), tensor(4, 5, 6)),
    "weight norm": Case(lambda: nn.utils.parametrizations.weight_norm(nn.Conv1d(24, 32, 13)), tensor(24, 15)),
    "batch norm 2d": Case(lambda: nn.BatchNorm2d(4), tensor(4, 5, 6)),
    "batch norm without weights": Case(lambda: nn.BatchNorm2d(4, affine=False), tensor(4, 5, 6)),
    "instance norm": Case(lambda: nn.InstanceNorm2d(4, affine=True), tensor(4, 9, 8)),
    "group norm": Case(lambda: nn.GroupNorm(2, 6), tensor(6, 5, 7)),
    "layer norm": Case(lambda: nn.LayerNorm((4, 5)), tensor(4, 5)),
    "layer norm without bias": Case(lambda: nn.LayerNorm(5, bias=False), tensor(5)),
    "rms norm": Case(lambda: nn.RMSNorm(5), tensor(4, 5), only="dynamo"),
    "prelu by channel": Case(lambda: nn.PReLU(4), tensor(4, 5)),
    "embedding": Case(lambda: nn.Embedding(7, 5), indices),
    "lstm": Case(lambda: nn.LSTM(5, 7), sequence, axis=1),
    "deep lstm in both directions": Case(lambda: nn.LSTM(5, 7, 2, bidirectional=True, batch_first=True), tensor(4, 5)),
    "gru": Case(lambda: nn.GRU(5, 7, batch_first=True), tensor(4, 5)),
    "rnn": Case(lambda: nn.RNN(5, 7, 2, nonlinearity="relu"), sequence, axis=1),
    "lstm cell": Case(lambda: nn.LSTMCell(5, 7), hidden(2)),
    "gru cell": Case(lambda: nn.GRUCell(5, 7), hidden(1)),
    "attention": Case(lambda: nn.MultiheadAttention(8, 2, batch_first=True), attended(8, 8, 8)),
    "attention without bias": Case(
        lambda: nn.MultiheadAttention(8, 2, bias=False, batch_first=True), attended(8, 8, 8)
    ),
    "attention to others": Case(
        lambda: nn.MultiheadAttention(8, 2, kdim=6, vdim=4, batch_first=True), attended(8, 6, 4)
    ),
    "encoder": Case(lambda: nn.TransformerEncoder(encoder_layer(), 2, nn.LayerNorm(8)), tensor(3, 8)),
    "transformer": Case(lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True), source_and_target, only="dynamo"),
    "sequential": Case(lambda: nn.Sequential(nn.Linear(4, 3), nn.PReLU(), nn.Linear(3, 2, bias=False)), tensor(5, 4)),
    "sequential of one": Case(lambda: nn.Sequential(nn.BatchNorm1d(4)), tensor(4)),
}


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_that_was_exported_by_itself(name: str, exporter: Exporter) -> None:
    case = LAYERS[name]
    if case.only in (None, exporter):
        assert_same_state(case, exporter, is_free=True)
    if exporter == "script" and case.only is None:  # the newer exporter takes a second for each
        assert_same_state(case, exporter, is_free=False)


class Functions(nn.Module):
    """Functions with parameters that are called otherwise than a layer's. Of the others, the older exporter changes the
    parameters and does not keep their names."""

    def __init__(self, exporter: Exporter) -> None:
        super().__init__()
        self.exporter = exporter
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))
        sizes = {
            "scale": (4,),
            "offset": (4,),
            "kernel": (4, 4, 3),
            "shift": (4,),
            "turned": (4, 4, 3),
            "table": (7, 6),
        }
        sizes |= {
            "gain": (4,),
            "centre": (4,),
            "gamma": (6,),
            "beta": (6,),
            "product": (6, 6),
            "matrix": (6, 6),
            "added": (6,),
        }
        if exporter == "dynamo":
            sizes |= {"groups_gamma": (4,), "groups_beta": (4,), "slope": (4,), "leak": (1,), "rms": (6,), "one": (4,)}
            sizes |= {"pairs": (6, 6, 6), "pairs_bias": (6,), "rows": (6, 6), "rows_bias": (6,), "square": (6, 6)}
        for name, size in sizes.items():
            setattr(self, name, nn.Parameter(torch.empty(size)))

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        if self.exporter == "dynamo":
            x = F.bilinear(x, x, self.pairs, self.pairs_bias)
        x = F.batch_norm(x, self.mean, self.var, self.scale, self.offset)
        x = F.conv1d(x, self.kernel, self.shift, padding=1)
        x = F.conv_transpose1d(x, self.turned, padding=1)
        x = F.instance_norm(x, weight=self.gain, bias=self.centre)
        x = F.layer_norm(x, (6,), self.gamma, self.beta) + F.embedding(ids, self.table)
        if self.exporter == "dynamo":
            x = F.group_norm(x, 2, self.groups_gamma, self.groups_beta)
            x = F.group_norm(F.prelu(x, self.slope), 2, self.one)
            x = F.rms_norm(F.prelu(x, self.leak), (6,), self.rms)
            x = F.linear(F.linear(x, self.square), self.rows, self.rows_bias)
        return F.linear(x[:, 0], self.matrix, self.added) @ self.product


class Around(nn.Module):
    """A module that has one; and parameters that are called as a layer's, but beside a layer."""

    def __init__(self, exporter: Exporter) -> None:
        super().__init__()
        self.functions = Functions(exporter)
        self.weight = nn.Parameter(torch.empty(6))
        self.bias = nn.Parameter(torch.empty(6))

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        return F.layer_norm(self.functions(x, ids), (6,), self.weight, self.bias)


@pytest.mark.parametrize("module", [Functions, Around])
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_functions_with_parameters_of_other_names(module: Callable[[Exporter], nn.Module], exporter: Exporter) -> None:
    case = Case(lambda: module(exporter), lambda batch: (torch.randn(batch, 4, 6), torch.randint(0, 7, (batch, 4))))
    assert_same_state(case, exporter, is_free=True)


class Counted(nn.Module):
    """Parameters and layers that are called as exporters count their own values."""

    def __init__(self) -> None:
        super().__init__()
        self.const = nn.Parameter(torch.empty(6))
        self.w1 = nn.Parameter(torch.empty(6, 6))
        self.t = nn.Parameter(torch.empty(6))
        self.node_embedding = nn.Embedding(7, 6)
        self.reconstruction = nn.Linear(6, 4)

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        y = torch.tanh((x + self.const) @ self.w1) * self.t
        return self.reconstruction(y + self.node_embedding(ids))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_names_that_look_counted(exporter: Exporter) -> None:
    case = Case(Counted, lambda batch: (torch.randn(batch, 4, 6), torch.randint(0, 7, (batch, 4))))
    assert_same_state(case, exporter, is_free=True)


class Reading(nn.Module):
    """Functions that read what layers hold, which are called as well."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.fc = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(self.norm(x)) * self.norm.weight
        return y + F.linear(torch.tanh(self.fc(x)), self.fc.weight)


class Readers(nn.Module):
    """The same across modules, and in lists; twice the same call of a layer; and a head that does share its matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.empty(9))
        self.embed = nn.Embedding(9, 6)
        self.blocks = nn.ModuleList([Reading(), Reading()])
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 5)])
        self.head = nn.Linear(6, 9, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        y = torch.tanh(x @ self.blocks[0].fc.weight)
        y = F.linear(torch.tanh(self.layers[0](y)), self.layers[0].weight, self.layers[0].bias)
        y = torch.tanh(self.layers[1](y)) @ self.layers[1].weight
        return F.linear(y, self.embed.weight, self.bias), self.head(x)


class Codes(nn.Module):
    """The nearest row of a table, as in a VQ-VAE."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 4)
        self.codes = nn.Embedding(9, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(x)
        squares = x.pow(2).sum(1, keepdim=True) + self.codes.weight.pow(2).sum(1)
        return self.codes((squares - 2 * x @ self.codes.weight.t()).argmin(1))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_functions_that_read_the_weights_of_layers(exporter: Exporter) -> None:
    assert_same_state(Case(Readers, lambda batch: (torch.randint(0, 9, (batch,)),)), exporter, is_free=True)
    assert_same_state(Case(Codes, tensor(6)), exporter, is_free=True)
    if exporter == "dynamo":  # the older one stores a transposed copy for each product with rows of more than one axis
        assert_same_state(Case(Readers, lambda batch: (torch.randint(0, 9, (batch, 3)),)), exporter, is_free=True)


def assert_same_state(case: Case, exporter: Exporter, is_free: bool) -> None:
    """The lifted module has the original's state dict, which loads both ways, and gives its numbers."""
    torch.manual_seed(5)
    original = trained(case.build()).eval()
    lifted = onnxlift.lift(exported(original, case, exporter, is_free)).module()
    mine, expected = lifted.state_dict(), original.state_dict()
    assert mine.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(mine[key], value, msg=key)
    assert {key for key, _ in lifted.named_parameters()} == {key for key, _ in original.named_parameters()}
    inputs = case.inputs(3 if is_free else 2)
    for one, other in zip(results(lifted(*tensors(inputs))), results(original(*inputs)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    original.load_state_dict(mine, strict=True)
    lifted.load_state_dict(trained(case.build()).state_dict(), strict=True)


def trained(module: nn.Module) -> nn.Module:
    """The module with random parameters and statistics: exporters store equal tensors once, and drop zeros."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter))
        for buffer in module.buffers():
            if buffer.is_floating_point():
                buffer.copy_(torch.rand_like(buffer) + 0.5)
    return module


def exported(module: nn.Module, case: Case, exporter: Exporter, is_free: bool) -> bytes:
    """The module for a batch of two, or of any size."""
    inputs = case.inputs(2)
    names = [f"input_{place}" for place, _ in enumerate(tensors(inputs))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "script":
            buffer = io.BytesIO()
            axes = {name: {case.axis: "batch"} for name in names} if is_free else None
            torch.onnx.export(module, inputs, buffer, dynamo=False, input_names=names, dynamic_axes=axes)
            return buffer.getvalue()
        batch = torch.export.Dim("batch", min=2, max=4096)
        sizes = pytree.tree_map(lambda _: {case.axis: batch}, inputs) if is_free else None
        program = torch.onnx.export(module, inputs, dynamo=True, dynamic_shapes=sizes, verbose=False)
    assert program is not None
    return program.model_proto.SerializeToString()


def tensors(inputs: Inputs) -> Sequence[Tensor]:
    """All tensors, however they are nested: a lifted module takes them one by one."""
    return [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, Tensor)]


def results(given: Any) -> Sequence[Tensor]:
    return tensors((given,))

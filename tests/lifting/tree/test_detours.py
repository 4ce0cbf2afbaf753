"""Layers that a module holds under two names, and calls in a container."""

from __future__ import annotations

import io
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onnxlift
from onnxlift.lifting.tree.detours import find_detours, without_detours
from onnxlift.lifting.tree.gaps import Path

NET = ("block", "net")


@pytest.mark.parametrize(
    ("layers", "detours"),
    [
        ([("block.net.conv1", "block.conv1"), ("block.net.conv2", "block.conv2")], {NET}),
        ([("block.net.conv1.inner", "block.conv1.inner")], {NET}),
        ([("block.net.conv1", "block.conv1"), ("block.net.2", "block.net.2")], {NET}),
        ([("block.net.conv1", "block.conv1"), ("block.net.out", "block.net.out")], set()),
        ([("block.net.conv1", "block.conv1"), ("block.conv1", "block.conv1")], set()),
        ([("block.net.conv1", "block.conv2")], set()),
        ([("block.net.conv1", "other.conv1")], set()),
        ([("block.net.conv1", "block.net.conv1")], set()),
        ([("block.net", "block")], set()),
    ],
)
def test_which_scopes_are_detours(layers: list[tuple[str, str]], detours: set[Path]) -> None:
    assert find_detours((tuple(scope.split(".")), tuple(owner.split("."))) for scope, owner in layers) == detours


def test_paths_without_detours() -> None:
    assert without_detours(("block", "net", "relu1"), {NET}) == ("block", "relu1")
    assert without_detours(("block", "net", "2"), {NET}) == ("block", "net", "2")
    assert without_detours(("block", "conv1"), {NET}) == ("block", "conv1")


class Chomp(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, :-2].contiguous()


class Block(nn.Module):
    def __init__(self, channels: int, is_normed: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(channels, 5, 3, padding=2)
        self.conv2 = nn.Conv1d(5, 5, 3, padding=2)
        if is_normed:
            nn.utils.parametrizations.weight_norm(self.conv1)
            nn.utils.parametrizations.weight_norm(self.conv2)
        self.chomp1 = Chomp()
        self.chomp2 = Chomp()
        self.dropout = nn.Dropout(0.1)
        self.net = nn.Sequential(self.conv1, self.chomp1, nn.ReLU(), self.dropout, self.conv2, self.chomp2, nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.net(x) + x[:, :1])


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 6)
        self.b = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.b(F.relu(self.a(x)))


class Mixed(nn.Module):
    """A chain of layers that have a name, and of one that has only its number."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.block = Residual()
        self.net = nn.Sequential(self.first, nn.Tanh(), self.block, nn.Linear(6, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class Shared(nn.Module):
    """A module that has a layer of the model among its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.block = Residual()
        self.block.first = self.first

    def forward(self, x: Tensor) -> Tensor:
        return self.block(torch.tanh(self.block.first(x)))


def lifted(module: nn.Module, x: Tensor) -> nn.Module:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), buffer, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    return onnxlift.lift(buffer.getvalue()).module()


@pytest.mark.parametrize(
    ("module", "sizes", "keys"),
    [
        (nn.Sequential(Block(4, is_normed=False), Block(5, is_normed=False)), (4, 9), 8),
        (nn.Sequential(Block(4, is_normed=True), Block(5, is_normed=True)), (4, 9), 12),
        (Mixed(), (6,), 8),
        (Shared(), (6,), 6),
    ],
    ids=["plain", "normed", "mixed", "shared"],
)
def test_keys_are_the_originals(module: nn.Module, sizes: tuple[int, ...], keys: int) -> None:
    torch.manual_seed(0)
    module.eval()
    mine = lifted(module, torch.randn(2, *sizes))
    state, original = mine.state_dict(), module.state_dict()
    assert len(state) == keys and state.keys() <= original.keys()
    for key, value in state.items():
        torch.testing.assert_close(value, original[key])
    x = torch.randn(3, *sizes)
    torch.testing.assert_close(mine(x), module(x), rtol=1e-4, atol=1e-5)


def test_modules_in_a_chain_stay_modules() -> None:
    mine = lifted(Mixed(), torch.randn(2, 6))
    assert [type(child).__name__ for child in mine.children()] == ["Linear", "Block", "ModuleDict"]

"""Weights that several layers share, or that functions read beside the layer that holds them, as people write them: the
state dict is the original's, what is one parameter is one, and its gradient is that of all its uses."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onnxlift
from rewriting.idioms.attention.multihead_layers import exported


class Function(nn.Module):
    """F.linear with the matrix of a layer."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(8, 8, bias), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.linear(self.fc(x).tanh(), self.fc.weight))


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Function(), Function()

    def forward(self, x: Tensor) -> Tensor:
        return self.a(x) + self.b(x)


class CalledTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.fc(self.fc(x).tanh()).relu(), self.fc.weight)


class OthersBias(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.out(self.fc(x).tanh()).relu(), self.fc.weight, self.out.bias)


class Decoder(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.bias = nn.LayerNorm(size), nn.Parameter(torch.zeros(8))

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.linear(self.norm(x), weight) + self.bias


class Autoencoder(nn.Module):
    """A module that is given the matrix of another one."""

    def __init__(self, turned: bool) -> None:
        super().__init__()
        self.enc, self.dec, self.turned = nn.Linear(8, 3 if turned else 8), Decoder(3 if turned else 8), turned

    def forward(self, x: Tensor) -> Tensor:
        return self.dec(self.enc(x).relu(), self.enc.weight.t() if self.turned else self.enc.weight)


class Tied(nn.Module):
    """Two layers with one matrix."""

    def __init__(self, bias: bool, head_bias: bool) -> None:
        super().__init__()
        self.fc, self.head = nn.Linear(8, 8, bias), nn.Linear(8, 8, head_bias)
        self.head.weight = self.fc.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.fc(x).tanh())


class Mirrored(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.decoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.decoder[0].weight, self.decoder[2].weight = self.encoder[2].weight, self.encoder[0].weight

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


class Block(nn.Module):
    def __init__(self, ff: nn.Module) -> None:
        super().__init__()
        self.norm, self.ff = nn.LayerNorm(8), ff

    def forward(self, x: Tensor) -> Tensor:
        return x + self.ff(self.norm(x)).relu()


class OneInAll(nn.Module):
    """Blocks that all hold one layer."""

    def __init__(self) -> None:
        super().__init__()
        ff = nn.Linear(8, 8)
        self.blocks = nn.ModuleList(Block(ff) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Repeated(nn.Module):
    """A list that holds one block several times."""

    def __init__(self) -> None:
        super().__init__()
        shared, last = (nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)) for _ in range(2))
        self.blocks = nn.ModuleList([shared, shared, shared, last])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


class Rows(nn.Module):
    """An output head of a part of the vocabulary."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__()
        self.embed, self.fc, self.rows = nn.Embedding(10, 8), nn.Linear(8, 8), slice(start, end)

    def forward(self, x: Tensor) -> Tensor:
        ids = (10 * x.abs()).long().sum(-1) % 10
        return F.linear(self.fc(self.embed(ids)).tanh(), self.embed.weight[self.rows])


class Parts(nn.Module):
    """Code that reads the parameters of layers which are called as well."""

    def __init__(self, code: Callable[[Parts, Tensor], Tensor], bias: bool = True) -> None:
        super().__init__()
        self.embed, self.fc, self.conv = nn.Embedding(10, 8), nn.Linear(8, 8, bias), nn.Conv1d(8, 8, 3, padding=1)
        self.w, self.b, self.code = nn.Parameter(torch.empty(8, 8)), nn.Parameter(torch.empty(8)), code

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed((10 * x.abs()).long().sum(-1) % 10)
        x = self.conv(self.fc(x).unsqueeze(-1).flatten(0, -3)).flatten(1).tanh()
        return self.code(self, (x @ self.w + self.b).tanh())


# Each with what it is lifted to, if both exporters tell all of it.
PARTS: dict[str, tuple[Callable[[Parts, Tensor], Tensor], str]] = {
    "rows": (
        lambda m, x: F.linear(x, m.fc.weight[:5], m.fc.bias[:5]),
        ", self.fc.weight[:5], self.fc.bias[:5])",
    ),
    "last rows": (
        lambda m, x: F.linear(x, m.fc.weight[3:], m.fc.bias[3:]),
        ", self.fc.weight[3:], self.fc.bias[3:])",
    ),
    "rows without a bias": (lambda m, x: F.linear(x, m.fc.weight[2:7]), "self.fc.weight[2:7]"),
    "columns": (
        lambda m, x: F.linear(x[:, :6], m.fc.weight[:, :6], m.fc.bias),
        ", self.fc.weight[:, :6], self.fc.bias)",
    ),
    "a corner": (
        lambda m, x: F.linear(x[:, :6], m.fc.weight[:4, :6], m.fc.bias[:4]),
        "self.fc.weight[:4, :6]",
    ),
    "turned rows": (lambda m, x: x[:, :5] @ m.fc.weight[:5], "[:, :5] @ self.fc.weight[:5]"),
    "a factor": (
        lambda m, x: F.linear(x, m.fc.weight * 0.5, m.fc.bias * 0.5),
        ", self.fc.weight * 0.5, self.fc.bias * 0.5)",
    ),
    "one more": (lambda m, x: F.linear(x, 1 + m.fc.weight), "self.fc.weight + 1"),
    "a scaled embedding": (
        lambda m, x: x @ (m.embed.weight.t() / 8**0.5),
        "self.embed.weight / math.sqrt(8)",
    ),
    "a negative embedding": (lambda m, x: F.linear(x, -m.embed.weight), "-self.embed.weight"),
    "scaled rows": (lambda m, x: F.linear(x, m.embed.weight[:7] * 0.3), "self.embed.weight[:7] * 0.3"),
    "every second row": (lambda m, x: F.linear(x, m.embed.weight[::2]), "self.embed.weight[::2]"),
    "some rows": (lambda m, x: F.linear(x, m.embed.weight[[1, 2, 7]]), "self.embed.weight[[1, 2, 7]]"),
    "one row": (lambda m, x: x * m.embed.weight[3], "* self.embed.weight[3]"),
    "a part of a bias": (lambda m, x: x[:, :5] + m.fc.bias[:5], "+ self.fc.bias[:5]"),
    "a part of a parameter": (lambda m, x: x @ m.w[:, :5] + m.b[:5], "b = self.b[:5]"),
    "a scaled parameter": (lambda m, x: x @ (m.w / 3), " @ (self.w / 3)"),
    "a reversed parameter": (lambda m, x: x @ m.w.flip(0) + m.b.flip(0), "+ self.b.flip(0)"),
    "rows of a kernel": (
        lambda m, x: F.conv1d(x.unsqueeze(0).transpose(1, 2), m.conv.weight[:4], m.conv.bias[:4]),
        "self.conv.weight[:4]",
    ),
    "a turned kernel": (
        lambda m, x: F.conv1d(x.unsqueeze(0).transpose(1, 2), m.conv.weight.transpose(0, 1)),
        "self.conv.weight.transpose(0, 1)",
    ),
    "a reversed kernel": (
        lambda m, x: F.conv1d(x.unsqueeze(0).transpose(1, 2), m.conv.weight.flip(-1)),
        "self.conv.weight.flip(2)",
    ),
}

CASES = {
    "function": (lambda: Function(), 3),
    "function of rows": (lambda: Function(), 2),
    "function without bias": (lambda: Function(bias=False), 3),
    "nested": (Nested, 3),
    "called twice": (CalledTwice, 3),
    "bias of another": (OthersBias, 2),
    "bias of another, batches": (OthersBias, 3),
    "given away": (lambda: Autoencoder(turned=False), 3),
    "given away, turned": (lambda: Autoencoder(turned=True), 3),
    "tied": (lambda: Tied(bias=True, head_bias=True), 3),
    "tied, of rows": (lambda: Tied(bias=True, head_bias=True), 2),
    "tied, one bias": (lambda: Tied(bias=True, head_bias=False), 3),
    "tied, one bias, of rows": (lambda: Tied(bias=True, head_bias=False), 2),
    "tied, no bias": (lambda: Tied(bias=False, head_bias=False), 3),
    "tied, no bias, of rows": (lambda: Tied(bias=False, head_bias=False), 2),
    "mirrored": (Mirrored, 3),
    "one in all": (OneInAll, 3),
    "first rows": (lambda: Rows(0, 7), 3),
    "last rows": (lambda: Rows(2, 10), 2),
}


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
@pytest.mark.parametrize("name", CASES)
def test_parameters_and_gradients(name: str, exporter: str) -> None:
    build, axes = CASES[name]
    check(build(), torch.randn(*(2, 5, 8)[3 - axes :]), exporter)


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
@pytest.mark.parametrize("name", PARTS)
def test_parts(name: str, exporter: str) -> None:
    code, expected = PARTS[name]
    source = check(Parts(code), torch.randn(5, 8), exporter)
    assert expected in source, source


def check(module: nn.Module, x: Tensor, exporter: str) -> str:
    """What a module lifts to, with its parameters and their gradients."""
    lifted = onnxlift.lift(exported(module, (x,), exporter), name="model")
    mine = lifted.module()
    state = module.state_dict()
    assert mine.state_dict().keys() == state.keys()
    mine.load_state_dict(state, strict=True)
    assert len(list(mine.parameters())) == len(list(module.parameters()))
    results = module(x), mine(x)
    torch.testing.assert_close(*results)
    for result in results:
        result.square().sum().backward()
    gradients = dict(mine.named_parameters())
    for key, parameter in module.named_parameters():
        torch.testing.assert_close(gradients[key].grad, parameter.grad, rtol=1e-4, atol=1e-4)
    return lifted.source


class Copies(nn.Module):
    """Two layers of which one was copied from the other, and which are two parameters each."""

    def __init__(self) -> None:
        super().__init__()
        self.online = nn.Linear(8, 8)
        self.target = copy.deepcopy(self.online)

    def forward(self, x: Tensor) -> Tensor:
        return self.target(self.online(x).tanh())


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
def test_copies_are_no_ties(exporter: str) -> None:
    module = Copies()
    mine = onnxlift.lift(exported(module, (torch.randn(2, 5, 8),), exporter, trained=False), name="model").module()
    assert mine.state_dict().keys() == module.state_dict().keys()
    assert len(list(mine.parameters())) == 4


def test_a_list_that_holds_one_block_several_times() -> None:
    """The older exporter does not tell that it does: it is called several times."""
    module = Repeated()
    lifted = onnxlift.lift(exported(module, (torch.randn(2, 5, 8),), "dynamo"), name="model")
    assert "        for i in range(1, 3):\n            self.blocks[i] = self.blocks[0]\n" in lifted.source
    mine = lifted.module()
    assert mine.state_dict().keys() == module.state_dict().keys()
    assert len(list(mine.parameters())) == len(list(module.parameters()))


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
def test_source_does_not_grow_with_the_ties(exporter: str) -> None:
    source = onnxlift.lift(exported(OneInAll(), (torch.randn(2, 5, 8),), exporter), name="model").source
    assert "        for block in self.blocks[1:]:\n            block.ff = self.blocks[0].ff\n" in source
    assert "blocks.3" not in source[source.index("def load") :]

"""Tables that a module makes for others, and never uses itself."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import onnxlift
from models.network import EXPORTERS, SEQUENCE, Exporter, Network, tokens


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 6)
        self.fc = nn.Linear(6, 6)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.fc(self.embed(tokens)).tanh()


class Both(nn.Module):
    """Two parts that read one table; `names` are those by which the module around them has tables itself, the first of
    which is theirs."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        for name in names:
            self.register_module(name, nn.Embedding(50, 6))
        self.encoder = Part()
        self.decoder = Part()
        self.decoder.embed.weight = self.encoder.embed.weight
        if names:
            self.encoder.embed.weight = self.decoder.embed.weight = self.get_submodule(names[0]).weight
        self.head = nn.Linear(6, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(tokens) * self.decoder(tokens.flip(1)))


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = Both("shared")

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens).sigmoid()


def lifted(original: nn.Module, exporter: Exporter) -> nn.Module:
    network = Network("both", lambda: original, tokens, {"tokens": SEQUENCE}, "y", trained=False)
    module = onnxlift.lift(network.export(exporter)).module()
    ids = torch.randint(0, 50, (3, 7))
    torch.testing.assert_close(module(ids), original(ids))
    return module


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("build", [lambda: Both("shared"), Wrapped], ids=["root", "module"])
def test_a_table_that_its_owner_never_calls(build: type[nn.Module], exporter: Exporter) -> None:
    original = build()
    module = lifted(original, exporter)
    module.load_state_dict(original.state_dict(), strict=True)
    original.load_state_dict(module.state_dict(), strict=True)
    keys = [name for name, _ in module.named_parameters()]
    assert sum("embed" in key or "shared" in key for key in keys) == 1  # all others are the same parameter


class Encoder(nn.Module):
    """One part of such a model."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.register_module(name, nn.Embedding(50, 6))
        self.encoder = Part()
        self.encoder.embed.weight = self.get_submodule(name).weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.encoder(tokens).sin()


def test_one_part_of_a_model_with_a_table_that_is_shared() -> None:
    original = Encoder("shared")
    lifted(original, "dynamo").load_state_dict(original.state_dict(), strict=True)
    assert sorted(lifted(Encoder("head"), "dynamo").state_dict()) == sorted(Part().state_dict(prefix="encoder."))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_parts_that_share_a_table_of_their_own(exporter: Exporter) -> None:
    original = Both()
    assert sorted(lifted(original, exporter).state_dict()) == sorted(original.state_dict())


def test_of_two_tables_one_is_another() -> None:
    """By the newer exporter, nothing in the file says which of them is used."""
    keys = lifted(Both("shared", "other"), "dynamo").state_dict()
    assert not {"shared.weight", "other.weight"} & keys.keys()

"""A value that the first of several blocks computes, with a member that only it has, goes through all of them."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import onnxlift
from models.network import EXPORTERS, Exporter, Network
from small_graphs import Graph, code

Bias = Callable[[Graph, str, str], str]
"""Graph, x and the name of the first block -> what that block computes for all."""


def scope(path: str) -> str:
    """`net/blocks.0` for net.blocks.0: a list is never called."""
    return re.sub(r"[.](?![0-9])", "/", path)


def of_mask(g: Graph, x: str, path: str) -> str:
    return g.node("Sigmoid", g.linear("mask", f"{path}.table"), name=f"/{scope(path)}/Sigmoid")


def of_x(g: Graph, x: str, path: str) -> str:
    return g.node("Sigmoid", g.linear(x, f"{path}.table"), name=f"/{scope(path)}/Sigmoid")


def of_scale(g: Graph, x: str, path: str) -> str:
    """Of a mask and something else, which no other block needs."""
    return g.node("Mul", of_mask(g, x, path), g.input("scale", 4), name=f"/{scope(path)}/Mul_1")


def of_waves(g: Graph, x: str, path: str) -> str:
    """The same, where something is made of that first."""
    waves = g.node(
        "Sin", g.node("Add", g.input("scale", 4), "scale", name=f"/{scope(path)}/Add_1"), name=f"/{scope(path)}/Sin_1"
    )
    return g.node("Mul", of_mask(g, x, path), waves, name=f"/{scope(path)}/Mul_1")


def without_a_member(g: Graph, x: str, path: str) -> str:
    return g.node("Sigmoid", g.node("Mul", x, "mask", name=f"/{scope(path)}/Mul_1"), name=f"/{scope(path)}/Sigmoid")


def blocks(bias_of: Bias, *, inner: str = "", other: int = -1, extra: int = -1, count: int = 3) -> onnxlift.Lifted:
    """Blocks that multiply by the bias; below `inner`, if that is given. Block number `other` computes something
    else; block number `extra` reads the mask as it was."""
    g = Graph()
    x, bias = g.input("x", "n", 4), ""
    g.input("mask", "n", 4)
    for i in range(count):
        path = f"net.blocks.{i}{inner and '.'}{inner}"
        bias = bias or bias_of(g, x, path)
        h = g.node("Mul", g.linear(x, f"{path}.up"), bias, name=f"/{scope(path)}/Mul")
        h = g.node("Cos" if i == other else "Sin", h, name=f"/{scope(path)}/Sin")
        h = g.node("Mul", h, "mask", name=f"/{scope(path)}/Mul_2") if i == extra else h
        h = g.linear(h, f"{path}.down")
        x = g.node("Add", x, h, name=f"/net/blocks.{i}/Add")
    return g.lift(g.node("Tanh", g.node("Cos", x, name="/net/Cos"), name="/Tanh"))


def test_what_takes_the_place_of_a_mask() -> None:
    lifted = blocks(of_mask)
    source = code(lifted)
    assert source.count("class ") == 3, source
    assert "self.table = nn.Linear(4, 4) if table else None" in source, source
    assert "if self.table is not None:\n            mask = self.table(mask).sigmoid()\n" in source, source
    assert "for block in self.blocks:\n            x, mask = block(x, mask)\n" in source, source
    assert "[Block(table=True), Block(), Block()]" in source, source
    assert [key for key in lifted.module().state_dict() if "table" in key] == [
        "net.blocks.0.table.weight",
        "net.blocks.0.table.bias",
    ]


def test_the_source_does_not_grow_with_the_number_of_blocks() -> None:
    few, many = blocks(of_mask, count=5).source, blocks(of_mask, count=12).source
    assert "nn.ModuleList([Block(table=True), *(Block() for _ in range(11))])" in many, many
    assert few.count("\n") == many.count("\n")


def test_what_takes_the_place_of_nothing_is_none_before() -> None:
    source = code(blocks(of_x))
    assert source.count("class ") == 3, source
    assert ": Tensor | None = None) -> tuple[Tensor, Tensor]:" in source, source
    assert "table = None\n        for block in self.blocks:\n            x, table = block(x, table)" in source, source


def test_what_only_the_first_needs_is_passed_to_all() -> None:
    source = code(blocks(of_scale))
    assert source.count("class ") == 3, source
    assert "x, mask = block(x, mask, scale)" in source, source


@pytest.mark.parametrize("inner", ["", "attn"])
def test_what_has_no_weights_is_computed_before_the_first(inner: str) -> None:
    block, net = code(blocks(of_waves, inner=inner)).split("class Net(")
    assert "sin()\n        for block in self.blocks:" in net and block.count("sin()") == 1, block + net
    assert "scale" not in block, block


def test_a_value_from_further_below() -> None:
    source = code(blocks(of_mask, inner="attn"))
    assert source.count("class ") == 4, source
    assert "attn, mask = self.attn(x, mask)\n        return x + attn, mask" in source, source


def test_what_was_computed_earlier_for_the_value() -> None:
    """The sine is part of all blocks, but in the first one it comes before everything else."""
    g = Graph()
    x, bias = g.input("x", "n", 4), ""
    for i in range(3):
        path = f"net.blocks.{i}"
        sine = g.node("Sin", x, name=f"/net/blocks.{i}/Sin") if not bias else ""
        bias = bias or of_x(g, sine, path)
        h = g.node("Mul", g.linear(x, f"{path}.up"), bias, name=f"/net/blocks.{i}/Mul")
        sine = sine or g.node("Sin", x, name=f"/net/blocks.{i}/Sin")
        x = g.linear(g.node("Mul", h, sine, name=f"/net/blocks.{i}/Mul_1"), f"{path}.down")
    source = code(g.lift(g.node("Tanh", g.node("Cos", x, name="/net/Cos"), name="/Tanh")))
    assert source.count("class ") == 3 and "for block in self.blocks:" in source, source


def test_without_a_member_that_the_others_lack_nothing_tells_them_apart() -> None:
    assert "is not None" not in code(blocks(without_a_member))


@pytest.mark.parametrize("other", [0, 2])
def test_blocks_that_differ_elsewhere_are_two_classes(other: int) -> None:
    assert "is not None" not in code(blocks(of_mask, other=other))


@pytest.mark.parametrize("extra", [0, 2])
def test_a_mask_that_is_read_itself_keeps_its_place(extra: int) -> None:
    assert "is not None" not in code(blocks(of_mask, extra=extra))


def test_what_somebody_else_reads_is_left_alone() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    bias = of_x(g, x, "blocks.0")
    for i in range(3):
        h = g.node("Mul", g.linear(x, f"blocks.{i}.up"), bias, name=f"/blocks.{i}/Mul")
        x = g.linear(h, f"blocks.{i}.down")
    assert "is not None" not in code(g.lift(g.node("Add", x, bias, name="/Add")))


def test_what_the_exporter_calls_by_two_names_are_two_classes() -> None:
    g = Graph()
    x, bias = g.input("x", "n", 4), ""
    for i in range(3):
        scopes, classes = ["", f"blocks.{i}", "op"], ["net.Net", f"net.{'Other' if i else 'First'}", "aten.op.default"]
        bias = bias or g.node("Sigmoid", g.linear(x, f"blocks.{i}.table"), scopes=scopes, classes=classes)
        h = g.node("Mul", g.linear(x, f"blocks.{i}.up"), bias, scopes=scopes, classes=classes)
        x = g.linear(h, f"blocks.{i}.down")
    assert "is not None" not in code(g.lift(g.node("Tanh", x, scopes=["", "op"], classes=["net.Net", "aten"])))


def test_the_source_map_knows_where_the_value_is_computed() -> None:
    lifted = blocks(of_mask)
    lines = lifted.source.splitlines()
    own, *_ = lifted.source_map.lines_of("/net/blocks.0/Sigmoid")
    assert "self.table(mask).sigmoid()" in lines[own - 1]


class Attention(nn.Module):
    """An attention whose first instance has a table of distances, as in T5."""

    def __init__(self, size: int, *, has_table: bool) -> None:
        super().__init__()
        self.qkv = nn.Linear(size, 3 * size)
        self.table = nn.Embedding(9, 2) if has_table else None
        self.out = nn.Linear(size, size)

    def forward(self, x: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        if self.table is not None:
            positions = torch.arange(x.shape[1], device=x.device)
            bias = self.table((positions - positions[:, None]).clamp(-4, 4) + 4).permute(2, 0, 1)
        weights = ((q @ k.transpose(2, 3)) * 0.5 + bias).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2)), bias


class Layer(nn.Module):
    def __init__(self, size: int, *, has_table: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.attn = Attention(size, has_table=has_table)

    def forward(self, x: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        y, bias = self.attn(self.norm(x), bias)
        return x + y, bias


class Stack(nn.Module):
    def __init__(self, size: int = 8, depth: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(size, has_table=i == 0) for i in range(depth))
        self.norm = nn.LayerNorm(size)

    def forward(self, x: Tensor) -> Tensor:
        bias = None
        for layer in self.layers:
            x, bias = layer(x, bias)
        return self.norm(x)


def inputs(random: np.random.Generator, batch: int) -> dict[str, np.ndarray]:
    return {"x": random.standard_normal((batch, 3 + batch, 8)).astype(np.float32)}


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_stack_as_people_write_it(exporter: Exporter) -> None:
    network = Network("stack", Stack, inputs, {"x": {0: "batch", 1: "length"}}, "y")
    original = network.module()
    lifted = onnxlift.lift(network.export(exporter), name="stack")
    source = code(lifted)
    assert source.count("class ") == 3, source
    assert "for layer in self.layers:" in source and "if self.table is not None:" in source, source
    module = lifted.module()
    assert module.state_dict().keys() == original.state_dict().keys()
    for batch in (1, 4):
        x = torch.from_numpy(inputs(np.random.default_rng(batch), batch)["x"])
        np.testing.assert_allclose(module(x).detach(), original(x).detach(), rtol=1e-4, atol=1e-5)
    torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("b"), 1: torch.export.Dim("n")},))


def test_blocks_that_are_called_again_stay_as_they_are() -> None:
    """The other calls of the blocks are not such that the value could go through them."""
    g = Graph()
    x = g.input("x", "n", 4)
    g.input("mask", "n", 4)
    for _ in range(2):
        bias = of_x(g, x, "blocks.0")
        for i in range(3):
            h = g.node("Mul", g.linear(x, f"blocks.{i}.up"), bias, name=f"/blocks.{i}/Mul")
            x = g.linear(g.node("Sin", h, name=f"/blocks.{i}/Sin"), f"blocks.{i}.down")
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert "is not None" not in text and text.count("= self.blocks[0](") == 2, text

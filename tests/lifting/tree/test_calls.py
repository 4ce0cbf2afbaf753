"""A module that is called several times is one module with several calls, if it does the same each time."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onnxlift
from models.network import EXPORTERS, SEQUENCE, Exporter, Network, floats
from small_graphs import Graph, code, compare, step

# What follows is written as PyTorch's older exporter writes it: `/block_1/Sin` is in the second call of `block`.


def call(g: Graph, x: str, path: str, number: int, op_type: str = "Sin") -> str:
    suffix = f"_{number}" if number else ""
    h = g.linear(x, f"{path}.a", name=f"/{path}/a{suffix}/Gemm")
    return g.linear(g.node(op_type, h, name=f"/{path}{suffix}/{op_type}"), f"{path}.b", name=f"/{path}/b{suffix}/Gemm")


def keys(lifted: onnxlift.Lifted) -> set[str]:
    return {key.rpartition(".")[0] for key in lifted.state_dict}


def test_the_calls_of_a_module_are_calls() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for number in range(2):
        x = g.node("Tanh", call(g, x, "block", number), name=f"/Tanh_{number}")
    lifted = g.lift(x)
    assert keys(lifted) == {"block.a", "block.b"}
    assert "x = self.block(x).tanh()\n        return self.block(x).tanh()" in code(lifted)


def test_what_the_calls_share_is_passed_to_them() -> None:
    """The exporter merged the masks of all calls into that of the first."""
    g = Graph()
    x, m = g.input("x", "n", 4), g.input("m", "n", 4)
    mask = g.node("Sigmoid", m, name="/block/Sigmoid")
    for number in range(3):
        suffix = f"_{number}" if number else ""
        h = g.node("Mul", g.linear(x, "block.a"), mask, name=f"/block{suffix}/Mul")
        x = g.node("Add", g.linear(h, "block.b"), x, name=f"/block{suffix}/Add")
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert text.count(".sigmoid()") == 1 and "for _ in range(3):\n            x = self.block(x, " in text


def test_code_between_the_layers_of_two_calls_ends_the_first_or_begins_the_second() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for number in range(3):
        suffix = f"_{number}" if number else ""
        x = g.node("Exp", g.node("Sin", x, name=f"/block{suffix}/Sin"), name=f"/block{suffix}/Exp")
        x = g.linear(g.linear(x, "block.a"), "block.b")
        x = g.node("Tanh", x, name=f"/block{suffix}/Tanh")
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert "return self.b(self.a(x.sin().exp())).tanh()" in text
    assert "for _ in range(3):\n            x = self.block(x)" in text


def test_calls_that_differ_in_a_number_are_one_call() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for number, scale in enumerate((2.5, 3.5)):
        factor = g.constant(f"scale_{number}", np.float32(scale))
        h = g.node("Mul", g.linear(x, "block.a"), factor, name=f"/block{'_1' * number}/Mul")
        x = g.linear(h, "block.b")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert keys(lifted) == {"block.a", "block.b"}
    assert "2.5" in lifted.source and "3.5" in lifted.source and lifted.source.count("nn.Linear(") == 2


def test_calls_that_differ_in_an_operator_are_one_call() -> None:
    g = Graph()
    x = call(g, g.input("x", "n", 4), "block", 0)
    lifted = g.lift(g.node("Cos", call(g, x, "block", 1, "Exp"), name="/Cos"))
    assert keys(lifted) == {"block.a", "block.b"} and lifted.source.count("nn.Linear(") == 2


def test_calls_whose_sizes_are_related_otherwise_are_one_call() -> None:
    """In the first call both inputs have one length, so that the code may read it from either; not so in the second."""
    g = Graph()
    sizes = {"x": "n", "y": "n", "z": "m", "w": "k"}
    first, second, third, fourth = (g.input(name, size, 4) for name, size in sizes.items())
    results = []
    for number, (x, other) in enumerate(((first, second), (third, fourth))):
        scope = f"/block_{number}" if number else "/block"
        total = g.node("ReduceSum", g.linear(x, "block.a"), keepdims=0, name=f"{scope}/ReduceSum")
        length = g.node("Shape", x, start=0, end=1, name=f"{scope}/Shape")
        size = g.node("Concat", length, g.constant("four", np.array([4])), axis=0, name=f"{scope}/Concat")
        tokens = g.node("Expand", g.weight("block.token", 1, 4), size, name=f"{scope}/Expand")
        joined = g.node("Concat", g.linear(other, "block.b"), tokens, axis=0, name=f"{scope}/Concat_1")
        results.append(g.node("Mul", joined, total, name=f"{scope}/Mul"))
    model = g.model(*results)
    rows = {"n": 2, "m": 3, "k": 5}
    inputs = {name: g.random.standard_normal((rows[size], 4)).astype(np.float32) for name, size in sizes.items()}
    compare(onnxlift.lift(model, name="small"), model, inputs)


def test_a_module_whose_name_ends_in_a_number_is_no_call() -> None:
    g = Graph()
    x = step(g, g.input("x", "n", 4), "block")
    x = step(g, g.node("Tanh", x, name="/Tanh"), "block_1")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert keys(lifted) == {"block.a", "block.b", "block_1.a", "block_1.b"}


def test_arguments_may_be_swapped() -> None:
    g = Graph()
    x, y = g.input("x", "n", 4), g.input("y", "n", 4)
    results = []
    for number, (a, b) in enumerate(((x, y), (y, x))):
        h = g.node("Sin", g.linear(a, "block.a"), name=f"/block{'_1' * number}/Sin")
        results.append(g.node("Sub", h, g.linear(b, "block.b"), name=f"/block{'_1' * number}/Sub"))
    text = code(g.lift(g.node("Mul", *results, name="/Mul")))
    assert "self.block(x, y)" in text and "self.block(y, x)" in text


def test_every_line_knows_the_nodes_of_all_calls() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for number in range(2):
        x = g.node("Tanh", call(g, x, "block", number), name=f"/Tanh_{number}")
    lifted = g.lift(x)
    line = next(n for n, text in enumerate(lifted.source.splitlines(), 1) if ".sin()" in text)
    assert {"/block/Sin", "/block_1/Sin"} <= set(lifted.source_map.nodes_at(line))


# Modules of PyTorch, through both exporters.


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 12)
        self.down = nn.Linear(12, 8, bias=False)
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.down(F.gelu(self.up(self.norm(x))))


class Deep(nn.Module):
    """One block, again and again, as in ALBERT and the Universal Transformer."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.depth = depth
        self.block = Block()
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.depth):
            x = self.block(x)
        return self.head(x)


class Rounds(nn.Module):
    """Several blocks, one after the other, again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            for block in self.blocks:
                x = block(x)
        return x


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.out = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.block(x).mean(1))


class Siamese(nn.Module):
    """One encoder for two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head((self.encoder(x) - self.encoder(x.flip(1))).abs())


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.classes = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
        self.boxes = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.classes(x), self.boxes(x).exp()


class Levels(nn.Module):
    """One head for several levels of features."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.head = Head()

    def forward(self, x: Tensor) -> Tensor:
        results = []
        for down in self.down:
            x = down(x).tanh()
            results.append(torch.cat(self.head(x), -1))
        return torch.cat(results, 1)


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.mix = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.gelu(self.mix(self.norm(x)))


class Holder(nn.Module):
    def __init__(self, block: Mixer) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return self.block(F.relu(self.first(x)))


class Holders(nn.Module):
    """One block in two modules."""

    def __init__(self) -> None:
        super().__init__()
        block = Mixer()
        self.near, self.far = Holder(block), Holder(block)

    def forward(self, x: Tensor) -> Tensor:
        return self.far(self.near(x).tanh())


CALLS: dict[type[nn.Module], str] = {
    Rounds: "for _ in range(3):\n            for block in self.blocks:\n                x = block(x)\n",
    Siamese: "self.encoder = Encoder()",
    Levels: "self.head = Head()",
    Holders: "self.far.block = self.near.block",
}


def lift(module: nn.Module, exporter: Exporter) -> onnxlift.Lifted:
    """The module exported and lifted: the same state dict, the same numbers, the same gradients."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape))
    network = Network("net", lambda: module, floats(6, 8), {"x": SEQUENCE}, "y")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lifted = onnxlift.lift(network.export(exporter), name="net")
    other, x = lifted.module(), torch.randn(2, 7, 8)
    assert set(other.state_dict()) == set(module.state_dict())
    results = [model(x) for model in (module, other)]
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    expected, found = [
        torch.autograd.grad(result.square().sum(), [parameter for _, parameter in sorted(model.named_parameters())])
        for model, result in zip((module, other), results, strict=True)
    ]
    for gradient, value in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, value, rtol=1e-3, atol=1e-4)
    return lifted


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("kind", CALLS)
def test_shared_modules_come_back(kind: type[nn.Module], exporter: Exporter) -> None:
    assert CALLS[kind] in code(lift(kind(), exporter))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_length_of_the_source_does_not_depend_on_the_number_of_calls(exporter: Exporter) -> None:
    few, many = (code(lift(Deep(depth), exporter)) for depth in (3, 12))
    assert many == few.replace("range(3)", "range(12)") and "for _ in range(12):" in many

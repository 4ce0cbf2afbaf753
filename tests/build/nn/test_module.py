"""Networks are classes: their names, their tree, their state dicts, and what is shared."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import onnxlift
from onnxlift import build
from onnxlift.build import init, nn, op


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)
        self.scale = nn.Parameter((width,), init=init.constant(0.5))

    def forward(self, x: build.Value) -> build.Value:
        return x + self.fc(self.norm(x)) * self.scale


class Net(nn.Module):
    def __init__(self, width: int = 6) -> None:
        self.embed = nn.Linear(4, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(width, 3))
        self.register_buffer("offset", np.full(3, 2, np.float32))

    def forward(self, x: build.Value) -> build.Value:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x) + self.offset  # type: ignore[attr-defined]


KEYS = [
    "offset", "embed.weight", "embed.bias",
    *(f"blocks.{i}.{name}" for i in range(2) for name in ("scale", "norm.weight", "norm.bias", "fc.weight", "fc.bias")),
    "head.1.weight", "head.1.bias",
]  # fmt: skip


def x() -> build.Value:
    return build.input("x", "float32", ["n", 4])


def built(net: nn.Module) -> build.Model:
    value = x()
    return build.model([value], {"y": net(value)})


def test_names_are_places_in_the_tree() -> None:
    net = Net()
    assert list(net.state_dict()) == KEYS
    assert [name for name, _ in net.named_parameters()] == KEYS[1:] and [n for n, _ in net.named_buffers()] == [
        "offset"
    ]
    assert sum(each.numel() for each in net.parameters()) == sum(a.size for a in net.state_dict().values()) - 3
    assert sorted(built(net).model.graph.initializers) == sorted(KEYS)
    assert [name for name, _ in net.named_modules()] == [
        "", "embed", "blocks", "blocks.0", "blocks.0.norm", "blocks.0.fc", "blocks.1", "blocks.1.norm", "blocks.1.fc",
        "head", "head.0", "head.1",
    ]  # fmt: skip
    assert net.blocks[1].fc.path == "blocks.1.fc" and net.blocks[1].fc.weight.name == "blocks.1.fc.weight"


def test_what_is_built_lifts_to_the_same_tree_and_computes_the_same() -> None:
    net = Net()
    model = built(net)
    lifted = onnxlift.lift(model)
    assert "class Block(nn.Module)" in lifted.source and "class Net(nn.Module)" in lifted.source
    assert "self.blocks = nn.ModuleList(Block() for _ in range(2))" in lifted.source
    assert set(lifted.state_dict) == set(KEYS)
    array = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    np.testing.assert_allclose(
        model(array)["y"], lifted.module()(torch.from_numpy(array)).detach(), rtol=1e-4, atol=1e-5
    )


def test_a_state_dict_of_pytorch_or_of_a_file_is_loaded(tmp_path: Path) -> None:
    net, other = Net(), Net().initialise(seed=5)
    assert (net.state_dict()["embed.weight"] != other.state_dict()["embed.weight"]).any()
    net.load_state_dict({key: torch.from_numpy(array) for key, array in other.state_dict().items()})
    assert all((net.state_dict()[key] == array).all() for key, array in other.state_dict().items())
    third = Net().initialise(seed=6)
    save_file(third.state_dict(), tmp_path / "net.safetensors")
    net.load_state_dict(tmp_path / "net.safetensors")
    assert all((net.state_dict()[key] == array).all() for key, array in third.state_dict().items())


def test_numbers_that_change_later_are_those_of_the_model() -> None:
    net = Net()
    model, array = built(net), np.ones((1, 4), np.float32)
    net.head[1].weight.data = np.zeros((3, 6), np.float32)  # type: ignore[attr-defined]
    net.load_state_dict({"head.1.bias": np.array([1, 2, 3], np.float32)}, strict=False)
    np.testing.assert_array_equal(model(array)["y"], [[3, 4, 5]])


def test_bfloat16_and_other_floats_are_rounded() -> None:
    layer = nn.Linear(2, 2, dtype="bfloat16")
    weights = torch.randn(2, 2, dtype=torch.bfloat16)
    layer.load_state_dict({"weight": weights, "bias": torch.zeros(2)})
    assert layer.weight.numpy().dtype.name == "bfloat16"
    np.testing.assert_array_equal(layer.weight.numpy().astype(np.float32), weights.float().numpy())
    half = Net().to("float16")
    value = build.input("x", "float16", ["n", 4])
    assert half(value).dtype.name == "FLOAT16"


def test_one_layer_called_twice_and_one_weight_with_two_names() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.embed = nn.Embedding(9, 4)
            self.same = nn.Linear(4, 4)
            self.head = nn.Linear(4, 9, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: build.Value) -> build.Value:
            return self.head(self.same(self.same(self.embed(ids))))

    net, ids = Tied(), build.input("ids", "int64", ["n"])
    model = build.model([ids], {"y": net(ids)})
    assert sorted(model.model.graph.initializers) == ["embed.weight", "same.bias", "same.weight"]
    assert "head.weight" in net.state_dict() and len(list(net.parameters())) == 3
    embedded = net.embed.weight.numpy()[[3, 5]]
    for _ in range(2):
        embedded = embedded @ net.same.weight.numpy().T + net.same.bias.numpy()  # type: ignore[union-attr]
    np.testing.assert_allclose(
        model(np.array([3, 5]))["y"], embedded @ net.embed.weight.numpy().T, rtol=1e-4, atol=1e-5
    )
    source = onnxlift.lift(model).source
    assert source.count("self.same(") == 2


def test_a_network_may_be_a_function_of_values() -> None:
    fc1, fc2 = nn.Linear(4, 8).named("fc1"), nn.Linear(8, 3).named("fc2")
    value = x()
    model = build.model([value], {"y": fc2(op.Relu(fc1(value)))})
    assert sorted(model.model.graph.initializers) == ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]
    lifted = onnxlift.lift(model)
    assert "self.fc1 = nn.Linear(4, 8)" in lifted.source and set(lifted.state_dict) == {*model.model.graph.initializers}
    single = nn.Linear(4, 8)
    assert list(build.model([value], {"y": single(value)}).model.graph.initializers) == ["linear.weight", "linear.bias"]


def test_a_part_of_a_network_is_called_by_its_place() -> None:
    net, value = Net(), x()
    hidden = net.blocks[1](net.embed(value))
    names = [*build.model([value], {"y": hidden}).model.graph.initializers]
    assert sorted(names) == sorted(key for key in KEYS if key.startswith(("embed", "blocks.1")))


def test_a_network_inside_of_scopes() -> None:
    value, net = x(), Net()
    with build.scope("", "Both"):
        with build.scope("left", "Net"):
            left = net(value)
        right = nn.Linear(3, 2).named("right")(left)
    names = [*build.model([value], {"y": right}).model.graph.initializers]
    assert sorted(names) == sorted([f"left.{key}" for key in KEYS] + ["right.weight", "right.bias"])


def test_modules_of_other_modules_can_be_called() -> None:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            self.fc = nn.Linear(6, 6)

        def forward(self, h: build.Value, last: Any) -> build.Value:
            return last(self.fc(h))

    class Shared(nn.Module):
        def __init__(self) -> None:
            self.net, self.decoder, self.last = nn.Linear(4, 6), Decoder(), nn.Linear(6, 2)

        def forward(self, value: build.Value) -> build.Value:
            return self.decoder(self.net(value), self.last)

    shared = Shared()
    assert sorted(built(shared).model.graph.initializers) == sorted(shared.state_dict())
    assert set(onnxlift.lift(built(shared)).state_dict) == {*shared.state_dict()}


def test_layers_in_branches_and_loops() -> None:
    class Loop(nn.Module):
        def __init__(self) -> None:
            self.step = nn.Linear(4, 4)

        def forward(self, value: build.Value) -> build.Value:
            looped = build.loop(3, None, lambda i, y: self.step(y), value)
            return build.if_(op.ReduceSum(looped, keepdims=0) > 0.0, lambda: self.step(looped), lambda: looped)

    net, array = Loop(), np.ones((2, 4), np.float32)
    expected = array
    weight, bias = net.step.weight.numpy(), net.step.bias.numpy()  # type: ignore[union-attr]
    for _ in range(3):
        expected = expected @ weight.T + bias
    expected = expected @ weight.T + bias if expected.sum() > 0 else expected
    np.testing.assert_allclose(built(net)(array)["y"], expected, rtol=1e-4, atol=1e-5)


def test_copies_have_weights_of_their_own() -> None:
    net = Net()
    copy = deepcopy(net)
    copy.embed.weight.data = np.zeros((6, 4), np.float32)
    assert net.embed.weight.numpy().all() and list(copy.state_dict()) == KEYS
    assert copy.blocks[1].fc.path == "blocks.1.fc"
    pair = nn.Sequential(nn.Linear(4, 4), deepcopy(nn.Linear(4, 4)))
    assert (pair.state_dict()["0.weight"] != pair.state_dict()["1.weight"]).any()


def test_containers() -> None:
    net = nn.Sequential({"a": nn.Linear(4, 4), "b": nn.ReLU()}).append(nn.Linear(4, 2))
    assert list(net.state_dict()) == ["a.weight", "a.bias", "2.weight", "2.bias"] and len(net) == 3
    assert list(net[:1].state_dict()) == ["a.weight", "a.bias"] and net["b"] is net[1] is [*net][1]
    several = nn.ModuleDict({"x": nn.ReLU(), "y": nn.Tanh()})
    several["z"] = nn.Linear(2, 2)
    assert list(several) == ["x", "y", "z"] and "z" in several and len(several.items()) == 3

    class Listed(nn.Module):
        def __init__(self) -> None:
            self.all = nn.ParameterList(nn.Parameter((4,), init=init.constant(i)) for i in range(2))
            self.named_ones = nn.ParameterDict({"k": nn.Parameter(np.ones(4, np.float32))})

        def forward(self, value: build.Value) -> build.Value:
            return value * self.all[0] + self.all[1] - self.named_ones["k"]

    assert list(Listed().state_dict()) == ["all.0", "all.1", "named_ones.k"]
    np.testing.assert_array_equal(built(Listed())(np.ones((1, 4), np.float32))["y"], np.zeros((1, 4)))


def test_residual() -> None:
    net, array = nn.Residual(nn.Linear(4, 4), nn.Identity()), np.ones((1, 4), np.float32)
    inner = built(net.module)(array)["y"]
    np.testing.assert_allclose(built(net)(array)["y"], inner + 1, rtol=1e-6)


def test_how_modules_are_shown() -> None:
    assert repr(nn.Conv2d(3, 8, 3)).startswith("Conv2d(in_channels=3, out_channels=8, groups=1, kernel_size=(3, 3)")
    assert repr(nn.Sequential(nn.ReLU())) == "Sequential(\n  (0): ReLU()\n)"
    assert repr(nn.Linear(2, 3).weight) == "<parameter linear.weight: float32 (3, 2)>"


@pytest.mark.parametrize("program", ["from onnxlift.build import nn, init, op; nn.Linear(2, 3)"])
def test_torch_stays_out(program: str) -> None:
    import subprocess
    import sys

    check = f"{program}; import sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)

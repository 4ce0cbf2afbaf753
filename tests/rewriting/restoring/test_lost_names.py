"""Parameters whose names PyTorch's older exporter has lost."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn
from torch.nn import functional as F

import onnxlift
from onnxlift.ir.load import load
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.rewriting.restoring import lost_names
from onnxlift.rewriting.stages import NORMAL_FORM
from onnxlift.stages import Record
from rewriting.idioms.attention.multihead_layers import exported

Change = Callable[[Tensor], Tensor]
IMAGE = torch.randn(2, 3, 8, 8)
BATCH = [{0: "batch"}]


class Scale(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.register_parameter(name, nn.Parameter(1e-5 * torch.ones(6)))

    def forward(self, x: Tensor) -> Tensor:
        return x * getattr(self, self.name).view(1, -1, 1, 1)


class Scaled(nn.Module):
    """A block whose branches have scales in modules of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(6, 6, 3, padding=1)
        self.ls1 = Scale("gamma")
        self.conv2 = nn.Conv2d(6, 6, 1)
        self.layer_scale2 = Scale("scale")

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.ls1(self.conv1(x))
        return F.relu(self.layer_scale2(self.conv2(x)))


class Block(nn.Module):
    """A block that scales its branches itself, as the first PoolFormer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(6, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 6, 1)
        self.layer_scale_1 = nn.Parameter(1e-5 * torch.ones(6))
        self.layer_scale_2 = nn.Parameter(1e-5 * torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.layer_scale_1.unsqueeze(-1).unsqueeze(-1) * self.conv1(x)
        return x + self.layer_scale_2.unsqueeze(-1).unsqueeze(-1) * self.conv2(x)


class Norm(nn.Module):
    """A norm over channels, as in ConvNeXt and SAM."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))
        self.bias = nn.Parameter(torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        x = x - x.mean(1, keepdim=True)
        x = x / torch.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class Net(nn.Module):
    def __init__(self, block: type[nn.Module], count: int = 2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 2, stride=2)
        self.blocks = nn.Sequential(*(block() for _ in range(count)))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(self.stem(x))


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("block", [Scaled, Block, Norm])
def test_scales_and_shifts_by_channel_come_back(block: type[nn.Module], trained: bool) -> None:
    network = Net(block).eval()
    lifted = onnxlift.convert(exported(network, (IMAGE,), sizes=BATCH, trained=trained))
    ours = dict(lifted.named_parameters())
    assert ours.keys() == dict(network.named_parameters()).keys()
    assert all(torch.equal(ours[name], parameter) for name, parameter in network.named_parameters())
    torch.testing.assert_close(lifted(IMAGE), network(IMAGE), rtol=1e-4, atol=1e-5)


def test_inputs_are_scaled_by_no_parameter() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.tensor([0.485313, 0.456217, 0.406771]))
            self.conv = nn.Conv2d(3, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.conv(x * self.mean.view(1, -1, 1, 1))

    lifted = onnxlift.convert(exported(Scaled(), (IMAGE,)))
    assert {*dict(lifted.named_parameters())} == {"conv.weight", "conv.bias"}


def positions(module: nn.Module, n: int) -> dict[str, Change]:
    weight = module.embed_positions.weight
    return {
        "arange": lambda x: x + module.embed_positions(torch.arange(n)),
        "slice": lambda x: x + weight[: x.shape[1]],
        "new axis": lambda x: x + weight[None],
    }


class Positions(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.conv = nn.Conv1d(3, 8, 3, padding=1)
        self.embed_positions = nn.Embedding(10, 8)
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(positions(self, 10)[self.way](self.conv(x).transpose(1, 2)))


class Whisper(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.encoder = Positions(way)
        self.decoder = Positions("arange")
        self.decoder.embed_positions = nn.Embedding(12, 8)

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        y = self.decoder.embed_positions.weight[: ids.shape[1]]
        return self.encoder(x).mean(1, keepdim=True) + self.decoder.fc(y)


SOUND = torch.randn(2, 3, 10)


@pytest.mark.parametrize("way", ["arange", "slice"])
def test_a_table_of_positions_comes_back(way: str) -> None:
    network = Positions(way)
    lifted = onnxlift.convert(exported(network, (SOUND,)))
    assert torch.equal(lifted.embed_positions.weight, network.embed_positions.weight)
    assert {*dict(lifted.named_parameters())} == {*dict(network.named_parameters())}


@pytest.mark.parametrize("way", ["arange", "new axis"])
@pytest.mark.parametrize("waves", [True, False])
def test_another_table_tells_the_name(way: str, waves: bool) -> None:
    network = Whisper(way)
    exported(network, (SOUND, torch.zeros(2, 5, dtype=torch.int64)))  # gives the parameters their values
    if waves:
        angles = torch.arange(10)[:, None] * torch.exp(-torch.arange(4) * math.log(100) / 4)
        network.encoder.embed_positions.weight.data = torch.cat((angles.sin(), angles.cos()), 1)
    model = exported(network, (SOUND, torch.zeros(2, 5, dtype=torch.int64)), sizes=[{}, {1: "length"}], trained=False)
    lifted = onnxlift.convert(model)
    assert torch.equal(lifted.encoder.embed_positions.weight, network.encoder.embed_positions.weight)


# Single rules, on small graphs

RANDOM = np.random.default_rng(3)
TRAINED = RANDOM.normal(size=(4, 1, 1)).astype(np.float32)
TABLE = RANDOM.normal(size=(4, 5, 5)).astype(np.float32)


def restored(
    body: str, names: str = "/block/A /block/B /block/C", producer: str = "pytorch", **arrays: np.ndarray
) -> list[str]:
    """The keys that are found in a graph whose nodes have these names, and which reads onnx::Mul_8 and the like as m
    and n."""
    text = f'<ir_version: 9, opset_import: ["" : 17]> g (float[2, 4, 5, 5] x) => (float[N, A, B, C] y) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    model.producer_name = producer
    made_up = {"m": "onnx::Mul_8", "n": "onnx::Add_9"}
    stored = {"stem.weight": RANDOM.normal(size=(4, 4, 1, 1)).astype(np.float32), **arrays}
    for node, name in zip(model.graph.node, ["/stem/Conv", *names.split()], strict=False):
        node.name = name
        node.input[:] = [made_up.get(value, "stem.weight" if value == "w" else value) for value in node.input]
    for name, array in stored.items():
        model.graph.initializer.append(numpy_helper.from_array(array, made_up.get(name, name)))
        if name in arrays and "." in name:  # or it would go, since nobody reads it
            model.graph.node.append(helper.make_node("Relu", [name], [f"{name}.result"], f"/other/{name}"))
            model.graph.output.append(helper.make_tensor_value_info(f"{name}.result", 1, array.shape))
    before = {*made_up.values(), *stored}
    found = load(model)
    Record().run(NORMAL_FORM, found)
    count = lost_names.run(found)
    new = [name for name, value in found.graph.initializers.items() if name not in before and origin_of(value).key]
    assert len(new) == count
    return new


SCALED = "c = Conv(x, w) y = Mul(c, m)"
ADDED = "c = Conv(x, w) d = Mul(c, m) y = Add(c, d)"


def test_a_scale_is_called_by_its_module() -> None:
    assert restored(SCALED, "/ls/Mul", m=TRAINED) == ["ls.gamma"]
    assert restored(SCALED, "/layer_scale1/Mul", m=TRAINED) == ["layer_scale1.scale"]
    assert restored(SCALED, "/Mul", m=TRAINED) == ["gamma"]


def test_a_scale_is_alone_or_behind_a_branch_or_looks_trained() -> None:
    ones, window = np.ones((4, 1, 1), np.float32), np.hanning(5)[1:, None, None].astype(np.float32)
    beside = "c = Conv(x, w) d = Mul(c, m) y = Relu(d)"
    assert restored(SCALED, m=ones) == ["block.gamma"]
    assert restored(ADDED, m=ones) == ["block.gamma"]
    assert restored(beside, m=ones) == []
    assert restored(beside, m=TRAINED) == ["block.gamma"]
    assert restored(beside, m=window) == []
    assert (
        restored("c = Conv(x, w) d = Mul(c, m) y = Add(d, stem.other)".replace("stem.other", "o"), m=ones, o=TRAINED)
        == []
    )


def test_several_scales_have_numbers() -> None:
    body = "c = Conv(x, w) d = Mul(c, m) e = Relu(d) y = Mul(e, n)"
    assert restored(body, m=TRAINED, n=2 * TRAINED) == ["block.layer_scale_1", "block.layer_scale_2"]


def test_one_constant_for_several_is_told_by_its_numbers() -> None:
    body = "c = Conv(x, w) d = Mul(c, m) e = Add(c, d) f = Mul(e, m) y = Add(e, f)"
    names = "/block/A /block/B /block/C /block/D"
    assert restored(body, names, m=np.ones((4, 1, 1), np.float32)) == ["block.layer_scale_1", "block.layer_scale_2"]
    assert restored(body, names, m=TRAINED) == ["block.gamma"]


@pytest.mark.parametrize(
    ("body", "arrays", "options"),
    [
        (SCALED, {"m": TRAINED}, {"producer": "tf2onnx"}),
        (SCALED, {"m": TRAINED}, {"names": "Mul_1"}),
        ("c = Add(x, o) y = Mul(c, m)", {"m": TRAINED, "o": TRAINED}, {}),
        ("c = Relu(x) y = Mul(c, m)", {"m": TRAINED}, {}),
        (SCALED, {"m": TRAINED[:1]}, {}),
        (SCALED.replace("Mul(", "Div("), {"m": TRAINED}, {}),
        (SCALED, {"m": TABLE[:, :, :1]}, {}),
        (SCALED, {"m": TRAINED, "block.gamma": TRAINED[:2]}, {}),
        (SCALED, {"m": np.stack([TRAINED] * 2)[None, :1]}, {}),
    ],
    ids=["exporter", "no scope", "shifted input", "input", "number", "quotient", "matrix", "taken", "more axes"],
)
def test_other_constants_are_no_scales(body: str, arrays: dict[str, np.ndarray], options: dict[str, str]) -> None:
    assert restored(body, **options, **arrays) == []


AFFINE = "c = Conv(x, w) d = Mul(c, m) y = Add(d, n)"


def test_scale_and_shift_are_weight_and_bias() -> None:
    assert restored(AFFINE, m=TRAINED, n=2 * TRAINED) == ["block.weight", "block.bias"]
    assert restored(AFFINE, "/a/A /b/B", m=TRAINED, n=2 * TRAINED) == ["a.gamma"]
    taken = {"block.bias": TRAINED[:2]}
    assert restored(AFFINE, m=TRAINED, n=2 * TRAINED, **taken) == ["block.gamma"]
    assert restored(AFFINE.replace("Add", "Sub"), m=TRAINED, n=2 * TRAINED) == ["block.gamma"]


def test_a_table_is_called_by_its_axes_or_like_another() -> None:
    body = "c = Conv(x, w) y = Add(c, n)"
    assert restored(body, n=TABLE) == ["block.pos_embed"]
    assert restored(body, n=TABLE[0]) == ["block.embed_positions.weight"]
    assert restored(body, n=TABLE, **{"other.pos": TABLE}) == ["block.pos"]
    assert restored(body, n=TABLE, **{"other.pos": TABLE, "other.pos_embedding": TABLE}) == ["block.pos_embed"]
    assert restored(body, n=TABLE, **{"other.pos": TABLE[0, 0]}) == ["block.pos_embed"]


def test_a_table_looks_trained_and_is_no_wave() -> None:
    body = "c = Conv(x, w) y = Add(c, n)"
    angles = np.arange(5)[:, None] * np.array([1.0, 0.3, 1.0, 0.3, 1.0])
    waves = np.where(np.arange(5) % 4 < 2, np.sin(angles), np.cos(angles)).astype(np.float32)[:, :4]
    assert restored(body, n=np.arange(25, dtype=np.float32).reshape(5, 5)) == []
    text = body.replace("y = Add", "t = Slice(c, zero, four, three) y = Add").replace("(c, n)", "(t, n)")
    sizes = {"zero": np.array([0]), "four": np.array([4]), "three": np.array([3])}
    names = "/block/A /block/B"
    assert restored(text, names, n=waves + np.float32(0.1), **sizes) == ["block.embed_positions.weight"]
    assert restored(text, names, n=waves, **sizes) == []
    assert restored(text, names, n=waves, **sizes, **{"other.pos": TABLE}) == ["block.pos"]


@pytest.mark.parametrize(
    "body",
    [
        "c = Conv(x, w) d = Add(c, n) y = Softmax(d)",
        "c = Conv(x, w) s = MatMul(c, c) y = Add(s, n)",
        "c = Conv(x, w) s = MatMul(c, c) t = Mul(s, half) y = Add(t, n)",
    ],
    ids=["softmax", "product", "scaled product"],
)
def test_what_is_added_to_scores_is_no_table_of_positions(body: str) -> None:
    names = "/block/A /block/B /block/C"
    assert restored(body, names, n=TABLE, half=np.array(0.5, np.float32)) == []


def test_a_module_has_one_table() -> None:
    body = "c = Conv(x, w) d = Add(c, m) y = Add(d, n)"
    assert restored(body, m=TABLE, n=2 * TABLE) == []

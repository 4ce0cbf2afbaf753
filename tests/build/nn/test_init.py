"""First numbers of parameters: what the formulas say, the same bytes each time, and as PyTorch's layers have them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from onnxlift import build
from onnxlift.build import init, nn

SHAPE = (300, 40, 3, 3)
FAN_IN, FAN_OUT = 360, 2700


@pytest.mark.parametrize(
    ("made_by", "bound"),
    [
        (init.uniform(-0.3, 0.3), 0.3),
        (init.kaiming_uniform(), np.sqrt(6 / FAN_IN)),
        (init.he_uniform(a=5**0.5), np.sqrt(1 / FAN_IN)),
        (init.kaiming_uniform(mode="fan_out", nonlinearity="tanh"), 5 / 3 * np.sqrt(3 / FAN_OUT)),
        (init.xavier_uniform(gain=2.0), 2 * np.sqrt(6 / (FAN_IN + FAN_OUT))),
        (init.glorot_uniform(), np.sqrt(6 / (FAN_IN + FAN_OUT))),
        (init.lecun_uniform(), np.sqrt(3 / FAN_IN)),
    ],
    ids=repr,
)
def test_bounds(made_by: init.Initialiser, bound: float) -> None:
    array = made_by(SHAPE)
    assert array.dtype == np.float32 and array.shape == SHAPE
    assert 0.999 * bound < array.max() <= bound * 1.0001 and -bound * 1.0001 <= array.min() < -0.999 * bound
    assert abs(array.mean()) < 0.01 * bound and array.std() == pytest.approx(bound / np.sqrt(3), rel=0.01)


@pytest.mark.parametrize(
    ("made_by", "std"),
    [
        (init.normal(std=0.02), 0.02),
        (init.kaiming_normal(), np.sqrt(2 / FAN_IN)),
        (init.he_normal(mode="fan_out", nonlinearity="linear"), np.sqrt(1 / FAN_OUT)),
        (init.kaiming_normal(mode="fan_avg"), np.sqrt(4 / (FAN_IN + FAN_OUT))),
        (init.xavier_normal(), np.sqrt(2 / (FAN_IN + FAN_OUT))),
        (init.glorot_normal(gain=3.0), 3 * np.sqrt(2 / (FAN_IN + FAN_OUT))),
        (init.lecun_normal(), np.sqrt(1 / FAN_IN)),
    ],
    ids=repr,
)
def test_standard_deviations(made_by: init.Initialiser, std: float) -> None:
    array = made_by(SHAPE)
    assert array.std() == pytest.approx(std, rel=0.01) and abs(array.mean()) < 0.01 * std
    assert 4 * std < abs(array).max() < 7 * std  # as far out as a normal distribution goes


@pytest.mark.parametrize("nonlinearity", ["relu", "tanh", "selu", "linear", "sigmoid", "conv2d", "leaky_relu"])
def test_gains_and_fans_are_those_of_pytorch(nonlinearity: str) -> None:
    assert init.calculate_gain(nonlinearity) == pytest.approx(torch.nn.init.calculate_gain(nonlinearity))  # type: ignore[arg-type]
    assert init.fans(SHAPE) == torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(SHAPE))


def test_truncated_normal() -> None:
    array = init.trunc_normal(mean=1.0, std=2.0, a=-1.0, b=4.0)((200, 300))
    assert array.min() >= -1 and array.max() <= 4
    expected = torch.nn.init.trunc_normal_(torch.empty(200, 300), 1.0, 2.0, -1.0, 4.0)
    assert array.mean() == pytest.approx(expected.mean().item(), abs=0.02)
    assert array.std() == pytest.approx(expected.std().item(), abs=0.02)


@pytest.mark.parametrize("shape", [(20, 50), (50, 20), (12, 3, 3, 3), (30, 30)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    matrix = init.orthogonal(gain=2.0)(shape, dtype=np.float64).reshape(shape[0], -1)
    product = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


def test_constants() -> None:
    assert init.constant(3.5)((2,)).tolist() == [3.5, 3.5]
    assert init.ones()((2,)).tolist() == [1, 1] and init.zeros()((2,), dtype=np.int64).dtype == np.int64


def test_the_same_bytes_each_time() -> None:
    every = [
        init.uniform(), init.normal(), init.trunc_normal(), init.kaiming_uniform(), init.kaiming_normal(),
        init.xavier_uniform(), init.xavier_normal(), init.lecun_uniform(), init.lecun_normal(), init.orthogonal(),
    ]  # fmt: skip
    for each in every:
        assert each((9, 7), seed=1, name="w").tobytes() == each((9, 7), seed=1, name="w").tobytes()
        assert (each((9, 7), seed=1, name="w") != each((9, 7), seed=2, name="w")).any()
        assert (each((9, 7), seed=1, name="w") != each((9, 7), seed=1, name="v")).any()
    digest = hashlib.sha256(init.normal()((100,), seed=3, name="fc1.weight").tobytes()).hexdigest()
    assert digest.startswith("5c0d5b4b4709ebbf")


def test_shorter_floats_are_those_numbers_rounded() -> None:
    wide = init.normal()((50,), seed=4)
    assert (init.normal()((50,), seed=4, dtype=np.float16) == wide.astype(np.float16)).all()


def test_numbers_of_files(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "w.npy", array)
    save_file({"fc.weight": array * 2}, tmp_path / "w.safetensors")
    np.testing.assert_array_equal(init.from_array(array)((2, 3)), array)
    np.testing.assert_array_equal(init.from_file(tmp_path / "w.npy")((2, 3)), array)
    np.testing.assert_array_equal(init.from_file(f"{tmp_path}/w.safetensors:fc.weight")((2, 3)), array * 2)
    linear = nn.Linear(3, 2)
    linear.weight.init = init.from_file(tmp_path / "w.npy")
    np.testing.assert_array_equal(linear.weight.numpy(), array)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Linear", (300, 200)),
        ("Conv2d", (30, 40, 5)),
        ("ConvTranspose2d", (30, 40, 5)),
        ("Embedding", (300, 40)),
        ("LSTM", (60, 70)),
        ("GRU", (60, 70, 2)),
        ("MultiheadAttention", (96, 4)),
        ("BatchNorm2d", (4,)),
        ("LayerNorm", (5,)),
        ("PReLU", (3,)),
        ("Bilinear", (30, 20, 80)),
    ],
)
def test_layers_begin_as_those_of_pytorch(name: str, arguments: Any) -> None:
    """By the spread of the numbers, which tells all of PyTorch's distributions apart."""
    torch.manual_seed(0)
    ours, theirs = getattr(nn, name)(*arguments), getattr(torch.nn, name)(*arguments)
    for key, array in ours.state_dict().items():
        expected = theirs.state_dict()[key].numpy()
        few = array.size < 1000
        assert array.std() == pytest.approx(expected.std(), rel=0.3 if few else 0.05), key
        assert abs(array).max() == pytest.approx(
            abs(expected).max(), rel=0.25 if few or name == "Embedding" else 0.02
        ), key


class Net(nn.Module):
    def __init__(self, deeper: bool = False) -> None:
        self.first = nn.Linear(4, 4)
        if deeper:
            self.between = nn.Linear(4, 4)
        self.last = nn.Linear(4, 4)

    def forward(self, x: build.Value) -> build.Value:
        return self.last(self.first(x))


def test_a_layer_more_changes_no_other_weights() -> None:
    small, large = Net().state_dict(), Net(deeper=True).state_dict()
    assert all(small[key].tobytes() == large[key].tobytes() for key in small)
    assert (small["first.weight"] != small["last.weight"]).any()
    assert (large["between.weight"] != small["last.weight"]).any()


def test_seeds() -> None:
    plain = Net().state_dict()
    with init.seed(7):
        seeded = Net()
    assert (seeded.state_dict()["first.weight"] != plain["first.weight"]).any()
    again = Net().initialise(seed=7)
    assert all(again.state_dict()[key].tobytes() == array.tobytes() for key, array in seeded.state_dict().items())


def test_numbers_are_the_same_wherever_they_are_asked_for() -> None:
    alone = Net().last.weight.numpy()
    net = Net()
    x = build.input("x", "float32", [1, 4])
    model = build.model([x], {"y": net(x)})
    weight = model.model.graph.initializers["last.weight"].const_value
    assert weight is not None
    assert alone.tobytes() == weight.numpy().tobytes() == Net().state_dict()["last.weight"].tobytes()


def test_initialisers_by_pattern() -> None:
    net = Net().initialise({"first.weight": init.ones(), "*.weight": init.constant(2.0), "*.bias": init.constant(3)})
    assert {key: array.flat[0] for key, array in net.state_dict().items()} == {
        "first.weight": 1, "first.bias": 3, "last.weight": 2, "last.bias": 3,
    }  # fmt: skip

"""Instance normalisation by the statistics of training."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift

from .recognising import assert_same_numbers, parse

TEXT = """n = Shape <start = 0, end = 1> (x) j = Reshape(x, joined)
    w = Tile("norm.weight", n) b = Tile("norm.bias", n) m = Tile("norm.running_mean", n) v = Tile("norm.running_var", n)
    z = BatchNormalization <epsilon = 0.001, momentum = 0.8> (j, w, b, m, v) y = Reshape(z, shape)"""
FILLED = TEXT.replace("norm.weight", "val_1").replace("norm.bias", "val_2")


def model(text: str = TEXT, outputs: str = "", **changed: object) -> onnx.ModelProto:
    names = [f"norm.{name}" for name in ("weight", "bias", "running_mean")]
    given = dict.fromkeys(names, (4,)) | {"norm.running_var": np.float32([0.5, 1.5, 2.0, 0.7])}
    given |= {"val_1": np.ones(4, np.float32), "val_2": np.zeros(4, np.float32), "u": (4,)}
    given |= {"joined": np.array([1, -1, 5, 6]), "shape": np.array([-1, 4, 5, 6])} | changed
    used = {
        name: value for name, value in given.items() if f'"{name}"' in text or f"{name})" in text or f"{name}," in text
    }
    for name in ("val_1", "val_2", "u"):
        text = text.replace(f'"{name}"', name)
    return parse(f"g (float[batch, 4, 5, 6] x) => (float[batch, 4, 5, 6] y{outputs}) {{ {text} }}", **used)


def source(proto: onnx.ModelProto) -> str:
    assert_same_numbers(proto)
    return onnxlift.lift(proto).source


def test_the_layer() -> None:
    layer = "self.norm = nn.InstanceNorm2d(4, eps=0.001, momentum=0.2, affine=True, track_running_stats=True)"
    assert layer in " ".join(source(model()).split()).replace("( ", "(").replace(" )", ")")
    keys = [f"norm.{name}" for name in ("bias", "running_mean", "running_var", "weight")]
    assert sorted(onnxlift.lift(model()).state_dict) == keys


def test_without_weights() -> None:
    assert "nn.InstanceNorm2d(4, eps=0.001, momentum=0.2, track_running_stats=True)" in source(model(FILLED))


def test_one_of_two_fillers_is_a_weight() -> None:
    assert "affine=True" in source(model(FILLED, val_1=np.float32([1, 1, 2, 1])))


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("(x, joined)", "(x, joined)", {"joined": np.array([1, -1, 6, 5])}),
        ("(j, w, b, m, v)", "(j, w, b, m, e)", {}),
        ("y = Reshape(z, shape)", "q = Exp(z) y = Reshape(q, shape)", {}),
    ],
)
def test_what_is_none(old: str, new: str, changed: dict[str, object]) -> None:
    text = TEXT.replace(old, new).replace("z =", "e = Exp(v) z =")
    assert "InstanceNorm" not in source(model(text, **changed))


@pytest.mark.parametrize("value", ["j", "z"])
def test_a_value_that_is_read_elsewhere(value: str) -> None:
    text = f"{TEXT} o = Identity({value})"
    assert "InstanceNorm" not in source(model(text, ", float[1, many, 5, 6] o"))

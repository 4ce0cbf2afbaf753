"""Instance normalisation by the statistics of training."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import onnxlift
from onnxlift.ir.graph.walk import all_nodes
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.norms import tracked_instance_norm
from rewriting.idioms.recognising import Data, assert_same_numbers, parse, simplified
from rewriting.running_stages import normalise

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


def folded(name: str = "val_{}", rows: int = 2, noise: float = 0.0) -> onnx.ModelProto:
    """Two images of four channels, whose statistics an exporter has repeated for each image."""
    random = np.random.default_rng(3)
    vectors = [random.uniform(0.5, 2, 4).astype(np.float32) for _ in range(4)]
    given = {name.format(i): np.tile(vector, rows) for i, vector in enumerate(vectors)}
    given[name.format(3)][-1] += np.float32(noise)
    weights = ", ".join(f'"{each}"' for each in given)
    text = f"j = Reshape(x, joined) z = BatchNormalization (j, {weights}) y = Reshape(z, shape)"
    shapes = {"joined": np.array([1, 8, 5, 6]), "shape": np.array([2, 4, 5, 6])}
    return parse(f"g (float[2, 4, 5, 6] x) => (float[2, 4, 5, 6] y) {{ {text} }}", **given, **shapes)


def test_statistics_that_an_exporter_has_repeated() -> None:
    assert "nn.InstanceNorm2d(4, affine=True, track_running_stats=True)" in source(folded())
    assert {array.shape for array in onnxlift.lift(folded()).state_dict.values()} == {(4,)}


def test_numbers_that_nobody_has_repeated() -> None:
    assert "InstanceNorm" not in source(folded(noise=0.5))
    assert "InstanceNorm" not in source(folded("norm.weight_{}"))  # a batch norm of eight channels, before training


@pytest.mark.parametrize("is_affine", [True, False])
@pytest.mark.parametrize("dynamo", [True, False])
def test_what_exporters_write_for_a_fixed_batch(tmp_path: Path, is_affine: bool, dynamo: bool) -> None:
    torch.manual_seed(5)
    layer = nn.InstanceNorm1d(4, affine=is_affine, track_running_stats=True)
    for tensor in layer.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand_like(tensor) + 0.5)
    model, x = nn.Sequential(nn.Conv1d(3, 4, 1), layer).eval(), torch.randn(2, 3, 5)
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(model, (x,), tmp_path / "m.onnx", dynamo=dynamo, verbose=False, external_data=False)
    lifted = onnxlift.lift(tmp_path / "m.onnx").module()
    state = model.state_dict()
    assert {key: value.tolist() for key, value in lifted.state_dict().items()} == {
        key: value.tolist() for key, value in state.items()
    }
    torch.testing.assert_close(lifted(x), model(x))


def test_the_other_of_two_fillers_is_a_bias() -> None:
    assert "affine=True" in source(model(FILLED, val_2=np.float32([0, 0, 2, 0])))


def test_a_result_of_another_shape_stays() -> None:
    proto = model(shape=np.array([-1, 4, 6, 5]))
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    assert "InstanceNorm" not in source(proto)


def test_statistics_of_half_the_channels_stay() -> None:
    text = TEXT.replace('m = Tile("norm.running_mean", n)', "n2 = Mul(n, two) m = Tile(u, n2)")
    assert "InstanceNorm" not in source(model(text, u=(2,), two=np.array([2])))


REPEATED = "j = Reshape(x, joined) z = BatchNormalization (j, val_1, val_2, val_3, val_4) y = Reshape(z, whole)"


def operators(
    text: str, shape: str, joined: tuple[int, ...], opset: int = 18, size: int = 8, **known: Data
) -> set[str]:
    """What is left of a normalisation whose statistics an exporter has repeated, without numbers: some of these models
    are of a training or of types that ONNX Runtime does not run."""
    vector = np.tile(np.random.default_rng(3).uniform(0.5, 2, max(size // 2, 1)).astype(np.float32), 2)[:size]
    given: dict[str, Data] = {f"val_{i}": vector for i in range(1, 5)} | {"joined": np.array(joined)} | known
    proto = parse(f"g ({shape} x) => (y) {{ {text} }}", opset, **given)
    if "whole)" in text and "whole" not in known:
        sizes = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(sizes), "whole"))
    return {node.op_type for node in simplified(proto).graph}


TRAINING = REPEATED.replace("zation (", "zation <training_mode = 1> (").replace("z =", "z, f, g =")


@pytest.mark.parametrize(
    ("text", "shape", "joined", "opset"),
    [
        (REPEATED, "float[2, 4]", (1, 8), 18),
        (REPEATED, "float[2, 4, 2, 3, 2, 3]", (1, 8, 2, 3, 2, 3), 18),
        (REPEATED, "float16[2, 4, 5]", (1, 8, 5), 18),
        (TRAINING, "float[2, 4, 5]", (1, 8, 5), 18),
        (REPEATED.replace("z =", "z, f, g, h, i ="), "float[2, 4, 5]", (1, 8, 5), 9),
    ],
    ids=["two axes", "six axes", "another type", "in training", "in training, as once written"],
)
def test_what_no_layer_does(text: str, shape: str, joined: tuple[int, ...], opset: int) -> None:
    assert "TrackedInstanceNorm" in operators(REPEATED, "float[2, 4, 5]", (1, 8, 5))
    assert "BatchNormalization" in operators(text, shape, joined, opset)


def test_a_layer_in_training_whose_result_has_a_known_shape_stays() -> None:
    given: dict[str, Data] = {f"val_{i}": np.float32([1.5, 0.7, 1.5, 0.7]) for i in range(1, 5)}
    shapes = {"joined": np.array([1, 4, 5]), "whole": np.array([2, 2, 5])}
    proto = parse(f"g (float[2, 2, 5] x) => (float[2, 2, 5] y) {{ {TRAINING} }}", **given, **shapes)
    assert "BatchNormalization" in {node.op_type for node in simplified(proto).graph}


def test_a_layer_in_training_of_which_only_the_result_is_asked_stays() -> None:
    """ONNX wants three outputs then; in a branch, which may never run, that is not told."""
    then = TRAINING.replace("z, f, g =", "z =")
    text = f"""q = If (t) <
        then_branch = a () => (float[2, 4, 5] y) {{ {then} }}, else_branch = b () => (float[2, 4, 5] e) {{ e = Neg(x) }}
    >"""
    vector = np.float32([0.5, 1.5, 2.0, 0.7] * 2)
    given: dict[str, Data] = {f"val_{i}": vector for i in range(1, 5)}
    given |= {"joined": np.array([1, 8, 5]), "whole": np.array([2, 4, 5])}
    graph = simplified(parse(f"g (bool t, float[2, 4, 5] x) => (q) {{ {text} }}", **given)).graph
    assert "BatchNormalization" in {node.op_type for node in all_nodes(graph)}


def test_statistics_of_another_type_stay() -> None:
    text = TEXT.replace("Reshape(x, joined)", "Reshape(h, joined)").replace(
        "n = Shape", "h = Cast <to = 10> (x) n = Shape"
    )
    assert "BatchNormalization" in {node.op_type for node in simplified(model(text)).graph}


def test_vectors_of_a_size_that_cannot_be_do_no_harm() -> None:
    whole = np.array([2, -1, 5])
    assert "BatchNormalization" in operators(REPEATED, "float[2, c, 5]", (1, -1, 5), size=9, whole=whole)


def test_no_images_have_no_statistics() -> None:
    text = REPEATED.replace("Reshape", "Reshape <allowzero = 1> ")
    assert "TrackedInstanceNorm" not in operators(text, "float[0, 4, 5]", (1, 0, 5), size=0)


def test_constants_of_any_name_may_be_repeated() -> None:
    numbers = ", ".join(["0.5, 1.5, 2.0, 0.7"] * 2)
    constants = " ".join(f"{name} = Constant <value_floats = [{numbers}]> ()" for name in "abcd")
    text = constants + REPEATED.replace("val_1, val_2, val_3, val_4", "a, b, c, d")
    assert "TrackedInstanceNorm" in operators(text, "float[2, 4, 5]", (1, 8, 5))


def test_what_comes_after_need_not_be_a_reshape() -> None:
    """A batch of one image: a graph that is not simplified reshapes it to what it is."""
    text = REPEATED.replace("y = Reshape(z, whole)", "y = Exp(z)")
    vector = np.float32([0.5, 1.5, 2.0, 0.7])
    given: dict[str, Data] = {f"val_{i}": vector for i in range(1, 5)} | {"joined": np.array([1, 4, 5])}
    graph = load(parse(f"g (float[1, 4, 5] x) => (float[1, 4, 5] y) {{ {text} }}", **given))
    normalise(graph)
    assert tracked_instance_norm.run(graph) == 0

"""Two vectors on both sides of a matrix."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.layers import bilinear
from rewriting.idioms.recognising import Data, assert_same_numbers, parse
from rewriting.running_stages import normalise

LAYER = """p = MatMul(x, m) c = Reshape(p, cut) u = Unsqueeze(z, last) r = MatMul(c, u) s = Squeeze(r, last)
    y = Add(s, "pair.bias")"""
TURNED = 't = Transpose <perm = [1, 0, 2]> ("pair.weight") m = Reshape(t, flat)'


def model(text: str = LAYER, outputs: str = "float[batch, seq, 3] y", **changed: object) -> onnx.ModelProto:
    """Vectors of 4 and 6 features, and 3 outputs."""
    shapes = {"cut": np.array([0, 0, 3, 6]), "flat": np.array([4, 18]), "last": np.array([-1])}
    given = shapes | {"m": (4, 18), "pair.weight": (3, 4, 6), "pair.bias": (3,), "e": 1.5, **changed}
    used = {name: value for name, value in given.items() if any(f"{q}{name}{q}" in text for q in ('"', ""))}
    if " m = " in text:
        del used["m"]
    return parse(f"g (float[batch, seq, 4] x, float[batch, seq, 6] z) => ({outputs}) {{ {text} }}", **used)


def written(proto: onnx.ModelProto) -> str:
    assert_same_numbers(proto)
    return onnxlift.lift(proto).source


@pytest.mark.parametrize(
    "text",
    [LAYER, f"{TURNED} {LAYER}", LAYER.replace("s, ", "").replace('"pair.bias")', '"pair.bias", s)')],
)
def test_the_layer(text: str) -> None:
    source = written(model(text))
    assert "nn.Bilinear(4, 6, 3)" in source and "return self.pair(x, z)" in source


def test_without_a_bias() -> None:
    text = LAYER.replace("s = ", "y = ").partition("y = Add")[0]
    assert "nn.Bilinear(4, 6, 3, bias=False)" in written(model(text))


def test_the_weight_is_the_originals() -> None:
    proto = model(f"{TURNED} {LAYER}")
    weight = next(tensor for tensor in proto.graph.initializer if tensor.name == "pair.weight")
    assert np.array_equal(onnxlift.lift(proto).state_dict["pair.weight"], onnx.numpy_helper.to_array(weight))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("MatMul(c, u)", "MatMul(c, n)"),  # another column
        ("MatMul(x, m)", "MatMul(x, k)"),  # a weight for each of a batch
        ('"pair.bias"', "e"),  # a number, and no bias
        ('"pair.bias"', "n"),
    ],
)
def test_what_is_none_or_has_another_bias(old: str, new: str) -> None:
    text = LAYER.replace(old, new).replace(" r =", " n = Exp(u) r =" if "c, n" in new else " r =")
    text = text.replace("y = Add", "n = Exp(s) y = Add") if new == "n" else text
    assert "nn.Bilinear(4, 6, 3)" not in written(model(text, k=(1, 4, 18)))


@pytest.mark.parametrize("value", ["p", "c", "r", "s"])
def test_a_value_that_is_read_elsewhere(value: str) -> None:
    shapes = {"p": "18", "c": "3, 6", "r": "3, 1", "s": "3"}
    text = f"{LAYER} o = Identity({value})"
    source = written(model(text, f"float[batch, seq, 3] y, float[batch, seq, {shapes[value]}] o"))
    assert "nn.Bilinear(4, 6, 3)" not in source


def test_another_order_of_axes() -> None:
    text = f"{TURNED.replace('[1, 0, 2]', '[1, 2, 0]')} {LAYER}"
    assert "nn.Bilinear" not in written(model(text))


def vectors(x: str, z: str, y: str, text: str, opset: int = 18, dtype: str = "float", **known: Data) -> onnx.ModelProto:
    """The layer without its bias, for vectors of these shapes; `u`, `c` and `r` are its column, cut and result."""
    return parse(f"g ({dtype}[{x}] x, {dtype}[{z}] z) => ({dtype}[{y}] y) {{ {text} }}", opset, **known)


PARTS = "p = MatMul(x, m) c = Reshape(p, cut) u = Unsqueeze(z, last) r = MatMul(c, u)"
LAST = np.array([-1])


@pytest.mark.parametrize(
    ("x", "z", "y", "known"),
    [
        ("2, 5, 4", "2, 5, 6", "2, 5, 3", {"m": (4, 18), "cut": np.array([2, 5, 3, 6]), "end": np.array([2, 5, 3])}),
        ("2, 5, 4", "1, 5, 6", "2, 5, 3", {"m": (4, 18), "cut": np.array([2, 5, 3, 6]), "end": np.array([2, 5, 3])}),
        ("2, 5, 4", "2, 5, 6", "2, 5, 3", {"m": (4, 18), "cut": np.array([3, 2, 5, 1, 6]), "end": np.array([2, 5, 3])}),
        ("1, 5, 4", "1, 5, 6", "5, 3", {"m": (4, 18), "cut": np.array([5, 3, 6]), "end": np.array([5, 3])}),
        ("4", "6", "", {"m": (4, 6), "cut": np.array([1, 6]), "end": np.array([], np.int64)}),
        ("5, 3", "5, 6", "5, 3", {"m": (3, 3, 6), "cut": np.array([5, 3, 6]), "end": np.array([5, 3])}),
    ],
    ids=[
        "the layer",
        "the same vector for all",
        "outputs in front",
        "an axis less",
        "one output",
        "a stack of weights",
    ],
)
def test_axes_in_front_of_the_features(x: str, z: str, y: str, known: dict[str, Data]) -> None:
    proto = vectors(x, z, y, f"{PARTS} y = Reshape(r, end)", last=LAST, **known)
    is_layer = (x, z) == ("2, 5, 4", "2, 5, 6") and len(known["cut"]) == 4
    assert ("nn.Bilinear(4, 6, 3, bias=False)" in written(proto)) == is_layer


@pytest.mark.parametrize(
    ("z", "y", "known"),
    [
        ("6", "", {"m": (4, 6), "cut": np.array([6]), "last": np.array([1]), "end": np.array([], np.int64)}),
        ("", "3", {"m": (4, 3), "cut": np.array([3, 1]), "last": np.array([0]), "end": np.array([3])}),
    ],
    ids=["as the result", "on one side"],
)
def test_a_number(z: str, y: str, known: dict[str, Data]) -> None:
    shapes = [f"float[{shape}]" if shape else "float" for shape in (z, y)]
    text = f"g (float[4] x, {shapes[0]} z) => ({shapes[1]} y) {{ {PARTS} y = Reshape(r, end) }}"
    graph = load(parse(text, **known))
    normalise(graph)
    assert bilinear.run(graph) == 0


def test_vectors_without_features() -> None:
    text = f"e = Slice(w, zero, zero, last) {PARTS.replace('(z,', '(e,')} y = Squeeze(r, last)"
    known = {"m": (4, 0), "cut": np.array([0, 3, 0]), "last": LAST, "zero": np.array([0])}
    proto = parse(
        "g (float[2, 4] x, float[2, 6] w) => (float[2, 3] y) {"
        + text.replace("Reshape(p, cut)", "Reshape <allowzero = 1> (p, cut)")
        + "}",
        **known | {"cut": np.array([2, 3, 0])},
    )
    assert "nn.Bilinear" not in written(proto)


def test_integers() -> None:
    numbers = np.random.default_rng(2).integers(-9, 9, (4, 18)).astype(np.int32)
    known = {"m": numbers, "cut": np.array([2, 5, 3, 6]), "last": LAST}
    proto = vectors("2, 5, 4", "2, 5, 6", "2, 5, 3", f"{PARTS} y = Squeeze(r, last)", dtype="int32", **known)
    assert "nn.Bilinear" not in written(proto)


@pytest.mark.parametrize(
    ("text", "shape", "is_layer"),
    [
        ("m = Reshape(k, flat)", (4, 3, 6), True),
        ("m = Reshape(k, flat)", (4, 6, 3), False),
        ("m = Reshape(k, flat)", (18, 4), False),
        ("t = Transpose <perm = [1, 0, 2]> (k) m = Reshape(t, flat)", (3, 4, 6), True),
        ("t = Transpose <perm = [1, 0, 2]> (k) m = Reshape(t, flat)", (6, 4, 3), False),
        ("t = Transpose <perm = [2, 0, 1]> (k) m = Reshape(t, flat)", (3, 6, 4), False),
    ],
)
def test_the_matrix_is_made_of_the_weight(text: str, shape: tuple[int, ...], is_layer: bool) -> None:
    known = {"cut": np.array([0, 0, 3, 6]), "last": LAST, "flat": np.array([4, 18]), "k": shape}
    proto = vectors("batch, seq, 4", "batch, seq, 6", "batch, seq, 3", f"{text} {PARTS} y = Squeeze(r, last)", **known)
    assert ("nn.Bilinear(4, 6, 3, bias=False)" in written(proto)) == is_layer


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('y = Add(s, "pair.bias")', 'a = Add(s, "pair.bias") y = Add(a, e)', "nn.Bilinear(4, 6, 3)"),
        ('"pair.bias"', "q", "bias=False"),
    ],
    ids=["twice", "from outside"],
)
def test_what_is_added_twice_or_is_no_parameter(old: str, new: str, line: str) -> None:
    proto = model(LAYER.replace(old, new), e=(3,))
    proto.graph.input.append(onnx.helper.make_tensor_value_info("q", onnx.TensorProto.FLOAT, [3]))
    source = written(proto)
    assert line in source and source.count("nn.Bilinear") == 1 and " + " in source


def test_before_opset_7_a_sum_says_which_axis_it_is_along() -> None:
    text = f"{PARTS.replace('Unsqueeze(z, last)', 'Unsqueeze <axes = [2]> (z)')} s = Squeeze <axes = [2]> (r)"
    proto = vectors(
        "3, 4",
        "3, 6",
        "3, 3",
        f"{text} y = Add <broadcast = 1, axis = 0> (s, b)",
        6,
        m=(4, 18),
        b=(3,),
        cut=np.array([3, 3, 6]),
    )
    x, z = (
        np.random.default_rng(seed).standard_normal((3, size)).astype(np.float32) for seed, size in ((1, 4), (2, 6))
    )
    m, b = (onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer if tensor.name in "mb")
    expected = np.einsum("ia,aob,ib->io", x, m.reshape(4, 3, 6), z) + b[:, None]
    with torch.no_grad():
        result = onnxlift.lift(proto).module()(torch.from_numpy(x), torch.from_numpy(z)).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)

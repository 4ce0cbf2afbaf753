"""Convolutions that pad otherwise than with zeros: what is one layer, and what stays two steps."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.layers import padded_conv
from rewriting.idioms.recognising import Data, found, parse
from rewriting.running_stages import normalise

PADDED = 'p = Pad <mode = "reflect"> (x, pads) y = Conv <strides = [1, 1]> (p, W, B)'
AROUND = [0, 0, 1, 2, 0, 0, 1, 2]


def model(text: str = PADDED, pads: list[int] = AROUND, channels: int = 3, **known: Data) -> onnx.ModelProto:
    given: dict[str, Data] = {"pads": np.array(pads), "W": (4, 3, 3, 3), "B": (4,), **known}
    return parse(f"g (float[batch, {channels}, 6, 7] x) => (float[a, b, c, d] y) {{ {text} }}", 19, **given)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("strides = [1, 1]", 'auto_pad = "VALID", kernel_shape = [3, 3]'),
        ("strides = [1, 1]", "pads = [0, 0, 0, 0]"),
        ("W, B", "W"),
    ],
)
def test_the_layer(old: str, new: str) -> None:
    proto = model(PADDED.replace(old, new))
    assert found(proto) == ["onnxlift.PaddedConv"]
    source = onnxlift.lift(proto).source
    assert "padding=(1, 2)" in source and 'padding_mode="reflect"' in source


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("strides = [1, 1]", 'auto_pad = "SAME_UPPER"'),
        ("strides = [1, 1]", "pads = [0, 1, 0, 0]"),
        ("reflect", "constant"),
        ("(x, pads)", "(x, pads, , axes)"),
        ("(x, pads)", "(x, n)"),
        ("p, W, B", "p, V, B"),
        ("p, W, B", "p, W, r"),
    ],
    ids=["padded by itself", "twice", "zeros", "axes", "unknown", "weight", "bias"],
)
def test_what_stays(old: str, new: str) -> None:
    text = PADDED.replace(old, new)
    proto = model(text, axes=np.array([0, 1, 3, 2]))
    for name, kind, shape in (("V", 1, (4, 3, 3, 3)), ("r", 1, (4,)), ("n", 7, (8,))):
        if name in text.replace("Conv", ""):
            proto.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, shape))
    if "n)" in new:
        graph = load(proto)
        normalise(graph)
        assert padded_conv.run(graph) == 0
    else:
        assert "onnxlift.PaddedConv" not in found(proto)


@pytest.mark.parametrize(
    ("pads", "channels"),
    [
        ([0, 0, 1, 1, 0, 0, 1, 2], 3),
        ([0, 0, 0, 1, 0, 0, 0, 1], 3),
        ([0, 0, -1, 1, 0, 0, -1, 1], 3),
        ([0, 1, 1, 1, 0, 1, 1, 1], 2),
        ([0, 0, 1, 1, 0, 1, 1, 1], 2),
    ],
    ids=["one side", "one axis", "less", "channels", "channels on one side"],
)
def test_other_pads_stay(pads: list[int], channels: int) -> None:
    weight = (4, 4, 3, 3) if pads[1] else (4, 3, 3, 3)
    assert "onnxlift.PaddedConv" not in found(model(pads=pads, channels=channels, W=weight))


def test_four_axes_are_more_than_a_layer_has() -> None:
    text = 'p = Pad <mode = "reflect"> (x, pads) y = Conv(p, W)'
    shapes = "(float[2, 3, 4, 4, 4, 4] x) => (float[a, b, c, d, e, f] y)"
    graph = load(parse(f"g {shapes} {{ {text} }}", pads=np.array([0, 0, 1, 1, 1, 1] * 2), W=(5, 3, 2, 2, 2, 2)))
    normalise(graph)
    assert padded_conv.run(graph) == 0


def test_a_padded_tensor_that_is_read_elsewhere() -> None:
    proto = model(f"{PADDED} z = Neg(p)")
    proto.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, ["batch", 3, 8, 11]))
    assert "onnxlift.PaddedConv" not in found(proto)


def test_circular_pads() -> None:
    text = "a = Slice(x, last, end, axis) b = Slice(x, zero, one, axis) p = Concat <axis = 2> (a, x, b) y = Conv(p, W)"
    numbers = {"last": -1, "end": 99, "zero": 0, "one": 1, "axis": 2}
    known = {name: np.array([number]) for name, number in numbers.items()}
    proto = parse(f"g (float[batch, 3, 7] x) => (float[batch, 4, 7] y) {{ {text} }}", W=(4, 3, 3), **known)
    assert found(proto) == ["onnxlift.PaddedConv"]


def test_pads_that_are_an_attribute() -> None:
    text = 'p = Pad <mode = "edge", pads = [0, 0, 1, 2, 0, 0, 1, 2]> (x) y = Conv(p, W)'
    proto = parse(f"g (float[batch, 3, 6, 7] x) => (float[batch, 4, c, d] y) {{ {text} }}", 10, W=(4, 3, 3, 3))
    assert found(proto) == ["onnxlift.PaddedConv"]

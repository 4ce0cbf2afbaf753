"""Masks for the windows of an image: scores of (images * windows, heads, n, m), cut into windows and masked there."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift

from .recognising import Data, found, parse, simplified

WINDOWS, HEADS, LENGTH = 4, 3, 5
MASK = np.where(np.random.default_rng(3).random((WINDOWS, 1, LENGTH, LENGTH)) < 0.4, -100, 0).astype(np.float32)
CUT = (-1, WINDOWS, HEADS, LENGTH, LENGTH)
JOINED = (-1, HEADS, LENGTH, LENGTH)


def model(
    masked: str = "cut = Reshape(s, into) c = Add(cut, mask) a = Reshape(c, back)",
    *,
    result: str = "",
    cut: tuple[int, ...] = CUT,
    **initialisers: Data,
) -> onnx.ModelProto:
    """Attention between q, k and v, whose scores `s` (with a bias: `b`) become `a` before the softmax."""
    parts = [f"{x} = Reshape({x}s, one)" for x in "qkv"]
    inputs = ", ".join(f"float[batch, {WINDOWS}, {HEADS}, {LENGTH}, 8] {x}s" for x in "qkv")
    body = f"t = Transpose <perm = [0, 1, 3, 2]> (k) qk = MatMul(q, t) s = Mul(qk, scale) {masked}"
    known: dict[str, Data] = {
        "into": np.array(cut),
        "back": np.array(JOINED),
        "mask": MASK,
        "bias": (HEADS, LENGTH, LENGTH),
        "one": np.array((-1, HEADS, LENGTH, 8)),
        "scale": 8**-0.5,
    }
    known |= initialisers
    outputs = f"float[n, {HEADS}, {LENGTH}, 8] y{result}"
    body = f"{' '.join(parts)} {body} p = Softmax <axis = -1> (a) y = MatMul(p, v)"
    words = set(body.replace("(", " ").replace(")", " ").replace(",", " ").split())
    used = {name: data for name, data in known.items() if name in words and f"{name} = " not in body}
    return parse(f"g ({inputs}) => ({outputs}) {{ {body} }}", **used)


WITH_BIAS = "b = Add(s, bias) cut = Reshape(b, into) c = Add(cut, mask) a = Reshape(c, back)"


@pytest.mark.parametrize("masked", [WITH_BIAS, WITH_BIAS.replace("cut, mask", "mask, cut")])
def test_with_a_bias(masked: str) -> None:
    proto = model(masked)
    assert found(proto).count("onnxlift.Attention") == found(proto).count("onnxlift.WindowMask") == 1
    source = onnxlift.lift(proto).source
    assert "attn_mask=mask" in source
    assert "mask = (self.bias + self.mask).repeat(q.shape[0] // 4, 1, 1, 1)" in source


@pytest.mark.parametrize(
    "mask",
    [
        MASK,
        MASK[None],
        np.random.default_rng(4).standard_normal((WINDOWS, HEADS, LENGTH, LENGTH)).astype(np.float32),
    ],
)
def test_without_a_bias(mask: np.ndarray) -> None:
    operators = found(model(mask=mask))
    assert operators.count("onnxlift.WindowMask") == operators.count("onnxlift.Attention") == 1
    assert "Add" not in operators


def test_a_mask_that_gets_an_axis_for_the_heads() -> None:
    body = WITH_BIAS.replace("c =", "mask = Unsqueeze(flat, first) c =")
    proto = model(body, flat=MASK[:, 0], first=np.array([1]))
    assert "Unsqueeze" not in found(proto)
    assert "(self.bias + self.flat.unsqueeze(1)).repeat(q.shape[0] // 4, 1, 1, 1)" in onnxlift.lift(proto).source


@pytest.mark.parametrize(
    "initialisers",
    [
        {"mask": MASK[:, :, :1]},  # one row for all queries
        {"mask": (1, 1, LENGTH, LENGTH)},  # the same for all windows
        {"cut": (WINDOWS, -1, HEADS, LENGTH, LENGTH), "mask": (WINDOWS, 1, 1, LENGTH, LENGTH)},  # another order
    ],
)
def test_other_masks_stay(initialisers: dict[str, Data]) -> None:
    sizes = {"mask": (WINDOWS, 1, LENGTH, LENGTH)} | initialisers
    assert "onnxlift.WindowMask" not in found(model(**sizes))


def test_a_mask_that_differs_in_the_batch_stays() -> None:
    graph = simplified(model(mask=(2, WINDOWS, 1, LENGTH, LENGTH))).graph  # runs for two images only
    assert "WindowMask" not in {node.op_type for node in graph}


def test_a_bias_that_differs_in_the_batch_stays() -> None:
    proto = model(WITH_BIAS.replace("bias", "s"))
    assert "onnxlift.WindowMask" not in found(proto)


IMAGES = "images = Shape <start = 0, end = 1> (qs) times = Concat <axis = 0> (images, ones)"
TILED = f"{IMAGES} repeated = Tile(mask, times) a = Add(s, repeated)"
ONES = np.array((1, 1, 1))


@pytest.mark.parametrize("heads", [1, HEADS])
@pytest.mark.parametrize("masked", [TILED, TILED.replace("s, repeated", "repeated, s")])
def test_a_mask_that_is_repeated(masked: str, heads: int) -> None:
    proto = model(masked, ones=ONES, mask=(WINDOWS, heads, LENGTH, LENGTH))
    operators = found(proto)
    assert operators.count("onnxlift.WindowMask") == 1 and "Tile" not in operators
    assert "self.mask.repeat(q.shape[0] // 4, 1, 1, 1)" in onnxlift.lift(proto).source


EXPANDED = f"""{IMAGES.replace("ones", "more")} wide = Expand(mask, times) repeated = Reshape(wide, flat)
    both = Add(repeated, bias) a = Add(s, both)"""
MORE = {"more": np.array((1, 1, 1, 1)), "flat": np.array((-1, 1, LENGTH, LENGTH))}


@pytest.mark.parametrize("masked", [EXPANDED, EXPANDED.replace("repeated, bias", "bias, repeated")])
def test_a_mask_that_is_expanded_and_then_gets_a_bias(masked: str) -> None:
    proto = model(masked, **{**MORE, "mask": MASK[None]})
    operators = found(proto)
    assert operators.count("onnxlift.WindowMask") == 1 and "Expand" not in operators
    assert "mask = (self.bias + self.attn_mask).repeat(q.shape[0] // 4, 1, 1, 1)" in onnxlift.lift(proto).source


def test_a_mask_that_is_not_repeated_in_order_stays() -> None:
    turned = EXPANDED.replace("Expand(mask, times)", "Expand(mask, turned)").replace("times =", "turned =")
    turned = turned.replace("(images, more)", "(windows, images, some)")  # each window for all images first
    known = {"windows": np.array([1]), "some": np.array((1, 1, 1)), "flat": MORE["flat"], "mask": MASK[:, None]}
    graph = simplified(model(turned, **known)).graph
    assert "WindowMask" not in {node.op_type for node in graph}


@pytest.mark.parametrize("total", ["Add(bias, mask)", "Add(mask, bias)"])
def test_a_mask_that_is_repeated_with_a_bias(total: str) -> None:
    proto = model(f"total = {total} {TILED.replace('mask', 'total')}", ones=ONES)
    proto.graph.input.append(onnx.helper.make_tensor_value_info("bias", 1, (HEADS, LENGTH, LENGTH)))  # or it is folded
    del proto.graph.initializer[[tensor.name for tensor in proto.graph.initializer].index("bias")]
    assert found(proto).count("onnxlift.WindowMask") == 1
    assert "mask = (bias + self.mask).repeat(q.shape[0] // 4, 1, 1, 1)" in onnxlift.lift(proto).source


@pytest.mark.parametrize(
    ("masked", "initialisers"),
    [
        (TILED.replace("ones)", "sizes)"), {"sizes": np.array((HEADS, 1, 1)), "mask": MASK}),  # for the heads too
        (TILED, {"mask": MASK[:, :, :1]}),  # one row for all queries
        (TILED.replace("(images, ones)", "(all, ones)"), {"all": np.array([WINDOWS]), "mask": MASK[:1]}),
    ],
)
def test_other_repetitions_stay(masked: str, initialisers: dict[str, Data]) -> None:
    graph = simplified(model(masked, **{"ones": ONES, **initialisers})).graph
    assert "WindowMask" not in {node.op_type for node in graph}


@pytest.mark.parametrize("value", ["cut", "c", "a"])
def test_what_else_is_read_stays(value: str) -> None:
    shape = f"float[images, {WINDOWS}, {HEADS}, {LENGTH}, {LENGTH}]" if value != "a" else "float[n, 3, 5, 5]"
    assert "onnxlift.Attention" not in found(model(result=f", {shape} {value}"))

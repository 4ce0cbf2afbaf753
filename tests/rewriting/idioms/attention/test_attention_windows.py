"""Masks for the windows of an image: scores of (images * windows, heads, n, m), cut into windows and masked there."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import onnxlift
from onnxlift.rewriting.idioms.attention.parts.windows import _are_windows
from rewriting.idioms.recognising import Data, found, parse, simplified

WINDOWS, HEADS, LENGTH = 4, 3, 5
MASK = np.where(np.random.default_rng(3).random((WINDOWS, 1, LENGTH, LENGTH)) < 0.4, -100, 0).astype(np.float32)
CUT = (-1, WINDOWS, HEADS, LENGTH, LENGTH)
JOINED = (-1, HEADS, LENGTH, LENGTH)


def model(
    masked: str = "cut = Reshape(s, into) c = Add(cut, mask) a = Reshape(c, back)",
    *,
    result: str = "",
    cut: tuple[int, ...] = CUT,
    heads: int = HEADS,
    queries: int = LENGTH,
    extra: str = "",
    **initialisers: Data,
) -> onnx.ModelProto:
    """Attention between q, k and v, whose scores `s` (with a bias: `b`) become `a` before the softmax."""
    parts = ["q = Reshape(qs, some)", *(f"{x} = Reshape({x}s, one)" for x in "kv")]
    lengths = {"q": queries, "k": LENGTH, "v": LENGTH}
    inputs = ", ".join(f"float[batch, {WINDOWS}, {heads}, {length}, 8] {x}s" for x, length in lengths.items()) + extra
    body = f"t = Transpose <perm = [0, 1, 3, 2]> (k) qk = MatMul(q, t) s = Mul(qk, scale) {masked}"
    known: dict[str, Data] = {
        "into": np.array(cut),
        "back": np.array(JOINED),
        "mask": MASK,
        "bias": (HEADS, LENGTH, LENGTH),
        "one": np.array((-1, heads, LENGTH, 8)),
        "some": np.array((-1, heads, queries, 8)),
        "scale": 8**-0.5,
    }
    known |= initialisers
    outputs = f"float[n, {heads}, {queries}, 8] y{result}"
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
    assert "mask = (self.bias + self.mask).repeat(q.shape[0] // self.mask.shape[0], 1, 1, 1)" in source


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
    source = " ".join(onnxlift.lift(proto).source.split())
    assert "(self.bias + self.flat.unsqueeze(1)).repeat( q.shape[0] // self.flat.shape[0], 1, 1, 1 )" in source


@pytest.mark.parametrize(
    "initialisers",
    [
        {"mask": MASK[:, :, :1]},  # one row for all queries
        {"mask": (1, 1, LENGTH, LENGTH)},  # the same for all windows
        {"cut": (WINDOWS, -1, HEADS, LENGTH, LENGTH), "mask": (WINDOWS, 1, 1, LENGTH, LENGTH)},  # another order
        {"cut": (-1, HEADS, WINDOWS, LENGTH, LENGTH), "mask": (HEADS, 1, LENGTH, LENGTH)},  # not cut into windows
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
    assert "self.mask.repeat(q.shape[0] // self.mask.shape[0], 1, 1, 1)" in onnxlift.lift(proto).source


EXPANDED = f"""{IMAGES.replace("ones", "more")} wide = Expand(mask, times) repeated = Reshape(wide, flat)
    both = Add(repeated, bias) a = Add(s, both)"""
MORE = {"more": np.array((1, 1, 1, 1)), "flat": np.array((-1, 1, LENGTH, LENGTH))}


@pytest.mark.parametrize("masked", [EXPANDED, EXPANDED.replace("repeated, bias", "bias, repeated")])
def test_a_mask_that_is_expanded_and_then_gets_a_bias(masked: str) -> None:
    proto = model(masked, **{**MORE, "mask": MASK[None]})
    operators = found(proto)
    assert operators.count("onnxlift.WindowMask") == 1 and "Expand" not in operators
    assert (
        "mask = (self.bias + self.attn_mask).repeat(q.shape[0] // self.attn_mask.shape[0], 1, 1, 1)"
        in onnxlift.lift(proto).source
    )


@pytest.mark.parametrize("total", ["Add(bias, mask)", "Add(mask, bias)"])
def test_a_mask_that_is_repeated_with_a_bias(total: str) -> None:
    proto = model(f"total = {total} {TILED.replace('mask', 'total')}", ones=ONES)
    proto.graph.input.append(onnx.helper.make_tensor_value_info("bias", 1, (HEADS, LENGTH, LENGTH)))  # or it is folded
    del proto.graph.initializer[[tensor.name for tensor in proto.graph.initializer].index("bias")]
    assert found(proto).count("onnxlift.WindowMask") == 1
    assert "mask = (bias + self.mask).repeat(q.shape[0] // self.mask.shape[0], 1, 1, 1)" in onnxlift.lift(proto).source


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


@pytest.mark.parametrize("value", ["b", "cut", "c", "a"])
def test_what_else_is_read_stays(value: str) -> None:
    shape = f"float[images, {WINDOWS}, {HEADS}, {LENGTH}, {LENGTH}]" if value in ("cut", "c") else "float[n, 3, 5, 5]"
    assert "onnxlift.Attention" not in found(model(WITH_BIAS, result=f", {shape} {value}"))


def test_a_sum_with_a_bias_that_is_read_stays() -> None:
    proto = model(EXPANDED, result=f", float[n, {HEADS}, {LENGTH}, {LENGTH}] both", **MORE, mask=MASK[None])
    assert "onnxlift.WindowMask" not in found(proto)


def test_scores_that_do_not_come_back_in_their_shape() -> None:
    """Their heads are windows by themselves, from then on."""
    proto = model(one=np.array((-1, HEADS, LENGTH, 8)), back=np.array((-1, 1, LENGTH, LENGTH)))
    (values,) = [node for node in proto.graph.node if list(node.output) == ["v"]]
    values.input[1] = "apart"
    proto.graph.initializer.append(numpy_helper.from_array(np.array((-1, 1, LENGTH, 8)), "apart"))
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 1
    assert "onnxlift.WindowMask" not in found(proto)


def test_scores_without_heads_stay() -> None:
    proto = model(
        cut=(-1, WINDOWS, LENGTH, LENGTH),
        heads=1,
        some=np.array((-1, LENGTH, 8)),
        one=np.array((-1, LENGTH, 8)),
        back=np.array((-1, LENGTH, LENGTH)),
        mask=MASK[:, 0],
    )
    (turned,) = [node for node in proto.graph.node if node.op_type == "Transpose"]
    turned.attribute[0].ints[:] = [0, 2, 1]
    del proto.graph.output[0].type.tensor_type.shape.dim[1]
    assert "onnxlift.WindowMask" not in found(proto)


def test_a_mask_that_gets_an_axis_for_the_only_query() -> None:
    body = f"mask = Unsqueeze(flat, two) {TILED}"
    proto = model(body, queries=1, flat=(WINDOWS, HEADS, LENGTH), two=np.array([2]), ones=ONES)
    assert "onnxlift.WindowMask" in found(proto)


def test_as_many_windows_as_there_are() -> None:
    """A number of windows that is not known has no place in the source."""
    proto = model(TILED, extra=f", float[seq, 1, {LENGTH}, {LENGTH}] mask", ones=ONES, mask=MASK)
    del proto.graph.initializer[[tensor.name for tensor in proto.graph.initializer].index("mask")]
    for value in proto.graph.input[:3]:
        value.type.tensor_type.shape.dim[1].dim_param = "seq"
    assert "onnxlift.WindowMask" not in found(proto)


def test_no_windows_are_no_windows() -> None:
    """The images would be as many as the batch has entries for each of them."""
    sizes = (LENGTH, LENGTH)
    assert _are_windows((8, HEADS, *sizes), (2, WINDOWS, HEADS, *sizes), (WINDOWS, 1, *sizes))
    assert not _are_windows((0, HEADS, *sizes), (2, 0, HEADS, *sizes), (0, 1, *sizes))


def test_a_sum_that_differs_in_the_batch_is_no_bias() -> None:
    masked = EXPANDED.replace("both = Add(repeated, bias)", "other = Sin(s) both = Add(repeated, other)")
    assert "onnxlift.WindowMask" not in found(model(masked, **MORE, mask=MASK[None]))


def test_a_mask_that_is_repeated_as_often_as_the_caller_says() -> None:
    """Which may be for more images than the scores are of, if that is one."""
    proto = model(TILED.replace("(images, ones)", "(count, ones)"), extra=", int64[1] count", ones=ONES)
    assert "WindowMask" not in {node.op_type for node in simplified(proto).graph}


def test_one_mask_for_the_whole_batch_has_no_windows() -> None:
    proto = model(TILED.replace("(qs)", "(s)"), ones=ONES, mask=MASK[1:2])
    assert "onnxlift.WindowMask" not in found(proto)


def test_a_mask_with_one_row_and_a_bias_is_repeated_as_one() -> None:
    """Their sum has an entry for each query, the mask itself has none."""
    shape = f", float[{HEADS}, {LENGTH}, {LENGTH}] given"
    proto = model(
        f"total = Add(given, mask) {TILED.replace('mask', 'total')}", extra=shape, ones=ONES, mask=MASK[:, :, :1]
    )
    operators = found(proto)
    assert "onnxlift.WindowMask" in operators and "Add" in operators


def test_two_masks_of_windows_are_repeated_as_one() -> None:
    """None of them is a bias that all windows have, even if an axis of size one comes first."""
    masked = f"total = Add(given, mask) {EXPANDED.replace('mask', 'total')}".replace("both = Add(repeated, bias)", "")
    known = {**MORE, "flat": np.array((-1, HEADS, LENGTH, LENGTH)), "mask": MASK[None]}
    given = f", float[1, {WINDOWS}, {HEADS}, {LENGTH}, {LENGTH}] given"
    operators = found(model(masked.replace("both", "repeated"), extra=given, **known))
    assert "onnxlift.WindowMask" in operators and "Add" in operators


def test_windows_that_are_expanded_for_more_than_images_stay() -> None:
    """Each of two windows for two neighbours in the batch."""
    known = {"more": np.array((1, 2, 1, 1)), "flat": MORE["flat"], "mask": MASK[None, :2]}
    assert "onnxlift.WindowMask" not in found(model(EXPANDED, **known))


def test_windows_whose_queries_become_heads_stay() -> None:
    known = {"flat": np.array((-1, LENGTH, 1, LENGTH)), "mask": MASK[None], "bias": (LENGTH, LENGTH, LENGTH)}
    assert "onnxlift.WindowMask" not in found(model(EXPANDED, heads=LENGTH, **{**MORE, **known}))

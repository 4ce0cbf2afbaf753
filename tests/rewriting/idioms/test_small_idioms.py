"""Idioms of two or three nodes: normalised vectors, gated linear units, guarded softplus, repeated elements,
convolutions with another padding or a bias beside them, stacks."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from rewriting.idioms.recognising import found, parse

X = "float[batch, seq, 8] x"
CHANNELS = "float[batch, 4, 6, 7] y"


def model(
    body: str, output: str = "float[batch, seq, 8] y", inputs: str = X, opset: int = 18, **known: object
) -> onnx.ModelProto:
    return parse(f"g ({inputs}) => ({output}) {{ {body} }}", opset, **known)


NORM = "n = ReduceL2 <keepdims = 1> (x, axis) c = Max(n, eps) y = Div(x, c)"


@pytest.mark.parametrize("bound", ["Max(n, eps)", "Max(eps, n)", "Clip(n, eps)"])
def test_normalised_vectors(bound: str) -> None:
    proto = model(NORM.replace("Max(n, eps)", bound), axis=np.array([-1]), eps=1e-12)
    assert found(proto) == ["onnxlift.Normalize"]
    assert "F.normalize(x, dim=-1)" in onnxlift.lift(proto).source


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Div(x, c)", "Div(c, x)"),
        ("ReduceL2 <keepdims = 1> (x,", "ReduceSum <keepdims = 1> (x,"),
        ("Max(n, eps)", "Min(n, eps)"),
        ("Max(n, eps)", "Clip(n, eps, one)"),
        ("n = ReduceL2 <keepdims = 1> (x,", "e = Exp(x) n = ReduceL2 <keepdims = 1> (e,"),
    ],
)
def test_other_quotients_stay(old: str, new: str) -> None:
    body = NORM.replace(old, new)
    more = {"one": 1.0} if "one" in body else {}
    assert "onnxlift.Normalize" not in found(model(body, axis=np.array([-1]), eps=1e-3, **more))


def test_a_norm_over_two_axes_or_that_is_read_elsewhere_stays() -> None:
    assert "onnxlift.Normalize" not in found(model(NORM, axis=np.array([1, 2]), eps=1e-12))
    outputs = "float[batch, seq, 8] y, float[batch, seq, 1] z"
    assert "onnxlift.Normalize" not in found(model(f"{NORM} z = Exp(n)", outputs, axis=np.array([-1]), eps=1e-12))


GLU = "a, b = Split <axis = -1, num_outputs = 2> (x) s = Sigmoid(b) y = Mul(a, s)"
HALF = "float[batch, seq, 4] y"


@pytest.mark.parametrize("product", ["Mul(a, s)", "Mul(s, a)"])
def test_gated_linear_unit(product: str) -> None:
    proto = model(GLU.replace("Mul(a, s)", product), HALF)
    assert found(proto) == ["onnxlift.GLU"]
    assert "F.glu(x)" in onnxlift.lift(proto).source


def test_gated_linear_unit_along_channels() -> None:
    proto = model(GLU.replace("axis = -1", "axis = 1"), "float[batch, 3, 8] y", "float[batch, 6, 8] x")
    assert "F.glu(x, dim=1)" in onnxlift.lift(proto).source


@pytest.mark.parametrize(
    ("old", "new"),
    [("Sigmoid(b) y = Mul(a, s)", "Sigmoid(a) y = Mul(b, s)"), ("Sigmoid(b)", "Tanh(b)"), ("Mul(a, s)", "Mul(b, s)")],
)
def test_other_gates_stay(old: str, new: str) -> None:
    assert "onnxlift.GLU" not in found(model(GLU.replace(old, new), HALF))


def test_a_gate_of_unequal_parts_stays() -> None:
    body = "a, b = Split <axis = -1> (x, sizes) s = Sigmoid(b) y = Mul(a, s)"
    assert "onnxlift.GLU" not in found(model(body, "float[batch, seq, 7] y", sizes=np.array([7, 1])))


def test_a_gate_that_is_read_elsewhere_stays() -> None:
    assert "onnxlift.GLU" not in found(model(f"{GLU} z = Exp(b)", f"{HALF}, float[batch, seq, 4] z"))


SOFTPLUS = "t = Greater(x, bound) s = Softplus(x) y = Where(t, x, s)"


def test_guarded_softplus() -> None:
    assert found(model(SOFTPLUS, bound=20.0)) == ["Softplus"]


def test_softplus_the_other_way_round_stays() -> None:
    assert "Where" in found(model(SOFTPLUS.replace("Where(t, x, s)", "Where(t, s, x)"), bound=20.0))


REPEAT = "u = Unsqueeze(x, axis) e = Expand(u, wide) y = Reshape(e, joined)"


def test_repeated_elements() -> None:
    known = {"axis": np.array([3]), "wide": np.array([1, 1, 1, 3]), "joined": np.array([0, 0, 24])}
    proto = model(REPEAT, "float[batch, seq, 24] y", **known)
    assert found(proto) == ["onnxlift.RepeatInterleave"]
    assert "x.repeat_interleave(3, 2)" in onnxlift.lift(proto).source


@pytest.mark.parametrize("wide", ["Tile(u, copies)", "Concat <axis = -1> (u, u, u)"])
def test_repeated_elements_in_other_spellings(wide: str) -> None:
    known = {"axis": np.array([3]), "copies": np.array([1, 1, 1, 3]), "joined": np.array([0, 0, 24])}
    assert found(model(REPEAT.replace("Expand(u, wide)", wide), "float[batch, seq, 24] y", **known)) == [
        "onnxlift.RepeatInterleave"
    ]


def test_repeated_elements_of_what_gets_other_axes_too() -> None:
    known = {"axis": np.array([1, 4]), "wide": np.array([1, 1, 1, 1, 3]), "joined": np.array([0, 1, -1, 24])}
    proto = model(REPEAT, "float[batch, 1, seq, 24] y", **known)
    assert found(proto) == ["Unsqueeze", "onnxlift.RepeatInterleave"]
    assert "x.unsqueeze(1).repeat_interleave(3, 3)" in onnxlift.lift(proto).source


def test_different_elements_side_by_side_are_not_repeated() -> None:
    body = (
        "n = Neg(x) u = Unsqueeze(x, axis) v = Unsqueeze(n, axis) e = Concat <axis = -1> (u, v) y = Reshape(e, joined)"
    )
    known = {"axis": np.array([3]), "joined": np.array([0, 0, 16])}
    assert "onnxlift.RepeatInterleave" not in found(model(body, "float[batch, seq, 16] y", **known))


def test_repeated_elements_that_are_read_elsewhere_stay() -> None:
    known = {"axis": np.array([3]), "wide": np.array([1, 1, 1, 3]), "joined": np.array([0, 0, 24])}
    outputs = "float[batch, seq, 24] y, float[batch, seq, 8, 3] z"
    assert "onnxlift.RepeatInterleave" not in found(model(f"{REPEAT} z = Exp(e)", outputs, **known))


def test_a_repeated_block_is_not_repeated_elements() -> None:
    known = {"axis": np.array([2]), "wide": np.array([1, 1, 3, 1]), "joined": np.array([0, 0, 24])}
    assert "onnxlift.RepeatInterleave" not in found(model(REPEAT, "float[batch, seq, 24] y", **known))


def test_repetition_of_another_axis_too_stays() -> None:
    known = {"axis": np.array([3]), "wide": np.array([1, 4, 1, 3]), "joined": np.array([0, 0, 24])}
    assert "onnxlift.RepeatInterleave" not in found(model(REPEAT, "float[b, 4, 24] y", "float[batch, 1, 8] x", **known))


PADDED = 'p = Pad <mode = "MODE"> (x, pads) y = Conv <OWN> (p, W, B)'
IMAGE = "float[batch, 3, 6, 7] x"


UNSHUFFLED = """unshuffled (float[batch, 3, 8, 6] x) => (float[batch, 12, 4, 3] y) {
    split = Reshape(x, blocks) turned = Transpose <perm = [0, 1, 3, 5, 2, 4]> (split) y = Reshape(turned, shape)
}"""
BLOCKS, UNSHUFFLED_SHAPE = np.array([-1, 3, 4, 2, 3, 2]), np.array([-1, 12, 4, 3])


def test_pixel_unshuffle() -> None:
    model = parse(UNSHUFFLED, blocks=BLOCKS, shape=UNSHUFFLED_SHAPE)
    assert found(model) == ["onnxlift.PixelUnshuffle"]
    assert "F.pixel_unshuffle(x, 2)" in onnxlift.lift(model).source


@pytest.mark.parametrize(
    ("text", "blocks", "shape"),
    [
        (UNSHUFFLED.replace("0, 1, 3, 5, 2, 4", "0, 3, 5, 1, 2, 4"), BLOCKS, UNSHUFFLED_SHAPE),  # as SpaceToDepth
        (UNSHUFFLED, np.array([-1, 3, 2, 4, 3, 2]), np.array([-1, 24, 2, 3])),  # blocks of 4 x 2
        (UNSHUFFLED, BLOCKS, np.array([-1, 6, 8, 3])),  # another shape of the result
        (UNSHUFFLED, np.array([-1, 6, 2, 2, 3, 2]), np.array([-1, 24, 2, 3])),  # channels that are split, too
        (UNSHUFFLED.replace("3] y)", "3] y, float[batch, 3, 4, 2, 3, 2] split)"), BLOCKS, UNSHUFFLED_SHAPE),
    ],
)
def test_other_blocks_of_pixels_stay(text: str, blocks: np.ndarray, shape: np.ndarray) -> None:
    sizes = f"float[batch, {', '.join(map(str, shape[1:]))}] y"
    model = parse(text.replace("float[batch, 12, 4, 3] y", sizes), blocks=blocks, shape=shape)
    assert "onnxlift.PixelUnshuffle" not in found(model)


def padded(
    mode: str, pads: list[int], own: str = "dilations = [1, 1]", output: str = "float[batch, 4, h, w] y"
) -> onnx.ModelProto:
    body = PADDED.replace("MODE", mode).replace("OWN", own)
    return model(body, output, IMAGE, 19, pads=np.array(pads), W=(4, 3, 3, 3), B=(4,))


@pytest.mark.parametrize(("mode", "name"), [("reflect", "reflect"), ("edge", "replicate"), ("wrap", "circular")])
def test_convolution_with_another_padding(mode: str, name: str) -> None:
    proto = padded(mode, [0, 0, 1, 2, 0, 0, 1, 2], "strides = [2, 1]")
    assert found(proto) == ["onnxlift.PaddedConv"]
    written = f'nn.Conv2d(3, 4, 3, stride=(2, 1), padding=(1, 2), padding_mode="{name}")'
    assert written in onnxlift.lift(proto).source


@pytest.mark.parametrize(
    ("mode", "pads", "own"),
    [
        ("constant", [0, 0, 1, 1, 0, 0, 1, 1], "strides = [1, 1]"),
        ("reflect", [0, 0, 1, 1, 0, 0, 1, 2], "strides = [1, 1]"),
        ("reflect", [0, 0, 1, 1, 0, 0, 1, 1], "pads = [1, 1, 1, 1]"),
        ("reflect", [1, 0, 1, 1, 0, 0, 1, 1], "strides = [1, 1]"),
    ],
    ids=["zeros", "one side", "twice", "batch"],
)
def test_other_paddings_stay(mode: str, pads: list[int], own: str) -> None:
    assert "onnxlift.PaddedConv" not in found(padded(mode, pads, own, "float[b, 4, h, w] y"))


def test_a_padded_input_that_is_read_elsewhere_stays() -> None:
    body = PADDED.replace("MODE", "reflect").replace("OWN", "dilations = [1, 1]") + " z = Exp(p)"
    known = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "W": (4, 3, 3, 3), "B": (4,)}
    operators = found(model(body, "float[batch, 4, h, w] y, float[batch, 3, 8, 9] z", IMAGE, 19, **known))
    assert "onnxlift.PaddedConv" not in operators


BIASED = "h = Conv <pads = [1, 1, 1, 1]> (x, W) y = Add(B, h)"
UPSAMPLED = "h = ConvTranspose <group = 2> (x, W) y = Add(h, B)"


@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 4, 1, 1)])
def test_a_number_for_each_channel_is_a_bias(shape: tuple[int, ...]) -> None:
    assert found(model(BIASED, CHANNELS, IMAGE, W=(4, 3, 3, 3), B=shape)) == ["Conv"]


def test_a_bias_that_is_reshaped_is_one() -> None:
    body = BIASED.replace("B, h", "b, h").replace("h = ", "b = Reshape(row, s) h = ", 1)
    assert found(model(body, CHANNELS, IMAGE, W=(4, 3, 3, 3), row=(4,), s=np.array([1, -1, 1, 1]))) == ["Conv"]


def test_the_bias_of_grouped_transposed_convolutions() -> None:
    image = "float[batch, 6, 8, 9] x"
    assert found(model(UPSAMPLED, "float[batch, 4, h, w] y", image, W=(6, 2, 3, 3), B=(4, 1, 1))) == ["ConvTranspose"]


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (7,), (4, 1, 7), (1, 1, 4, 1, 1)], ids=str)
def test_what_is_added_otherwise_is_no_bias(shape: tuple[int, ...]) -> None:
    axes = ", ".join("abcde"[: max(4, len(shape))])
    assert "Add" in found(model(BIASED, f"float[{axes}] y", IMAGE, W=(4, 3, 3, 3), B=shape))


def test_a_second_bias_and_one_in_a_model_from_pytorch_stay() -> None:
    known = {"W": (4, 3, 3, 3), "B": (4, 1, 1), "C": (4,)}
    assert "Add" in found(model(BIASED.replace("W)", "W, C)"), CHANNELS, IMAGE, **known))
    proto = model(BIASED, CHANNELS, IMAGE, W=(4, 3, 3, 3), B=(4, 1, 1))
    proto.producer_name = "pytorch"
    assert "Add" in found(proto)


def test_a_convolution_that_is_read_without_its_bias_stays() -> None:
    body, outputs = BIASED + " z = Exp(h)", f"{CHANNELS}, float[batch, 4, 6, 7] z"
    assert "Add" in found(model(body, outputs, IMAGE, W=(4, 3, 3, 3), B=(4, 1, 1)))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_stacks(axis: int) -> None:
    body = f"a = Exp(x) u = Unsqueeze(a, k) v = Unsqueeze(x, k) y = Concat <axis = {axis}> (u, v)"
    assert found(model(body, "float[a, b, c, d] y", k=np.array([axis]))) == ["Exp", "onnxlift.Stack"]


def test_what_is_joined_along_another_axis_is_no_stack() -> None:
    body = "a = Exp(x) u = Unsqueeze(a, k) v = Unsqueeze(x, k) y = Concat <axis = 2> (u, v)"
    assert "onnxlift.Stack" not in found(model(body, "float[a, b, c, d] y", k=np.array([1])))


CIRCLE = "a = Slice(x, minus2, end, three) b = Slice(x, zero, one, three) y = Concat <axis = 3> (a, x, b)"
WIDER = "float[batch, 3, 6, 10] y"


def circular(body: str = CIRCLE, output: str = WIDER, inputs: str = IMAGE, **more: object) -> onnx.ModelProto:
    numbers = {"minus2": -2, "minus3": -3, "minus1": -1, "end": 2**31, "zero": 0, "one": 1, "two": 2, "three": 3}
    return model(body, output, inputs, **{name: np.array([value]) for name, value in numbers.items()}, **more)


def test_circular_padding() -> None:
    proto = circular()
    assert found(proto) == ["onnxlift.CircularPad"]
    assert 'F.pad(x, (2, 1, 0, 0), mode="circular")' in onnxlift.lift(proto).source


def test_circular_padding_along_two_axes_and_of_a_convolution() -> None:
    rows = "c = Slice(x, minus1, end, two) d = Slice(x, zero, one, two) r = Concat <axis = 2> (c, x, d)"
    columns = "a = Slice(r, minus2, end, three) b = Slice(r, zero, two, three) p = Concat <axis = 3> (a, r, b)"
    padded = circular(f"{rows} {columns} y = Neg(p)", "float[batch, 3, 8, 11] y")
    assert found(padded) == ["onnxlift.CircularPad", "Neg"]
    assert 'F.pad(x, (2, 2, 1, 1), mode="circular")' in onnxlift.lift(padded).source
    conv = circular(f"{rows} {columns} y = Conv(p, W)", "float[batch, 4, 6, 9] y", W=(4, 3, 3, 3))
    assert found(conv) == ["onnxlift.PaddedConv"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(a, x, b)", "(b, x, a)"),
        ("minus2, end", "minus3, minus1"),
        ("zero, one, three", "one, two, three"),
        ("b = Slice(x,", "e = Exp(x) b = Slice(e,"),
        ("a = Slice(x,", "e = Exp(x) a = Slice(e,"),
    ],
)
def test_other_pieces_around_a_tensor_stay(old: str, new: str) -> None:
    assert "onnxlift.CircularPad" not in found(circular(CIRCLE.replace(old, new)))


def test_circular_padding_of_channels_stays() -> None:
    body = CIRCLE.replace("three", "one").replace("axis = 3", "axis = 1")
    assert "onnxlift.CircularPad" not in found(circular(body, "float[batch, 6, 6, 7] y"))


def test_pieces_that_are_read_elsewhere_stay() -> None:
    assert "onnxlift.CircularPad" not in found(circular(f"{CIRCLE} z = Exp(a)", f"{WIDER}, float[batch, 3, 6, 2] z"))

"""The conditions under which something that is done to scores is the mask of an attention, and of what kind."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnxlift.ir.editing.edit import Edit, Names
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.attention.parts import mask as attention_mask
from onnxlift.rewriting.idioms.attention.parts.mask import find_mask
from rewriting.idioms.attention.test_attention import (
    ATTENDED,
    HEADS,
    INFINITY,
    LOWEST,
    SCALED,
    SHIFT,
    TRIANGLE,
    UPPER,
    attention,
    model,
)
from rewriting.idioms.attention.test_attention_windows import HEADS as WINDOW_HEADS
from rewriting.idioms.attention.test_attention_windows import LENGTH, WITH_BIAS
from rewriting.idioms.attention.test_attention_windows import model as windows
from rewriting.idioms.recognising import Data, assert_same_numbers, found, simplified
from rewriting.running_stages import normalise

SIZED = HEADS.replace("seq", "4").replace("keys", "6")
Y_SIZED = "float[batch, 3, 4, 8] y"
THREE = "float[batch, seq, 8] q, float[batch, keys, 8] k, float[batch, keys, 8] v"
SCALED_OF_THREE = SCALED.replace("[0, 1, 3, 2]", "[0, 2, 1]")


@pytest.mark.parametrize(
    ("how", "inputs"),
    [("m = Add(s, mask)", ", float mask"), ("m = Where(mask, s, infinity)", ", bool mask")],
    ids=["added", "boolean"],
)
def test_a_mask_without_axes_stays(how: str, inputs: str) -> None:
    """PyTorch takes no such mask."""
    proto = model(f"{SCALED} {how} {ATTENDED}", HEADS + inputs)
    if "bool" in inputs:
        assert "Attention" not in [node.op_type for node in simplified(proto).graph]
    else:
        assert "onnxlift.Attention" not in found(proto)


@pytest.mark.parametrize(
    "how",
    ["m = Add(s, mask)", "m = Where(flags, s, infinity)"],
    ids=["added", "boolean"],
)
def test_a_mask_that_scores_are_broadcast_to_stays(how: str) -> None:
    """The one query becomes as many as the mask has."""
    more = ", float[batch, 1, seq, keys] mask, bool[batch, 1, seq, keys] flags"
    inputs = HEADS.replace("batch, 3, seq, 8", "batch, 3, 1, 8")
    assert "onnxlift.Attention" not in found(model(f"{SCALED} {how} {ATTENDED}", inputs + more))


def test_a_mask_with_one_entry_where_the_scores_have_one() -> None:
    inputs = HEADS.replace("batch, 3, seq, 8", "batch, 3, 1, 8")
    proto = model(f"{SCALED} m = Add(s, mask) {ATTENDED}", f"{inputs}, float[1, keys] mask", "float[batch, 3, 1, 8] y")
    assert found(proto) == ["onnxlift.Attention"]


def test_a_mask_with_more_axes_than_the_scores_is_none() -> None:
    body = f"{SCALED_OF_THREE} m = Add(s, mask) {ATTENDED}"
    proto = model(body, f"{THREE}, float[1, batch, seq, keys] mask", "float[1, batch, seq, 8] y")
    assert "onnxlift.Attention" not in found(proto)
    graph = load(proto)
    normalise(graph)
    (region,) = regions(graph)
    (add,) = [node for node in graph.graph if node.op_type == "Add"]
    assert find_mask(Edit(region, Names(graph)), add.outputs[0], []).added is None


@pytest.mark.parametrize(
    "how",
    ["m = Where(mask, s, low)", "first = Where(mask, s, infinity) nan = IsNaN(first) m = Where(nan, low, first)"],
)
def test_a_number_that_gives_the_scores_more_axes_stays(how: str) -> None:
    body = f"{SCALED_OF_THREE} {how} {ATTENDED}"
    inputs = f"{THREE}, bool[batch, seq, keys] mask"
    proto = model(body, inputs, "float[1, batch, seq, 8] y", low=np.full((1, 1, 1, 1), LOWEST, np.float32))
    assert "onnxlift.Attention" not in found(proto)


def test_lowest_number_of_the_type_of_the_scores() -> None:
    inputs = f"{HEADS}, bool[batch, 1, seq, keys] mask".replace("float[", "double[")
    numbers = {"scale": np.float64(0.3), "low": np.float64(-1e300)}
    body = f"{SCALED} m = Where(mask, s, low) {ATTENDED}"
    proto = model(body, inputs, "double[batch, 3, seq, 8] y", **{name: np.array(n) for name, n in numbers.items()})
    assert found(proto, rtol=1e-12, atol=1e-12) == ["Where", "onnxlift.Attention"]


def test_of_two_products_the_first_are_the_scores() -> None:
    inputs = f"{HEADS}, float[batch, 3, seq, 8] r, float[batch, 3, 8, keys] w"
    proto = model(f"{SCALED} bias = MatMul(r, w) m = Add(s, bias) {ATTENDED}", inputs)
    assert found(proto) == ["MatMul", "onnxlift.Attention"]
    assert attention(proto)[0] == ["q", "k", "v", "bias"]


@pytest.mark.parametrize(
    ("choice", "inputs", "operators"),
    [
        ("Where(mask, bias, infinity)", "bool[seq, keys] mask, float[seq, 1] bias", ["Where"]),
        ("Where(mask, zero, bias)", "bool[seq, keys] mask, float[seq, 1] bias", ["Where"]),
        ("Where(mask, zero, low)", "bool[seq, keys] mask", ["Where"]),
        ("Where(mask, row, infinity)", "bool mask", ["Where", "Unsqueeze"]),
    ],
    ids=["another number for what is kept", "another for what is hidden", "a small one", "a mask without axes"],
)
def test_a_choice_that_is_not_boolean_is_added(choice: str, inputs: str, operators: list[str]) -> None:
    numbers = {"low": -2.0, "row": np.zeros(1, np.float32)}
    used = {name: number for name, number in numbers.items() if name in choice}
    proto = model(f"{SCALED} w = {choice} m = Add(s, w) {ATTENDED}", f"{HEADS}, {inputs}", **used)
    if inputs == "bool mask":
        assert [node.op_type for node in simplified(proto).graph] == [*operators, "Attention"]
    else:
        assert found(proto) == [*operators, "onnxlift.Attention"]


@pytest.mark.parametrize("fill", [-2.0, LOWEST])
def test_a_triangle_hides_only_with_a_huge_number(fill: float) -> None:
    proto = model(f"{TRIANGLE} w = Where(after, fill, zero) {SCALED} m = Add(s, w) {ATTENDED}", one=1.0, fill=fill)
    assert found(proto)[-1] == "onnxlift.Attention"
    assert ("is_causal" in attention(proto)[1]) == (fill == LOWEST)


def shifted(flags: np.ndarray, text: str = SHIFT, how: str = "m = Add(s, shift)") -> onnx.ModelProto:
    return model(f"{text} {SCALED} {how} {ATTENDED}", HEADS, flags=flags)


@pytest.mark.parametrize("how", ["m = Where(all, s, lowest)", "m = Where(all, lowest, s)"])
@pytest.mark.parametrize("flag", [True, False])
def test_a_large_constant_that_hides_nothing_goes(how: str, flag: bool) -> None:
    """So large that no simplification looks at it."""
    inputs = HEADS.replace("seq", "33").replace("keys", "32")
    proto = model(f"{SCALED} {how} {ATTENDED}", inputs, "float[batch, 3, 33, 8] y", all=np.full((33, 32), flag))
    assert found(proto)[-1] == "onnxlift.Attention"
    assert len(attention(proto)[0]) == (3 if flag == ("s, lowest" in how) else 4)


@pytest.mark.parametrize("flags", [LOWEST, -1e4, np.inf, np.nan], ids=["lowest", "large", "infinite", "nan"])
def test_a_number_in_which_scores_are_lost_stays(flags: float) -> None:
    proto = shifted(np.full((1, 1, 1, 1), flags))
    assert len(attention(proto)[0]) == 4
    if np.isfinite(flags):
        assert_same_numbers(proto)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (np.full((1, 1, 1, 1), "1.5"), SHIFT),
        (np.zeros((0, 1, 1, 1), np.float32), SHIFT.replace("(n, one)", "(none, one)").replace("n =", "none =")),
    ],
    ids=["text", "nothing"],
)
def test_what_is_no_number_throughout_stays(flags: np.ndarray, text: str) -> None:
    assert len(attention(shifted(flags, text))[0]) == 4


def test_a_number_that_a_cast_changes_is_another() -> None:
    """What is true for any other number is 1, which hides nothing."""
    flags = UPPER.replace("Expand(one, n)", "ConstantOfShape <value = float[1] {-3e38}> (n)")
    flags = flags.replace("lower =", "flags = Cast <to = 9> (ones) again = Cast <to = 1> (flags) lower =")
    body = f"{flags.replace('(ones, shift)', '(again, shift)')} {SCALED} m = Add(s, lower) {ATTENDED}"
    proto = model(body, shift=np.int64(1))
    assert found(proto)[-1] == "onnxlift.Attention"
    assert "is_causal" not in attention(proto)[1]


def test_no_larger_constant_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_mask, "_MAX_CAUSAL", 3)
    triangle = np.where(np.tri(4, 6, dtype=bool), 0, INFINITY).astype(np.float32)
    proto = model(f"{SCALED} m = Add(s, triangle) {ATTENDED}", SIZED, Y_SIZED, triangle=triangle)
    assert attention(proto) == (["q", "k", "v", "triangle"], {})
    flags = np.full((1, 3, 1, 1), True)
    assert len(attention(shifted(flags))[0]) == 3
    monkeypatch.setattr(attention_mask, "_MAX_CAUSAL", 2)
    assert len(attention(shifted(flags))[0]) == 4


@pytest.mark.parametrize(
    "data",
    [
        np.tri(1, 6, dtype=bool),
        np.where(np.tri(4, 6, dtype=bool), 0.5, INFINITY).astype(np.float32),
        np.where(np.tri(4, 6, dtype=bool), 0, -2).astype(np.float32),
        np.where(np.tri(4, 6, 1, dtype=bool), 0, INFINITY).astype(np.float32),
        np.where(np.tri(4, 6, -1, dtype=bool), 0, LOWEST).astype(np.float32),
    ],
    ids=["one row for all", "other numbers kept", "small numbers hidden", "one more", "one less"],
)
def test_other_constants_are_masks(data: np.ndarray) -> None:
    how = "m = Where(triangle, s, infinity)" if data.dtype == bool else "m = Add(s, triangle)"
    proto = model(f"{SCALED} {how} {ATTENDED}", SIZED, Y_SIZED, triangle=data)
    assert found(proto) == ["onnxlift.Attention"]
    assert attention(proto) == (["q", "k", "v", "triangle"], {})


def test_scores_of_a_single_query_without_an_axis_stay() -> None:
    """A mask of as many axes as the scores have, but only one."""
    inputs = "float[8] q, float[8, 6] k, float[batch, 3, 6, 8] v"
    body = f"s = MatMul(q, k) m = Add(s, row) {ATTENDED}"
    assert "onnxlift.Attention" not in found(model(body, inputs, "float[batch, 3, 8] y", row=(6,)))


def test_positions_that_differ_in_the_batch_are_a_mask() -> None:
    body = f"""sq = Shape(q) n = Gather(sq, axis) sk = Shape(k) l = Gather(sk, axis) b = Gather(sq, first)
        rows = Range(first, n, step) keys = Range(first, l, step) queries = Unsqueeze(rows, last)
        batches = Range(first, b, step) late = Unsqueeze(batches, axes) later = Add(late, queries)
        c = LessOrEqual(keys, later) {SCALED} m = Where(c, s, lowest) {ATTENDED}"""
    numbers = {"axis": np.int64(2), "first": np.int64(0), "step": np.int64(1), "last": np.array([-1])}
    proto = model(body, **numbers, axes=np.array([1, 2, 3]))
    assert found(proto)[-1] == "onnxlift.Attention"
    assert "is_causal" not in attention(proto)[1]


LOWER = f"{TRIANGLE} kept = Cast <to = 9> (lower)"


@pytest.mark.parametrize(
    ("triangle", "how", "filled"),
    [
        (LOWER.replace("(ones)", "(ones, shift)"), "m = Where(kept, s, fill)", 1.0),
        (LOWER.replace("(ones)", "(ones, other)"), "m = Where(kept, s, fill)", 1.0),
        (LOWER, "m = Where(kept, s, fill)", 0.0),
        (LOWER, "m = Where(kept, fill, s)", 1.0),
        (LOWER, "m = Add(s, lower)", LOWEST),
        (UPPER.replace("(ones, shift)", "(ones)"), "m = Where(after, s, fill)", 1.0),
        (UPPER, "m = Where(after, fill, s)", 1.0),
        (UPPER, "m = Add(s, lower)", 1.0),
    ],
    ids=[
        "lower, one more",
        "lower, anywhere",
        "lower, of zeros",
        "lower, hidden",
        "lower, added",
        "upper, with the diagonal",
        "upper, kept",
        "upper, small",
    ],
)
def test_another_triangle_is_a_mask(triangle: str, how: str, filled: float) -> None:
    inputs = f"{HEADS}, int64 other" if "other" in triangle else HEADS
    proto = model(f"{triangle} {SCALED} {how} {ATTENDED}", inputs, one=filled, fill=LOWEST, shift=np.int64(1))
    assert found(proto)[-1] == "onnxlift.Attention"
    assert "is_causal" not in attention(proto)[1]


def test_a_triangle_that_gets_an_axis_behind_is_a_mask() -> None:
    """The first row of it, for the queries: only the first one has a key, of which there is one."""
    body = f"""b = Shape <start = 2, end = 3> (q) n = Concat <axis = 0> (first, b) ones = Expand(one, n)
        lower = Trilu <upper = 0> (ones) flags = Cast <to = 9> (lower) kept = Unsqueeze(flags, axes)
        {SCALED} m = Where(kept, s, lowest) {ATTENDED}"""
    numbers = {"one": 1.0, "first": np.array([1]), "axes": np.array([2])}
    proto = model(body, HEADS.replace("keys", "1"), **numbers)
    assert found(proto)[-1] == "onnxlift.Attention"
    assert "is_causal" not in attention(proto)[1]


def test_a_bias_for_each_window_of_each_image_stays() -> None:
    proto = windows(f"each = Reshape(biases, back) {WITH_BIAS.replace('bias)', 'each)')}")
    shape = ("batch", 4, WINDOW_HEADS, LENGTH, LENGTH)
    proto.graph.input.append(onnx.helper.make_tensor_value_info("biases", 1, shape))
    assert "onnxlift.WindowMask" not in found(proto)


def test_a_triangle_for_all_windows_is_added_to_their_masks() -> None:
    """PyTorch takes a mask or `is_causal`, not both."""
    triangle = np.where(np.tri(LENGTH, dtype=bool), 0, INFINITY).astype(np.float32)
    proto = windows(WITH_BIAS, bias=triangle)
    assert found(proto).count("onnxlift.WindowMask") == 1
    assert attention(proto)[1] == {}


@pytest.mark.parametrize(
    ("how", "data"),
    [
        ("m = Add(s, data)", np.where(np.tri(4, 6, dtype=bool), 0, INFINITY).astype(np.float32)),
        ("m = Where(data, s, infinity)", np.tri(4, 6, dtype=bool)),
        ("m = Where(data, s, infinity)", np.full((4, 6), True)),
        ("cast = Cast <to = 1> (data) m = Add(s, cast)", np.full((4, 6), True)),
    ],
    ids=["causal, added", "causal", "nothing hidden", "a shift"],
)
def test_a_mask_that_may_repeat_the_scores_stays(how: str, data: Data) -> None:
    """For a batch of one the result has two entries."""
    proto = model(f"{SCALED} {how} {ATTENDED}", SIZED, Y_SIZED, data=np.stack([data] * 2)[:, None])
    assert len(attention(proto)[0]) == 4

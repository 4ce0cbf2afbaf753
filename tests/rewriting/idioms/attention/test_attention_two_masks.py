"""Two masks that are applied to scores one after the other: when they are one mask, and when not."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import onnxlift
from rewriting.idioms import unsimplified
from rewriting.idioms.attention.test_attention import ATTENDED, HEADS, INFINITY, LOWEST, SCALED, model
from rewriting.idioms.recognising import Array, Data, found, random_inputs, simplified

MORE = f"{HEADS}, float[batch, 3, seq, keys] bias, bool[batch, 1, 1, keys] kept, bool[seq, keys] other, bool[keys] far"
CHOICE = "c = Where(kept, zero, lowest)"


def masked(how: str, inputs: str = MORE, **more: Data) -> onnx.ModelProto:
    """An attention whose scores s become m."""
    return model(f"{SCALED} {how} {ATTENDED}", inputs, **more)


@pytest.mark.parametrize(
    ("how", "inserted"),
    [
        (f"{CHOICE} b = Add(s, bias) m = Add(b, c)", ["Add"]),
        (f"{CHOICE} b = Add(bias, s) m = Add(c, b)", ["Add"]),
        (f"{CHOICE} b = Add(s, c) m = Add(b, bias)", ["Add"]),
        ("c = Where(kept, lowest, zero) b = Add(s, bias) m = Add(b, c)", ["Add"]),
        ("c = Where(kept, zero, infinity) b = Add(s, bias) m = Add(b, c)", ["Where"]),
        ("b = Add(s, bias) m = Where(kept, b, lowest)", ["Where"]),
        ("b = Add(s, bias) m = Where(kept, lowest, b)", ["Where"]),
        (f"{CHOICE} b = Where(far, s, lowest) m = Add(b, c)", ["Where", "Add"]),
        (f"{CHOICE} b = Where(far, lowest, s) m = Add(b, c)", ["Where", "Add"]),
        ("b = Where(other, s, infinity) m = Where(kept, b, infinity)", ["And"]),
        ("h = Not(kept) b = Where(other, s, infinity) m = Where(h, infinity, b)", ["And"]),
        ("h = Not(other) b = Where(h, infinity, s) m = Where(kept, b, infinity)", ["And"]),
        ("b = Where(far, s, lowest) m = Where(kept, b, infinity)", ["Where", "Where"]),
        ("b = Where(other, s, infinity) m = Where(kept, b, lowest)", ["Where", "Where"]),
    ],
)
def test_two_masks_are_one(how: str, inserted: list[str]) -> None:
    proto = masked(how)
    for operators in (found(proto), unsimplified.found(proto)):
        assert operators.count("onnxlift.Attention") == 1
        assert "Softmax" not in operators and "MatMul" not in operators
        assert set(inserted) <= {*operators}, operators


@pytest.mark.parametrize(
    "how",
    [
        "b = Add(s, bias) m = Add(b, bias)",  # neither hides anything
        "c = Where(kept, zero, little) b = Add(s, bias) m = Add(b, c)",
        "c = Where(kept, bias, lowest) b = Add(s, bias) m = Add(b, c)",
        "c = Where(kept, lowest, infinity) b = Add(s, bias) m = Add(b, c)",
        "b = Where(far, s, lowest) m = Add(b, bias)",  # what is hidden could be brought back
        "b = Add(s, bias) m = Where(other, b, lowest)",  # queries that have no keys have other gradients
        f"{CHOICE} b = Where(other, s, lowest) m = Add(b, c)",
    ],
    ids=["two biases", "a small number", "a choice of biases", "no zero", "a bias behind", "queries", "queries before"],
)
def test_other_sums_stay(how: str) -> None:
    proto = masked(how, little=-1e4)
    assert "onnxlift.Attention" not in found(proto)


ONES = f"{HEADS}, float[batch, 3, seq, keys] bias, int64[batch, 1, 1, keys] ones"


@pytest.mark.parametrize(
    ("mask", "is_one"),
    [
        ("f = Cast <to = 1> (ones) d = Sub(unit, f) c = Mul(d, lowest)", True),
        ("f = Cast <to = 1> (ones) d = Sub(unit, f) c = Mul(lowest, d)", True),
        ("o = Cast <to = 9> (ones) f = Cast <to = 1> (o) d = Sub(unit, f) c = Mul(d, lowest)", True),
        ("f = Cast <to = 1> (ones) d = Sub(unit, f) c = Mul(d, little)", False),
        ("f = Cast <to = 1> (ones) d = Sub(two, f) c = Mul(d, lowest)", False),
        ("f = Cast <to = 1> (ones) d = Add(unit, f) c = Mul(d, lowest)", False),
        ("f = Cast <to = 1> (ones) d = Sub(unit, f) c = Mul(d, f)", False),
        ("f = Cast <to = 1> (ones) g = Sin(f) d = Sub(unit, g) c = Mul(d, lowest)", False),
    ],
)
def test_masks_of_ones(mask: str, is_one: bool) -> None:
    proto = masked(f"{mask} b = Add(s, bias) m = Add(b, c)", ONES, unit=1.0, two=2.0, little=-1e4)
    graph = [f"{node.domain}.{node.op_type}".lstrip(".") for node in simplified(proto).graph]
    assert ("onnxlift.Attention" in graph) == is_one
    ones = np.random.default_rng(3).integers(0, 2, (2, 1, 1, 5))
    ones[..., 0] = 1
    _compare(proto, ones=ones)


@pytest.mark.parametrize(("filled", "is_one"), [(LOWEST, True), (INFINITY, True), (-5.0, False)])
def test_constant_masks(filled: float, is_one: bool) -> None:
    numbers = np.array([0.0, filled, 0.0, 0.0, filled], np.float32)
    proto = masked("b = Add(s, bias) m = Add(b, hidden)", ONES.replace("keys", "5"), hidden=numbers)
    operators = [node.op_type for node in simplified(proto).graph]
    assert ("Attention" in operators) == is_one
    _compare(proto)


def test_a_large_constant_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.array([0.0, LOWEST, 0.0, 0.0, LOWEST], np.float32)
    proto = masked("b = Add(s, bias) m = Add(b, hidden)", ONES.replace("keys", "5"), hidden=numbers)
    monkeypatch.setattr("onnxlift.rewriting.idioms.attention.parts.mask._MAX_CAUSAL", 4)
    assert "Attention" not in [node.op_type for node in simplified(proto).graph]


POSITIONS = """n = Shape <start = 2, end = 3> (q) i = Squeeze(n) ks = Shape <start = 2, end = 3> (k) j = Squeeze(ks)
    queries = Range(first, i, step) of_keys = Range(first, j, step) column = Unsqueeze(queries, behind)
    near = LessOrEqual(of_keys, column)"""
COUNTED = {"first": np.array(0), "step": np.array(1), "behind": np.array([1])}


def test_a_mask_by_queries_that_is_made_of_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = masked(f"{POSITIONS} {CHOICE} b = Where(near, s, lowest) m = Add(b, c)", **COUNTED)
    assert "onnxlift.Attention" in found(proto)
    monkeypatch.setattr("onnxlift.rewriting.idioms.attention.parts.mask._MOST_POSITIONS", 3)
    assert "onnxlift.Attention" not in found(proto)


def test_a_mask_by_queries_that_a_branch_makes_of_data() -> None:
    branches = """near = If (many) <then_branch = a () => (bool[seq, keys] yes) { yes = Not(other) },
        else_branch = z () => (bool[seq, keys] no) { no = Xor(other, far) }>"""
    how = f"all = Size(q) many = Greater(all, first) {branches} {CHOICE} b = Where(near, s, lowest) m = Add(b, c)"
    assert "onnxlift.Attention" not in found(masked(how, first=np.array(300)))


def test_the_mask_of_several_attentions_is_computed_once() -> None:
    one = f"{SCALED} {CHOICE} b = Add(s, bias) m = Add(b, c) {ATTENDED}"
    names = ("t", "qk", "s", "b", "m", "p")
    two = re.sub(rf"\b({'|'.join(names)})\b", r"\g<1>2", one.replace(CHOICE, "")).replace("(q,", "(y,")
    two = two.replace("y = MatMul", "z = MatMul")
    proto = model(f"{one} {two}", MORE, "float[batch, 3, seq, 8] z")
    operators = found(proto)
    assert operators.count("onnxlift.Attention") == 2 and operators.count("Add") == 1


def test_scores_between_two_masks_that_are_read_elsewhere() -> None:
    body = f"{SCALED} {CHOICE} b = Add(s, bias) m = Add(b, c) {ATTENDED} z = Tanh(b)"
    outputs = "float[batch, 3, seq, 8] y, float[batch, 3, seq, keys] z"
    assert "onnxlift.Attention" not in found(model(body, MORE, outputs))


def test_three_masks_stay() -> None:
    proto = masked(f"{CHOICE} b = Add(s, bias) d = Where(other, b, lowest) m = Add(d, c)")
    assert "onnxlift.Attention" not in found(proto)


def test_of_a_product_and_a_sum_of_products_the_product_are_the_scores() -> None:
    inputs = f"{MORE}, float[batch, 3, seq, 2] a, float[batch, 3, 2, keys] r"
    operators = found(masked("ar = MatMul(a, r) b = Add(ar, bias) m = Add(b, s)", inputs))
    assert operators.count("onnxlift.Attention") == 1


@pytest.mark.parametrize("how", ["b = Add(s, bias) m = Add(b, one)", "b = Add(s, one) m = Add(b, bias)"])
def test_a_number_for_all_is_no_second_mask(how: str) -> None:
    operators = found(masked(f"one = Constant <value = float {{1.0}}> () {how}"))
    assert operators == ["onnxlift.Attention"]


def test_a_triangle_and_a_mask() -> None:
    """Where all keys of a query are hidden by either of them, those that only one hides count."""
    inputs = MORE.replace("seq", "5").replace("keys", "5")
    how = f"{CHOICE} b = Where(triangle, s, lowest) m = Add(b, c)"
    proto = model(f"{SCALED} {how} {ATTENDED}", inputs, "float[batch, 3, 5, 8] y", triangle=np.tri(5, dtype=bool))
    assert "Attention" in [node.op_type for node in simplified(proto).graph]
    kept = np.ones((2, 1, 1, 5), bool)
    kept[0, ..., :3] = False
    _compare(proto, kept=kept)


def test_an_added_triangle_and_a_mask() -> None:
    inputs = MORE.replace("seq", "5").replace("keys", "5")
    how = f"t2 = Where(triangle, zero, lowest) {CHOICE} b = Add(s, t2) m = Add(b, c)"
    proto = model(f"{SCALED} {how} {ATTENDED}", inputs, "float[batch, 3, 5, 8] y", triangle=np.tri(5, dtype=bool))
    kept = np.ones((2, 1, 1, 5), bool)
    kept[0, ..., :3] = False
    _compare(proto, kept=kept)


def _compare(proto: onnx.ModelProto, **given: Array) -> None:
    """The lifted module gives ONNX Runtime's numbers, also if nothing was simplified."""
    feeds = random_inputs(proto, {"batch": 2, "seq": 5, "keys": 5}, 3) | given
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feeds)
    for simplify in (True, False):
        with torch.no_grad():
            y = onnxlift.lift(proto, simplify=simplify).module()(*(torch.from_numpy(feed) for feed in feeds.values()))
        torch.testing.assert_close(y, torch.from_numpy(expected), rtol=1e-4, atol=1e-5)

"""The conditions under which repeated keys and values are those that several heads of queries share."""

from __future__ import annotations

import numpy as np
import pytest

from rewriting.idioms.attention.test_attention import KEYS_AT_ONCE, SHARED, TILED, attention, model
from rewriting.idioms.recognising import found

SHAPES = {"heads": (-1, 6, 5, 8), "copies": (1, 1, 3, 1, 1), "two": (2,)}
Y = "float[batch, 6, seq, 8] y"


def shared(
    keys: str = TILED,
    values: str = TILED,
    inputs: str = SHARED,
    output: str = Y,
    turn: str = KEYS_AT_ONCE,
    **more: object,
) -> tuple[list[str], dict[str, object]]:
    """The operators and the attributes of an attention with repeated keys and values."""
    body = f"""{keys.format("k")} {values.format("v")} {turn}
        qk = MatMul(q, t) s = Mul(qk, scale) p = Softmax(s) y = MatMul(p, vr)"""
    words = {*body.replace("(", " ").replace(")", " ").replace(",", " ").split()}
    shapes = {name: np.array(shape) for name, shape in (SHAPES | more).items() if name in words}
    proto = model(body, inputs.replace("keys", "5"), output, **shapes)
    return found(proto), attention(proto)[1]


def test_keys_and_values_that_are_shared() -> None:
    assert shared() == (["onnxlift.Attention"], {"enable_gqa": 1})


@pytest.mark.parametrize("plain", ["keys", "values"])
def test_only_one_of_keys_and_values_is_repeated(plain: str) -> None:
    name = plain[0]
    inputs = SHARED.replace(f"float[batch, 2, keys, 8] {name}", f"float[batch, 6, keys, 8] {name}")
    operators, attributes = shared(**{plain: "{0}r = Sin({0})"}, inputs=inputs)
    assert operators[-1] == "onnxlift.Attention" and attributes == {}


def test_keys_and_values_in_groups_of_another_size() -> None:
    inputs = SHARED.replace("float[batch, 2, keys, 8] v", "float[batch, 3, keys, 8] v")
    values = TILED.replace("copies", "fewer")
    operators, attributes = shared(values=values, inputs=inputs, fewer=(1, 1, 2, 1, 1))
    assert operators[-1] == "onnxlift.Attention" and attributes == {}


def test_fewer_queries_than_heads() -> None:
    """The one head of queries is for all heads of keys."""
    operators, attributes = shared(inputs=SHARED.replace("batch, 6, seq", "batch, 1, seq"))
    assert operators[-1] == "onnxlift.Attention" and attributes == {}


def test_a_batch_with_an_axis_of_its_own() -> None:
    """The axis of batches is as new as that of copies."""
    inputs = "float[1, 6, seq, 8] q, float[2, keys, 8] k, float[2, keys, 8] v"
    repeat = TILED.replace("two", "both")
    operators, attributes = shared(repeat, repeat, inputs, "float[1, 6, seq, 8] y", both=(0, 2))
    assert operators[-1] == "onnxlift.Attention" and attributes == {}


def test_repeated_keys_are_not_repeated_heads() -> None:
    inputs = "float[batch, 6, seq, 8] q, float[batch, 6, keys, 8] k, float[batch, 6, keys, 8] v"
    repeat = TILED.replace("two", "third").replace("copies", "longer").replace("heads", "length")
    more = {"third": (3,), "longer": (1, 1, 1, 2, 1), "length": (-1, 6, 10, 8)}
    operators, attributes = shared(repeat, repeat, inputs, **more)
    assert operators[-1] == "onnxlift.Attention" and attributes == {}


def test_three_axes_have_no_heads() -> None:
    inputs = "float[batch, 6, 8] q, float[batch, 2, 8] k, float[batch, 2, 8] v"
    repeat = TILED.replace("copies", "times").replace("heads", "rows")
    turn = "t = Transpose <perm = [0, 2, 1]> (kr)"
    operators, attributes = shared(
        repeat, repeat, inputs, "float[batch, 6, 8] y", turn, times=(1, 1, 3, 1), rows=(-1, 6, 8)
    )
    assert operators[-1] == "onnxlift.Attention" and attributes == {}

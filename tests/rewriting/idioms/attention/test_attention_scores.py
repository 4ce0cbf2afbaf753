"""The conditions under which something is the weights of an attention: its softmax, its scores, its dropout."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriting.idioms.attention.test_attention import DROPPED, HEADS, SCALED, attention, model
from rewriting.idioms.recognising import found, simplified

HALF = HEADS.replace("float[", "float16[")
Y_HALF = "float16[batch, 3, seq, 8] y"
WIDENED = f"{SCALED} w = Cast <to = 1> (s) p = Softmax(w) n = Cast <to = 10> (p) y = MatMul(n, v)"
GUARDED = WIDENED.replace("n = Cast <to = 10> (p)", "b = IsNaN(p) c = Where(b, zero, p) n = Cast <to = 10> (c)")


def operators(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in simplified(proto).graph]


def half(body: str, inputs: str = HALF, output: str = Y_HALF) -> onnx.ModelProto:
    dtype = np.float64 if "double[batch, 3, seq" in inputs else np.float16
    return model(body, inputs, output, scale=np.array(8**-0.5, dtype))


@pytest.mark.parametrize("body", [WIDENED, GUARDED], ids=["plain", "guarded"])
def test_half_precision_with_a_softmax_in_float(body: str) -> None:
    assert found(half(body), atol=4e-3) == ["onnxlift.Attention"]


@pytest.mark.parametrize(
    ("old", "new", "output"),
    [
        ("", "", ", float16[batch, 3, seq, keys] n"),
        ("", "", ", float[batch, 3, seq, keys] p"),
        ("", "", ", float[batch, 3, seq, keys] w"),
        ("", "", ", float16[batch, 3, seq, keys] s"),
        ("<to = 1>", "<to = 11>", ""),
    ],
    ids=["narrowed", "probabilities", "widened", "scores", "in double"],
)
def test_half_precision_that_is_not_attention(old: str, new: str, output: str) -> None:
    assert "Attention" not in operators(half(WIDENED.replace(old, new), output=Y_HALF + output))


@pytest.mark.parametrize(
    ("inputs", "to"),
    [
        (HEADS.replace("float[", "double["), 11),
        (HALF.replace("float16[batch, 3, keys, 8] v", "double[batch, 3, keys, 8] v"), 11),
    ],
    ids=["double", "half and double"],
)
def test_a_softmax_in_float_for_other_types_stays(inputs: str, to: int) -> None:
    body = WIDENED.replace("<to = 10>", f"<to = {to}>")
    proto = half(body, inputs, "double[batch, 3, seq, 8] y")
    assert "onnxlift.Attention" not in found(proto, rtol=1e-3, atol=1e-3)


def test_masked_scores_in_half_precision_that_are_read_elsewhere_stay() -> None:
    body = WIDENED.replace("w = Cast <to = 1> (s)", "m = Add(s, mask) w = Cast <to = 1> (m)")
    inputs = f"{HALF}, float16[batch, 1, seq, keys] mask"
    assert "Attention" in operators(half(body, inputs))
    assert "Attention" not in operators(half(body, inputs, f"{Y_HALF}, float16[batch, 3, seq, keys] m"))


def test_a_guard_in_float_that_is_read_elsewhere_stays() -> None:
    proto = half(GUARDED, output=f"{Y_HALF}, float[batch, 3, seq, keys] c")
    assert "Attention" not in operators(proto)


NAN = f"{SCALED} m = Where(mask, s, infinity) p = Softmax(m) nan = IsNaN(p) c = Where(nan, zero, p) y = MatMul(c, v)"


@pytest.mark.parametrize(
    ("old", "new", "output"),
    [
        ("IsNaN(p)", "IsNaN(other) z = Neg(p)", ", float[batch, 3, seq, keys] z"),
        ("nan =", "nan =", ", bool[batch, 3, seq, keys] nan"),
        ("c =", "z = Neg(p) c =", ", float[batch, 3, seq, keys] z"),
        ("c =", "c =", ", float[batch, 3, seq, keys] c"),
        ("zero, p", "scale, p", ""),
    ],
    ids=["of something else", "condition is read", "probabilities are read", "result is read", "another number"],
)
def test_other_guards_stay(old: str, new: str, output: str) -> None:
    inputs = f"{HEADS}, bool[batch, 1, seq, keys] mask, float[batch, 3, seq, keys] other"
    proto = model(NAN.replace(old, new), inputs, f"float[batch, 3, seq, 8] y{output}")
    assert "onnxlift.Attention" not in found(proto)


def test_keys_with_fewer_axes_than_queries_stay() -> None:
    inputs = "float[batch, 3, seq, 8] q, float[8, keys] k, float[batch, 3, keys, 8] v"
    assert "onnxlift.Attention" not in found(model("s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v)", inputs))


def test_values_with_fewer_axes_than_scores_stay() -> None:
    inputs = "float[batch, 3, seq, 8] q, float[batch, 3, keys, 8] k, float[keys, 8] v"
    assert "onnxlift.Attention" not in found(model(f"{SCALED} p = Softmax(s) y = MatMul(p, v)", inputs))


def test_queries_without_features() -> None:
    """All scores are 0, and the usual scale is one over 0."""
    body = f"a = MatMul(x, empty) b = MatMul(z, empty) {SCALED.replace('(k)', '(b)').replace('q, t', 'a, t')}"
    inputs = "float[batch, 3, seq, 8] x, float[batch, 3, keys, 8] z, float[batch, 3, keys, 8] v"
    proto = model(f"{body} p = Softmax(s) y = MatMul(p, v)", inputs, empty=(8, 0))
    assert found(proto)[-1] == "onnxlift.Attention"


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ("d = Dropout(p, ratio, mode) z = Neg(d)", ", float[batch, 3, seq, keys] z"),
        ("d, m = Dropout(p, ratio, mode) z = Not(m)", ", bool[batch, 3, seq, keys] z"),
    ],
    ids=["read elsewhere", "its mask is read"],
)
def test_other_dropouts_are_no_part_of_attention(call: str, output: str) -> None:
    text = f"{DROPPED} {call} y = MatMul(d, v)"
    proto = model(text, HEADS, f"float[batch, 3, seq, 8] y{output}", ratio=0.25, mode=np.array(True))
    assert "Attention" not in operators(proto)


OLD = "t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(q, t) p = Softmax <axis = 3> (s)"


@pytest.mark.parametrize(
    ("opset", "attributes", "trains"), [(6, "", 1), (6, "is_test = 1, ", 0), (7, "", 0)], ids=["6", "6 in a test", "7"]
)
def test_old_dropouts_train_until_they_are_told(opset: int, attributes: str, trains: int) -> None:
    body = f"{OLD} d = Dropout <{attributes}ratio = 0.25> (p) y = MatMul(d, v)"
    assert attention(model(body, opset=opset))[1] == {"scale": 1.0, "dropout": 0.25, "trains": trains}


def test_a_dropout_of_everything_is_no_part_of_attention() -> None:
    proto = model(f"{OLD} d = Dropout <ratio = 1.0> (p) y = MatMul(d, v)", opset=7)
    assert "Attention" not in operators(proto)


def test_scores_of_an_unknown_type_stay() -> None:
    """What an operator of somebody else gives: it is not known what can be added to it."""
    made = " ".join(f"{x}m = other.Make({x}) {x}h = Reshape({x}m, heads)" for x in "qkv")
    body = f"{made} {SCALED.replace('(k)', '(kh)').replace('q, t', 'qh, t')} p = Softmax(s) y = MatMul(p, vh)"
    proto = model(body, heads=np.array([2, 3, 5, 8]))
    proto.opset_import.append(onnx.helper.make_opsetid("other", 1))
    assert "Attention" not in operators(proto)

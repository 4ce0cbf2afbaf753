"""Attention with one head next to attention with two: both are written with heads."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from rewriting.idioms import unsimplified
from rewriting.idioms.recognising import Data, found, parse, simplified

SWAP = "Transpose <perm = [0, 2, 1, 3]>"
KNOWN: dict[str, Data] = {
    "one": np.array((0, 0, 1, 6)),
    "two": np.array((0, 0, 2, 3)),
    "flat": np.array((0, 0, 6)),
    "first": np.array([1]),
    "second": np.array([2]),
    "scale": 6**-0.5,
    "less": 3**-0.5,
}

BEHIND = " ".join(f"{x}r = Reshape({x}, one) {x}h = {SWAP} ({x}r)" for x in "qkv")
BEFORE = " ".join(f"{x}h = Unsqueeze({x}, first)" for x in "qkv")
RESHAPED = f"t = {SWAP} (a) y = Reshape(t, flat)"
SQUEEZED = "y = Squeeze(a, first)"


def attention(x: str = "", scale: str = "scale") -> str:
    return (
        f"{x}kt = Transpose <perm = [0, 1, 3, 2]> ({x}kh) {x}s = MatMul({x}qh, {x}kt) {x}m = Mul({x}s, {scale}) "
        f"{x}p = Softmax <axis = -1> ({x}m) {x}a = MatMul({x}p, {x}vh)"
    )


def model(
    split: str, merge: str, *, company: bool = True, results: str = "", values: str = "batch, keys, 6"
) -> onnx.ModelProto:
    """Attention between q, k and v, split by one text and merged by another; in `company` its result goes on into one
    with two heads."""
    body = f"{split} {attention()} {merge}"
    if company:
        more = "o = Sin(y) " + " ".join(f"{x}r = Reshape(o, two) {x}h = {SWAP} ({x}r)" for x in ("zq", "zk", "zv"))
        body += f" {more} {attention('z', 'less')} zt = {SWAP} (za) z = Reshape(zt, flat)"
    inputs = f"float[batch, seq, 6] q, float[batch, keys, 6] k, float[{values}] v"
    outputs = f"float[batch, seq, 6] {'z' if company else 'y'}{results}"
    words = {*body.replace("(", " ").replace(")", " ").replace(",", " ").split()}
    return parse(f"g ({inputs}) => ({outputs}) {{ {body} }}", **{n: d for n, d in KNOWN.items() if n in words})


@pytest.mark.parametrize("merge", [RESHAPED, SQUEEZED, f"t = {SWAP} (a) y = Squeeze(t, second)"])
@pytest.mark.parametrize("split", [BEHIND, BEFORE, BEHIND.replace("qr = Reshape(q, one)", "qr = Unsqueeze(q, second)")])
def test_every_spelling_is_cut_into_heads(split: str, merge: str) -> None:
    proto = model(split, merge)
    operators = found(proto)
    assert operators.count("onnxlift.SplitHeads") == 3 and operators.count("onnxlift.MergeHeads") == 1
    source = onnxlift.lift(proto).source
    assert "squeeze" not in source
    assert "k.unflatten(-1, (1, 6)).transpose(1, 2)" in source


@pytest.mark.parametrize(
    "proto",
    [
        model(BEFORE, SQUEEZED, company=False),
        model(BEFORE, SQUEEZED, results=", float[batch, 1, seq, 6] a"),
        model(BEFORE, SQUEEZED, results=", float[batch, 1, keys, 6] kh"),
        model(BEFORE.replace("vh = Unsqueeze(v, first)", "vg = Unsqueeze(v, first) vh = Sin(vg)"), SQUEEZED),
        model(BEFORE, "b = Sin(a) y = Squeeze(b, first)"),
        model(BEFORE, "y = ReduceL1 <keepdims = 0> (a, first)"),
        model(BEHIND, RESHAPED, results=", float[batch, keys, 1, 6] vr"),
        model(BEHIND, RESHAPED, results=", float[batch, seq, 1, 6] t"),
        model(BEHIND, RESHAPED, results=", float[batch, 1, keys, 6] vh"),
    ],
    ids=[
        "nobody has heads",
        "the result is read",
        "the keys are read",
        "values between",
        "a result in between",
        "another merge",
        "the cut values are read",
        "the swapped result is read",
        "the swapped values are read",
    ],
)
def test_what_is_not_cut_into_heads_stays(proto: onnx.ModelProto) -> None:
    assert "onnxlift.SplitHeads" not in found(proto)


def test_a_single_head_that_was_cut_is_company_enough() -> None:
    assert "onnxlift.SplitHeads" in found(model(BEHIND, RESHAPED, company=False))


def test_axes_that_move_otherwise_stay() -> None:
    turned = "vg = Unsqueeze(v, second) vh = Transpose <perm = [0, 2, 3, 1]> (vg)"
    proto = model(BEFORE.replace("vh = Unsqueeze(v, first)", turned), SQUEEZED, values="batch, 6, keys")
    assert "onnxlift.SplitHeads" not in found(proto)


def in_company(inputs: str, body: str, outputs: str, opset: int = 18, **other: Data) -> onnx.ModelProto:
    """With an attention between cuts of `o` into two heads."""
    more = " ".join(f"{x}r = Reshape(o, two) {x}h = {SWAP} ({x}r)" for x in ("zq", "zk", "zv"))
    body += f" {more} {attention('z', 'less')} zt = {SWAP} (za) z = Reshape(zt, flat)"
    words = {*body.replace("(", " ").replace(")", " ").replace(",", " ").split()}
    text = f"g (float[batch, seq, 6] o, {inputs}) => (float[batch, seq, 6] z, {outputs}) {{ {body} }}"
    return parse(text, opset, **{name: data for name, data in KNOWN.items() if name in words}, **other)


def test_a_length_of_one_is_no_head() -> None:
    """Three axes, of which the one of size 1 is that of queries and keys."""
    inputs = "float[seq, 6] q, float[seq, 6] k, float[seq, 6] v"
    proto = in_company(inputs, f"{BEFORE} {attention().replace('0, 1, 3, 2', '0, 2, 1')} {SQUEEZED}", "float[seq, 6] y")
    for operators in (found(proto), unsimplified.found(proto)):
        assert operators.count("onnxlift.Attention") == 2 and "onnxlift.SplitHeads" not in operators


def test_a_merge_in_a_branch_stays() -> None:
    branches = """y = If (flag) <then_branch = inside () => (float[batch, seq, 6] inner) { inner = Squeeze(a, first) },
        else_branch = outside () => (float[batch, seq, 6] other) { other = Neg(q) }>"""
    inputs = "float[batch, seq, 6] q, float[batch, keys, 6] k, float[batch, keys, 6] v, bool flag"
    proto = in_company(inputs, f"{BEFORE} {attention()} {branches}", "float[batch, seq, 6] y")
    assert "SplitHeads" not in [node.op_type for node in simplified(proto).graph]


def test_the_attention_of_onnx_stays() -> None:
    inputs = "float[batch, seq, 6] q, float[batch, keys, 6] k, float[batch, keys, 6] v"
    proto = in_company(inputs, f"{BEFORE} a = Attention(qh, kh, vh) {SQUEEZED}", "float[batch, seq, 6] y", opset=23)
    operators = [node.op_type for node in simplified(proto).graph]
    assert operators.count("Attention") == 2 and "SplitHeads" not in operators


def test_queries_that_come_with_heads_are_not_cut() -> None:
    """The other attention has heads, but no reshape makes them."""
    inputs = ", ".join(f"float[batch, seq, 2, 3] z{x}, float[batch, seq, 6] {x}" for x in "qkv")
    heads = " ".join(f"z{x}r = Sin(z{x}) z{x}h = {SWAP} (z{x}r)" for x in "qkv")
    body = f"{BEFORE} {attention()} {SQUEEZED} {heads} {attention('z', 'less')}"
    known = {name: KNOWN[name] for name in ("first", "scale", "less")}
    text = f"g ({inputs}) => (float[batch, seq, 6] y, float[batch, 2, seq, 3] za) {{ {body} }}"
    operators = found(parse(text, **known))
    assert operators.count("onnxlift.Attention") == 2 and "onnxlift.SplitHeads" not in operators


def test_queries_whose_axes_move_otherwise_are_not_cut() -> None:
    inputs = ", ".join(f"float[seq, batch, 6] z{x}, float[batch, seq, 6] {x}" for x in "qkv")
    heads = " ".join(f"z{x}r = Reshape(z{x}, two) z{x}h = Transpose <perm = [1, 2, 0, 3]> (z{x}r)" for x in "qkv")
    body = f"{BEFORE} {attention()} {SQUEEZED} {heads} {attention('z', 'less')}"
    known = {name: KNOWN[name] for name in ("first", "scale", "less", "two")}
    text = f"g ({inputs}) => (float[batch, seq, 6] y, float[batch, 2, seq, 3] za) {{ {body} }}"
    operators = found(parse(text, **known))
    assert operators.count("onnxlift.Attention") == 2 and "onnxlift.SplitHeads" not in operators


GELU = "e = Div(oh, root) f = Erf(e) g = Add(f, unit) h = Mul(oh, g) w = Mul(h, half)"


@pytest.mark.parametrize("reader", ["w = Sin(oh)", GELU], ids=["of ONNX", "of ours"])
def test_heads_of_something_else_are_no_company(reader: str) -> None:
    inputs = ", ".join(f"float[batch, seq, 6] {x}" for x in "qkvo")
    body = f"{BEFORE} {attention()} {SQUEEZED} or = Reshape(o, two) oh = {SWAP} (or) {reader}"
    numbers = {"root": 2**0.5, "unit": 1.0, "half": 0.5} if reader == GELU else {}
    known = {name: KNOWN[name] for name in ("first", "scale", "two")}
    text = f"g ({inputs}) => (float[batch, seq, 6] y, float[batch, 2, seq, 3] w) {{ {body} }}"
    operators = found(parse(text, **known, **numbers))
    assert "onnxlift.SplitHeads" not in operators
    assert ("onnxlift.Gelu" in operators) == (reader == GELU)


def test_rows_that_are_cut_in_two_stay() -> None:
    """There is one head, but a reshape also makes two rows of one, before the attention."""
    body = f"{BEFORE} {attention()} {SQUEEZED}"
    for x in "kv":
        body = body.replace(f"{x}h = Unsqueeze({x}, first)", f"{x}h = Reshape({x}, rows)")
    inputs = "float[batch, seq, 6] q, float[batch, keys, 12] k, float[batch, keys, 12] v"
    proto = in_company(inputs, body, "float[batch, seq, 6] y", rows=np.array((0, 1, -1, 6)))
    operators = found(proto)
    assert operators.count("onnxlift.Attention") == 2 and "onnxlift.SplitHeads" not in operators


def test_a_result_that_is_cut_in_two_stays() -> None:
    inputs = "float[batch, seq, 6] q, float[batch, keys, 6] k, float[batch, keys, 6] v"
    body = f"{BEFORE} {attention()} y = Reshape(a, rows)"
    proto = in_company(inputs, body, "float[batch, rows, 3] y", rows=np.array((0, -1, 3)))
    operators = found(proto)
    assert operators.count("onnxlift.Attention") == 2 and "onnxlift.MergeHeads" not in operators

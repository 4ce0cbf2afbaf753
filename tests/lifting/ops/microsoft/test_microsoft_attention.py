"""ONNX Runtime's attention operators in the forms that its CPU build runs, and a transcription of the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from lifting.ops.checking import _onnxruntime as onnxruntime_outputs
from lifting.ops.checking import check, model_of
from lifting.ops.microsoft.operators import Array, node, normal

random = np.random.default_rng(3)
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def masks(batch: int, queries: int, keys: int) -> dict[str, Array | None]:
    full = random.random((batch, queries, keys)) < 0.6
    full[..., 0] = True
    lengths = np.array([keys, 2], np.int32)[:batch]
    return {
        "none": None,
        "lengths": lengths,
        "bounds": np.concatenate([lengths, np.arange(batch)]).astype(np.int32),
        "keys": full[:, 0].astype(np.int32),
        "all": full.astype(np.int32),
    }


@pytest.mark.parametrize("kind", ["none", "lengths", "bounds", "keys", "all"])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(kind: str, unidirectional: int) -> None:
    fed = {"x": normal(2, 5, 6), "w": normal(6, 24), "b": normal(24)}
    mask = masks(2, 5, 5)[kind]
    if mask is not None:
        fed["m"] = mask
    attention = node("Attention", " ".join(fed), num_heads=2, unidirectional=unidirectional)
    # With open sizes nothing says how lengths go with the batch.
    dynamic = kind in ("none", "keys", "all")
    source = check(attention, fed, constants=["w", "b"], dynamic=dynamic, **CLOSE)
    assert "nn.Linear(6, 24)" in source


def test_attention_is_sdpa() -> None:
    source = check(
        node("Attention", "x w b", num_heads=2, unidirectional=1),
        {"x": normal(2, 5, 6), "w": normal(6, 24), "b": normal(24)},
        constants=["w", "b"],
        **CLOSE,
    )
    assert "F.scaled_dot_product_attention(" in source and "is_causal=True" in source


def test_attention_with_everything() -> None:
    fed = {"x": normal(2, 3, 6), "w": normal(6, 24), "b": normal(24), "m": masks(2, 3, 7)["keys"]}
    fed["p"] = normal(2, 2, 2, 4, 4)
    for unidirectional in (0, 1):
        attention = node("Attention", "x w b m p", "y present", num_heads=2, unidirectional=unidirectional)
        check(attention, fed, constants=["w", "b"], **CLOSE)
    attention = node("Attention", "x w b   a", num_heads=2, scale=0.3)
    check(attention, {**{k: fed[k] for k in "xwb"}, "a": normal(1, 2, 3, 3)}, constants=["w", "b"], **CLOSE)
    widths = node("Attention", "x w b", num_heads=2, qkv_hidden_sizes=[8, 8, 4])
    check(widths, {"x": fed["x"], "w": normal(6, 20), "b": normal(20)}, constants=["w", "b"], **CLOSE)


def test_filter_value_when_no_key_is_left() -> None:
    fed = {"x": normal(2, 3, 6), "w": normal(6, 24), "b": normal(24), "m": np.zeros((2, 3), np.int32)}
    for options in ({}, {"mask_filter_value": -50.0}):
        check(node("Attention", "x w b m", num_heads=2, **options), fed, constants=["w", "b"], **CLOSE)


def test_quantised_attention() -> None:
    fed = {"x": random.integers(0, 256, (2, 5, 6)).astype(np.uint8)}
    fed |= {"w": random.integers(0, 256, (6, 24)).astype(np.uint8), "b": normal(24)}
    fed |= {"xs": np.float32(0.01), "ws": np.float32(0.02), "m": masks(2, 5, 5)["lengths"]}
    fed |= {"xz": np.uint8(120), "wz": np.uint8(130)}
    fed = {name: np.asarray(array) for name, array in fed.items()}
    check(node("QAttention", " ".join(fed), num_heads=2), fed, constants=["w", "b", "xs", "ws", "xz", "wz"], **CLOSE)


@pytest.mark.parametrize("kind", ["none", "lengths", "keys", "all"])
@pytest.mark.parametrize("biased", [False, True])
def test_multi_head_attention(kind: str, biased: bool) -> None:
    fed = {"q": normal(2, 3, 8), "k": normal(2, 5, 8), "v": normal(2, 5, 12)}
    names = ["q", "k", "v", "b" if biased else "", "m"]
    if biased:
        fed["b"] = normal(28)
    mask = masks(2, 3, 5)[kind]
    if mask is None:
        names.pop()
    else:
        fed["m"] = mask
    attention = node("MultiHeadAttention", " ".join(names).strip(), num_heads=2)
    check(attention, fed, constants=["b"] if biased else [], **CLOSE)


def test_multi_head_attention_forms() -> None:
    packed = normal(2, 5, 2, 3, 4)
    q, k, v = (packed[:, :, :, part].reshape(2, 5, 8) for part in range(3))
    expected = [np.stack([_attention(q[i], k[i], v[i], 2) for i in range(2)])]
    check(node("MultiHeadAttention", "q", num_heads=2), {"q": packed}, expected=expected, **CLOSE)
    fed = {"q": q, "k": packed[:, :, :, 1:]}
    check(node("MultiHeadAttention", "q k", num_heads=2), fed, expected=expected, **CLOSE)
    split = {"q": normal(2, 3, 8), "k": normal(2, 2, 5, 4), "v": normal(2, 2, 5, 4)}
    check(node("MultiHeadAttention", "q k v", num_heads=2), split, **CLOSE)
    fed = {"q": normal(2, 3, 8), "k": normal(2, 3, 8), "v": normal(2, 3, 8), "a": normal(1, 2, 3, 7)}
    fed |= {"pk": normal(2, 2, 4, 4), "pv": normal(2, 2, 4, 4)}
    past = node("MultiHeadAttention", "q k v   a pk pv", "y key value", num_heads=2, scale=0.2, unidirectional=1)
    check(past, fed, **CLOSE)


def test_decoder_masked() -> None:
    """ONNX Runtime's CPU build wants the buffer of the past to be that of the present; otherwise it is the same as
    MultiHeadAttention."""
    fed = {"q": normal(2, 1, 8), "k": normal(2, 1, 8), "v": normal(2, 1, 8)}
    fed |= {"m": masks(2, 1, 5)["keys"], "pk": normal(2, 2, 4, 4), "pv": normal(2, 2, 4, 4), "b": normal(24)}
    usual = node("MultiHeadAttention", "q k v b m  pk pv", "y key value", num_heads=2)
    expected = onnxruntime_outputs(model_of(usual, fed, 17), fed)
    attention = node("DecoderMaskedMultiHeadAttention", "q k v m  pk pv    b", "y key value", num_heads=2)
    check(attention, fed, expected=expected, **CLOSE)
    cross = {"q": normal(2, 1, 8), "k": normal(2, 2, 5, 4), "v": normal(2, 2, 5, 4)}
    check(node("DecoderMaskedMultiHeadAttention", "q k v", num_heads=2), cross, **CLOSE)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("single", [False, True])
def test_rotary_embedding(interleaved: int, single: bool) -> None:
    fed = {"x": normal(2, 5, 24), "p": random.integers(0, 9, (2, 5)), "c": normal(9, 4), "s": normal(9, 4)}
    if single:
        fed["p"] = np.array([3])
    check(node("RotaryEmbedding", "x p c s", interleaved=interleaved), fed, constants=["c", "s"], **CLOSE)
    fed["x"] = normal(2, 3, 5, 8)
    check(node("RotaryEmbedding", "x p c s", interleaved=interleaved), fed, constants=["c", "s"], **CLOSE)
    fed |= {"x": normal(2, 5, 36)}
    options = {"interleaved": interleaved, "num_heads": 3, "rotary_embedding_dim": 8}
    check(node("RotaryEmbedding", "x p c s", **options), fed, constants=["c", "s"], **CLOSE)


GROUPED = {
    "plain": {},
    "rotary": {"do_rotary": 1},
    "interleaved": {"do_rotary": 1, "rotary_interleaved": 1},
    "window": {"local_window_size": 2},
    "scaled": {"scale": 0.3, "softcap": 2.0},
    "smooth": {"smooth_softmax": 1},
}


def grouped(batch: int, length: int, past: int, packed: bool) -> dict[str, Array]:
    heads, kv_heads, width = 4, 2, 16
    fed: dict[str, Array] = {"q": normal(batch, length, heads * width), "k": normal(batch, length, kv_heads * width)}
    fed["v"] = normal(batch, length, kv_heads * width)
    if packed:
        fed = {"q": normal(batch, length, (heads + 2 * kv_heads) * width)}
    fed |= {"pk": normal(batch, kv_heads, past, width), "pv": normal(batch, kv_heads, past, width)}
    return fed


@pytest.mark.parametrize("options", GROUPED.values(), ids=GROUPED.keys())
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("step", ["prompt", "token"])
def test_group_query_attention(options: dict[str, Any], packed: bool, step: str) -> None:
    length, past = (6, 0) if step == "prompt" else (1, 5)
    fed = grouped(2, length, past, packed)
    fed |= {"n": np.full(2, length + past - 1, np.int32), "t": np.asarray(length + past, np.int32)}
    names = [name if name in fed else "" for name in ("q", "k", "v", "pk", "pv", "n", "t")]
    if "do_rotary" in options:
        fed |= {"c": normal(20, 8), "s": normal(20, 8)}
        names += ["c", "s"]
    attention = node("GroupQueryAttention", " ".join(names), "y key value", num_heads=4, kv_num_heads=2, **options)
    check(attention, fed, **CLOSE)


def test_group_query_attention_with_lengths() -> None:
    """Sequences of different lengths: what is put into the caches behind a sequence's end means nothing."""
    fed = grouped(2, 1, 6, False)
    fed |= {"n": np.array([6, 3], np.int32), "t": np.asarray(7, np.int32)}
    options = {"num_heads": 4, "kv_num_heads": 2}
    only_y = helper.make_node("Identity", ["y"], ["only_y"])
    attention = node("GroupQueryAttention", "q k v pk pv n t", "y key value", **options)
    check([attention, only_y], fed, **CLOSE)
    fed |= {"c": normal(20, 8), "s": normal(20, 8)}
    attention = node("GroupQueryAttention", "q k v pk pv n t c s", "y key value", do_rotary=1, **options)
    check([attention, only_y], fed, **CLOSE)


def test_group_query_attention_without_past() -> None:
    fed = {name: array for name, array in grouped(2, 4, 0, False).items() if name in "qkv"}
    fed |= {"n": np.array([3, 3], np.int32), "t": np.asarray(4, np.int32)}
    options = {"num_heads": 4, "kv_num_heads": 2}
    check(node("GroupQueryAttention", "q k v   n t", "y key value", **options), fed, **CLOSE)


def test_group_query_attention_with_room_in_the_cache() -> None:
    """The past may come in a buffer that is larger than all keys so far."""
    fed = grouped(2, 1, 10, False)
    fed |= {"n": np.array([6, 3], np.int32), "t": np.asarray(7, np.int32)}
    attention = node("GroupQueryAttention", "q k v pk pv n t", "y key value", num_heads=4, kv_num_heads=2)
    check([attention, helper.make_node("Identity", ["y"], ["only_y"])], fed, **CLOSE)


def test_group_query_attention_with_bias_and_sink() -> None:
    fed = grouped(2, 4, 0, False)
    fed |= {"n": np.array([3, 3], np.int32), "t": np.asarray(4, np.int32), "a": normal(1, 4, 4, 4), "h": normal(4)}
    options = {"num_heads": 4, "kv_num_heads": 2}
    check(node("GroupQueryAttention", "q k v pk pv n t    a", **options), {k: fed[k] for k in fed if k != "h"}, **CLOSE)
    check(node("GroupQueryAttention", "q k v pk pv n t    a h", **options), fed, **CLOSE)


def test_packed_multi_head_attention() -> None:
    heads, lengths = 2, [1, 2, 4]
    q, k, v, bias = normal(7, 8), normal(7, 8), normal(7, 8), normal(24)
    biased = [x + part for x, part in zip((q, k, v), np.split(bias, 3), strict=True)]
    pieces, start = [], 0
    for length in lengths:
        pieces.append(_attention(*(x[start : start + length] for x in biased), heads))
        start += length
    ends = np.cumsum([0, *lengths]).astype(np.int32)
    offsets = np.arange(12, dtype=np.int32).reshape(3, 4)
    fed = {"q": q, "k": k, "v": v, "b": bias, "o": offsets, "e": ends}
    expected = [np.concatenate(pieces)]
    check(node("PackedMultiHeadAttention", "q k v b o e", num_heads=2), fed, expected=expected, **CLOSE)
    w = normal(8, 24)
    q, k, v = np.split(fed["q"] @ w + bias, 3, -1)
    pieces, start = [], 0
    for length in lengths:
        pieces.append(_attention(*(x[start : start + length] for x in (q, k, v)), heads))
        start += length
    fed = {"x": fed["q"], "w": w, "b": bias, "o": offsets, "e": ends}
    expected = [np.concatenate(pieces)]
    check(node("PackedAttention", "x w b o e", num_heads=2), fed, expected=expected, **CLOSE)


def _attention(q: Array, k: Array, v: Array, heads: int) -> Array:
    q, k, v = (x.reshape(len(x), heads, -1).swapaxes(0, 1) for x in (q, k, v))
    scores = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1]))
    y = scores / scores.sum(-1, keepdims=True) @ v
    return y.swapaxes(0, 1).reshape(y.shape[1], -1).astype(np.float32)  # type: ignore[no-any-return]


@pytest.mark.parametrize("bidirectional", [0, 1])
def test_relative_position_bias(bidirectional: int) -> None:
    buckets, heads, farthest, length = 8, 3, 20, 30
    table = normal(buckets, heads)
    expected = np.zeros((1, heads, length, length), np.float32)
    for query in range(length):
        for key in range(length):
            number = _bucket(key - query, buckets, farthest, bool(bidirectional))
            expected[0, :, query, key] = table.reshape(heads, buckets)[:, number]
    lengths = {"q": np.asarray([length]), "k": np.asarray([length])}
    bias = node("RelativePositionBias", "t q k", max_distance=farthest, is_bidirectional=bidirectional)
    check(bias, {"t": table, **lengths}, constants=["t", "q", "k"], expected=[expected])


def _bucket(distance: int, buckets: int, farthest: int, bidirectional: bool) -> int:
    number = 0
    if bidirectional:
        buckets //= 2
        number = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return number + distance
    far = exact + int(np.log(np.float32(distance / exact)) / np.log(farthest / exact) * (buckets - exact))
    return number + min(far, buckets - 1)


def test_gated_relative_position_bias() -> None:
    batch, length, heads, width, inner = 2, 5, 3, 4, 6
    q, b, rel = normal(batch, length, heads * width), normal(heads * width), normal(1, heads, length, length)
    w, wb, eco = normal(width, inner), normal(inner), normal(1, heads, 1, 1)
    query = (q + b).reshape(batch, length, heads, width).swapaxes(1, 2)
    gates = (query @ w + wb).reshape(batch, heads, length, 2, inner // 2).sum(-1)
    update, reset = np.split(1 / (1 + np.exp(-gates)), 2, -1)
    expected = (update * (reset * eco - 1) + 2) * rel
    fed = {"q": q, "b": b, "r": rel, "w": w, "wb": wb, "e": eco}
    check(node("GatedRelativePositionBias", "q b r w wb e", num_heads=heads), fed, expected=[expected], **CLOSE)

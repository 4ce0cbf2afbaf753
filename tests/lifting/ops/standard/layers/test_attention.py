"""Attention and rotary embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from lifting.ops.checking import check, check_official, official_cases

NODE = helper.make_node


@pytest.mark.parametrize("case", official_cases("Attention", "RotaryEmbedding", alone=True))
def test_official(case: Any) -> None:
    check_official(case)


def rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


def heads(**more: np.ndarray) -> dict[str, np.ndarray]:
    return {"q": rand(2, 4, 5, 8), "k": rand(2, 4, 7, 8), "v": rand(2, 4, 7, 6), **more}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mask", [None, "float", "bool"])
@pytest.mark.parametrize("is_causal", [0, 1])
@pytest.mark.parametrize("flat", [False, True])
def test_masks(flat: bool, is_causal: int, mask: str | None, dynamic: bool) -> None:
    inputs = heads()
    if flat:
        inputs = {name: x.transpose(0, 2, 1, 3).reshape(2, x.shape[2], -1) for name, x in inputs.items()}
    if mask:
        inputs["mask"] = rand(2, 1, 5, 7) if mask == "float" else rand(5, 7) > -0.5
    if mask == "bool":
        inputs["mask"][1] = False  # a query that sees no key gives zeros
    counts = {"q_num_heads": 4, "kv_num_heads": 4} if flat else {}
    node = NODE("Attention", list(inputs), ["y"], is_causal=is_causal, **counts)
    check(node, inputs, opset=23, reference=True, dynamic=dynamic)


def test_plain_attention_is_pytorchs_own() -> None:
    source = check(NODE("Attention", ["q", "k", "v"], ["y"]), heads(), opset=23, reference=True)
    assert "F.scaled_dot_product_attention(q, k, v)" in source
    source = check(NODE("Attention", ["q", "k", "v"], ["y"], scale=0.3, is_causal=1), heads(), opset=23, reference=True)
    assert "F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)" in source


@pytest.mark.parametrize("wanted", [["y"], ["y", "present_k", "present_v"], ["y", "present_k", "present_v", "qk"]])
@pytest.mark.parametrize("is_causal", [0, 1])
def test_cache(wanted: list[str], is_causal: int) -> None:
    cache = {"past_k": rand(2, 2, 3, 8, seed=1), "past_v": rand(2, 2, 3, 6, seed=2)}
    inputs = {"q": rand(2, 4, 5, 8), "k": rand(2, 2, 7, 8), "v": rand(2, 2, 7, 6), "mask": rand(5, 10), **cache}
    for dynamic in (False, True):
        node = NODE("Attention", list(inputs), wanted, is_causal=is_causal, qk_matmul_output_mode=2)
        check(node, inputs, opset=23, reference=True, dynamic=dynamic)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_scores(mode: int) -> None:
    inputs = heads(mask=rand(4, 5, 7))
    softcap = 2.0 if mode else 0.0  # the reference gives the capped scores for mode 0 too, against the specification
    node = NODE("Attention", list(inputs), ["y", "", "", "qk"], qk_matmul_output_mode=mode, softcap=softcap)
    check(node, inputs, opset=23, reference=True)


@pytest.mark.parametrize("window", [{"left_window_size": 2}, {"left_window_size": 1, "right_window_size": 1}])
def test_windows_and_lengths(window: dict[str, int]) -> None:
    inputs = heads(mask=rand(5, 6), lengths=np.array([6, 5], np.int64))
    names = ["q", "k", "v", "mask", "", "", "lengths"]
    for is_causal in (0, 1):
        node = NODE("Attention", names, ["y"], is_causal=is_causal, **window)
        check(node, inputs, opset=25, reference=True)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("positions", [False, True])
def test_rotary(interleaved: int, width: int, flat: bool, positions: bool) -> None:
    x = rand(2, 5, 3 * 8) if flat else rand(2, 3, 5, 8)
    angles = rand(11, width // 2) if positions else rand(2, 5, width // 2)
    inputs = {"x": x, "cos": np.cos(angles), "sin": np.sin(angles)}
    if positions:
        inputs["at"] = np.random.default_rng(3).integers(0, 11, (2, 5))
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": 0 if width == 8 else width}
    node = NODE("RotaryEmbedding", list(inputs), ["y"], **attributes, **({"num_heads": 3} if flat else {}))
    for dynamic in (False, True):
        check(node, inputs, opset=23, reference=True, dynamic=dynamic)

"""Masks of `nn.MultiheadAttention`, and those that only look like one of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnxlift
from onnxlift.rewriting.idioms.attention.multihead import masks as multihead_masks
from rewriting.idioms.attention.multihead_graphs import (
    CROSS,
    FLAT,
    K0,
    KEYS,
    LAYER,
    V0,
    VALUES,
    ZEROS,
    appended,
    cross,
    layer,
    masked,
    named,
    shapes,
)
from rewriting.idioms.recognising import found, simplified

LATER = np.triu(np.full((5, 5), -np.inf, np.float32), 1)
ADDED = "masked = Add(scaled, {})"


def integers(**sizes: list[int]) -> dict[str, Any]:
    return {name: np.array(size) for name, size in sizes.items()}


@pytest.mark.parametrize(
    ("how", "more", "other"),
    [
        ("masked = Add(scaled, m)", "", {"m": (1, 3, 1, 3)}),
        ("masked = Add(scaled, m)", "", {"m": (1, 3, 3, 1)}),
        ("u4 = Unsqueeze(m, at) masked = Add(scaled, u4)", ", float[3, 3] m", integers(at=[0, 2])),
        (
            """hidden = Not(m) h3 = Unsqueeze(hidden, zero) w3 = Where(h3, infinity, none) w4 = Reshape(w3, at)
                masked = Add(scaled, w4)""",
            ", bool[3, 3] m",
            integers(at=[1, 3, 1, 3]) | {"infinity": -np.inf, "none": 0.0},
        ),
        (
            """u4 = Unsqueeze(m, at) e4 = Expand(u4, all) e3 = Squeeze(e4, two) masked = Add(scaled, e3)""",
            ", float[3, 3] m",
            integers(at=[1, 2], all=[3, 3, 1, 3], two=[2]),
        ),
    ],
    ids=["heads and keys", "heads and queries", "unsqueezed", "reshaped", "padding in the place of heads"],
)
def test_as_many_heads_as_queries(how: str, more: str, other: dict[str, Any]) -> None:
    """Masks that have as many numbers as one by queries and keys, and are for each head."""
    assert LAYER not in found(layer(masked(how), shape="float[3, 3, 12]", more=more, **shapes(3), **other))


@pytest.mark.parametrize(
    ("how", "more", "other"),
    [
        (
            "u4 = Unsqueeze(n, at) both = Add(m, u4) r4 = Reshape(both, other) masked = Add(scaled, r4)",
            ", float[5, 5] m, float[3, 5] n",
            integers(at=[1, 2], other=[1, 3, 5, 5]),
        ),
        ("u4 = Unsqueeze(n, at) masked = Add(scaled, u4)", ", float[3, 5] n", integers(at=[1])),
    ],
    ids=["reshaped", "unsqueezed"],
)
def test_as_many_heads_as_batches(how: str, more: str, other: dict[str, Any]) -> None:
    """What would be a mask by batches and keys is one by heads and keys."""
    assert LAYER not in found(layer(masked(how), shape="float[3, 5, 12]", more=more, **other))


def test_as_many_batches_as_queries() -> None:
    proto = layer(masked("masked = Add(scaled, m)"), shape="float[5, 5, 12]", more=", float[5, 5] m", **shapes(5, 1))
    assert found(proto) == [LAYER]
    assert "attn_mask=m" in onnxlift.lift(proto).source


@pytest.mark.parametrize("shape", ["batch, 1, 1, 5", "1, 5"])
def test_a_mask_that_the_layer_would_have_to_reshape_stays(shape: str) -> None:
    assert LAYER not in found(layer(masked("masked = Add(scaled, m)"), more=f", float[{shape}] m"))


@pytest.mark.parametrize(
    ("shape", "is_layer"), [((1, 1, 5, 5), True), ((2, 3, 5, 5), True), ((1, 3, 5, 5), False), ((1, 5), False)]
)
def test_constant(shape: tuple[int, ...], is_layer: bool) -> None:
    assert (found(layer(masked("masked = Add(scaled, m)"), "float[2, 5, 12]", m=shape)) == [LAYER]) is is_layer


def test_a_constant_by_head_for_any_number_of_batches_stays() -> None:
    assert LAYER not in found(layer(masked("masked = Add(scaled, m)"), m=(1, 3, 5, 5)))


def test_large_constants_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multihead_masks, "_LARGEST", 24)
    assert LAYER not in found(layer(masked("masked = Add(scaled, m)"), m=(1, 1, 5, 5)))


@pytest.mark.parametrize("number", [0.3, -np.inf])
def test_a_number_is_no_mask(number: float) -> None:
    text = masked("masked = Add(scaled, m)") + " w = Identity(p)"
    assert LAYER not in found(layer(text, outputs=", float[batch, 3, 5, 5] w", m=number))


def test_another_number_where_something_is_hidden() -> None:
    text = masked("m = Where(h, least, none) masked = Add(scaled, m)")
    assert found(layer(text, more=", bool[5, 5] h", least=-3.0, none=0.0)) == ["Where", LAYER]


# By batches and keys.

ROWS = "u4 = Unsqueeze(n, at) e4 = Expand(u4, all) e3 = Reshape(e4, flat)"


@pytest.mark.parametrize("masks", ["e3", "both"])
def test_padding_for_all_heads(masks: str) -> None:
    how = f"{ROWS} both = Add(m, e3) masked = Add(scaled, {masks})"
    sizes = integers(at=[1, 2], all=[2, 3, 1, 5], flat=[6, 1, 5])
    proto = layer(masked(how, FLAT), "float[2, 5, 12]", more=", float[5, 5] m, float[2, 5] n", **sizes)
    assert found(proto) == [LAYER]
    source = onnxlift.lift(proto).source
    assert "key_padding_mask=n" in source and ("attn_mask=m" in source) == (masks == "both")


@pytest.mark.parametrize("masks", ["e3", "both"])
def test_padding_for_all_heads_that_have_an_axis(masks: str) -> None:
    how = f"{ROWS} both = Add(m, e3) r4 = Reshape({masks}, four) masked = Add(scaled, r4)"
    sizes = integers(at=[1, 2], all=[2, 3, 1, 5], flat=[6, 1, 5], four=[2, 3, -1, 5])
    proto = layer(masked(how), "float[2, 5, 12]", more=", float[5, 5] m, float[2, 5] n", **sizes)
    assert found(proto) == [LAYER]
    assert "key_padding_mask=n" in onnxlift.lift(proto).source


@pytest.mark.parametrize(
    ("batch", "padding", "at", "every"),
    [
        (3, "3, 5", [0, 2], [3, 3, 1, 5]),
        (2, "1, 5", [], [2, 3, 1, 5]),
        (2, "2, 5", [1, 2], [3, 2, 1, 1, 5]),
    ],
    ids=["by head", "for all", "heads first"],
)
def test_rows_that_are_repeated_otherwise(batch: int, padding: str, at: list[int], every: list[int]) -> None:
    how = f"{ROWS if at else ROWS.replace('Unsqueeze(n, at)', 'Identity(n)')} masked = Add(scaled, e3)"
    sizes = integers(at=at, all=every, flat=[3 * batch, 1, 5])
    proto = layer(masked(how, FLAT), f"float[{batch}, 5, 12]", more=f", float[{padding}] n", **sizes)
    assert LAYER not in found(proto)


def test_padding_of_a_single_head() -> None:
    text = masked("u3 = Unsqueeze(n, one) masked = Add(scaled, u3)", FLAT)
    proto = layer(text, more=", float[batch, 5] n", one=np.array([1]), **shapes(5, 1))
    assert found(proto) == [LAYER]
    assert "key_padding_mask=n" in onnxlift.lift(proto).source


def test_padding_of_a_single_batch() -> None:
    proto = layer(masked("masked = Add(scaled, n)"), "float[1, 5, 12]", more=", float[1, 5] n")
    assert found(proto) == [LAYER]
    assert "key_padding_mask=n" in onnxlift.lift(proto).source


# What lies behind each query.

BOTH = "w2 = Where(hidden, infinity, none) u4 = Unsqueeze(w2, at) sum = Add(m, u4) masked = Add(scaled, sum)"


@pytest.mark.parametrize(
    ("least", "hidden", "is_causal"),
    [(-np.inf, "hidden = Not(h)", True), (-1e38, "hidden = And(h, some)", False)],
    ids=["infinite", "large"],
)
def test_causal_with_padding(least: float, hidden: str, is_causal: bool) -> None:
    """The first query finds its only key hidden: then the later ones count, if they have numbers."""
    known = {"infinity": -np.inf, "none": 0.0, "m": np.triu(np.full((5, 5), least, np.float32), 1)}
    known["some"] = np.arange(5) < 2
    proto = layer(masked(f"{hidden} {BOTH}"), more=", bool[batch, 5] h", **integers(at=[1, 2]), **known)
    assert found(proto)[-1] == LAYER
    assert ("generate_square_subsequent_mask" in onnxlift.lift(proto).source) is is_causal


def test_sequences_of_two_lengths_have_no_causal_mask() -> None:
    text = masked(f"hidden = Not(h) {BOTH}", CROSS)
    known = {"infinity": -np.inf, "none": 0.0, "m": np.triu(np.full((5, 7), -np.inf, np.float32), 1)}
    proto = cross(text, **integers(at=[1, 2]), **known)
    proto.graph.input.append(layer(more=", bool[batch, 7] h").graph.input[1])
    assert found(proto) == ["Not", LAYER]


# With a row of zeros behind the keys.

ZERO = np.zeros((5, 1))
RANDOM = np.random.default_rng(3).standard_normal((5, 5))
KEPT = (RANDOM < 0.5) | np.eye(5, dtype=bool)


def with_zeros(how: str, more: str = "", length: int = 5, **other: Any) -> Any:
    known = {"z": ZEROS, "amounts": np.array([0, 0, 0, 1]), "infinity": -np.inf, "filler": 0.0} | other
    return appended(KEYS.format(K0), VALUES.format(V0), masked(how), more, length, **known)


@pytest.mark.parametrize(
    ("column", "is_layer"), [(ZERO, True), (ZERO + 1, False), (np.zeros((5, 0)), False)], ids=["zeros", "ones", "none"]
)
def test_a_constant_with_a_column_for_zeros(column: np.ndarray[Any, Any], is_layer: bool) -> None:
    mask = np.concatenate([RANDOM, column], 1).astype(np.float32)
    if not column.size:
        mask = mask[:, :1]
    assert (found(with_zeros("masked = Add(scaled, m)", m=mask)) == [LAYER]) is is_layer


@pytest.mark.parametrize(("last", "is_layer"), [(True, True), (False, False)])
def test_a_boolean_constant_with_a_column_for_zeros(last: bool, is_layer: bool) -> None:
    mask = np.concatenate([KEPT, (0 if last else 1) == ZERO], 1)
    assert (found(with_zeros("masked = Where(m, scaled, infinity)", m=mask)) == [LAYER]) is is_layer


@pytest.mark.parametrize(
    ("how", "more", "operators"),
    [
        ("mp = Pad(m, amounts) masked = Add(scaled, mp)", ", float[5, 5] m", [LAYER]),
        ("mp = Pad(m, amounts) masked = Where(mp, infinity, scaled)", ", bool[5, 5] m", [LAYER]),
        ("mp = Pad(m, amounts) masked = Where(mp, scaled, infinity)", ", bool[5, 5] m", None),
        ("mp = Pad <mode = 'edge'> (m, amounts) masked = Add(scaled, mp)", ", float[5, 5] m", None),
        ("mp = Pad(m, shifted, filler) masked = Add(scaled, mp)", ", float[5, 5] m", None),
        (
            "mp = Pad(m, below, filler, zero) mr = Reshape(mp, turned) masked = Add(scaled, mr)",
            ", float[5, 5] m",
            None,
        ),
    ],
    ids=["float", "hidden", "kept", "edge", "shifted", "below"],
)
def test_padded_mask(how: str, more: str, operators: list[str] | None) -> None:
    known = integers(shifted=[1, 0, -1, 1], below=[0, 1], turned=[5, 6])
    operators_found = found(with_zeros(how.replace("'", '"'), more, **known))
    assert operators_found == operators if operators is not None else LAYER not in operators_found


def test_a_mask_that_is_padded_by_what_is_not_known_stays() -> None:
    proto = with_zeros("mp = Pad(m, pads) masked = Add(scaled, mp)", ", float[5, 5] m, int64[4] pads")
    assert LAYER.partition(".")[2] not in [node.op_type for node in simplified(proto).graph]


@pytest.mark.parametrize("more", [", float[1, 1] m", ""], ids=["given", "constant"])
def test_one_number_for_the_key_and_the_zeros_stays(more: str) -> None:
    other: dict[str, Any] = {} if more else {"m": (1, 1)}
    assert LAYER not in found(with_zeros("masked = Add(scaled, m)", more, 1, **other))


# Who computes it.


@pytest.mark.parametrize(("module", "is_layer"), [("/attn/", False), ("/", True)])
def test_a_mask_that_the_layer_would_have_to_compute_stays(module: str, is_layer: bool) -> None:
    proto = layer(masked("squared = Mul(m, m) masked = Add(scaled, squared)"), more=", float[5, 5] m")
    assert (found(named(proto, squared=module)) == ["Mul", LAYER]) is is_layer

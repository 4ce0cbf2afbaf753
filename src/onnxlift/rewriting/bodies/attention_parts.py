"""Parts that the bodies of ONNX Runtime's attention operators share: projections that are split, ONNX's Attention, and
masks that are added to the scores.

A mask says which keys count: in full (batch, queries, keys), for each key (batch, keys), or as the lengths (batch) of
sequences that are padded at their end. As in ONNX Runtime, `mask_filter_value` is added to the scores of a key that
does not count. So a query for which no key counts still sees all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxlift.ir.inference import symbolic

from .body import BodyBuilder, Value, rank, size

Ints = tuple[int, ...]
FILTER = -10000.0


def thirds(b: BodyBuilder, total: int | str | None) -> Ints:
    if not isinstance(total, int):
        b.fail("the size of its weights is not known")
    return (total // 3,) * 3


def split(b: BodyBuilder, projected: Value, sizes: Ints) -> list[Value]:
    """Split the projection into queries, keys and values, and name them so."""
    parts = b.several(3, "Split", projected, b.ints(*sizes), axis=-1)
    for part, name in zip(parts, "qkv", strict=True):
        part.name = name
    return parts


def slices(b: BodyBuilder, bias: Value, widths: Sequence[int]) -> list[Value]:
    starts = np.concatenate([[0], np.cumsum(widths)]).tolist()
    return [b.Slice(bias, b.ints(starts[i]), b.ints(starts[i + 1]), b.ints(0)) for i in range(len(widths))]


def attend(
    b: BodyBuilder,
    q: Value,
    k: Value,
    v: Value,
    bias: Value | None,
    past_key: Value | None,
    past_value: Value | None,
    heads: int | None,
    scale: float,
    causal: int,
    present: bool,
) -> list[Value | None]:
    """Return ONNX's attention, with the present keys and values if they are wanted. A scale of 0 stands for the
    default, and `heads` is None if the heads are an axis of their own."""
    outputs = b.several(
        3 if present else 1,
        "Attention",
        q,
        k,
        v,
        bias,
        past_key,
        past_value,
        q_num_heads=heads,
        kv_num_heads=heads,
        scale=scale or None,
        is_causal=1 if causal else None,
    )
    return [*outputs, *[None] * (3 - len(outputs))]


class AddedMask:
    """A mask, a bias, or both, which are added to the scores. `like` has the element type of the scores, and the first
    axis of `input` is the batch."""

    def __init__(
        self,
        b: BodyBuilder,
        mask: Value | None,
        bias: Value | None,
        filter_value: float,
        input: Value,
        like: Value | None = None,
    ) -> None:
        self.b = b
        self.mask = mask
        self.bias = bias
        self.filter_value = filter_value
        self.batch = size(input, 0)
        self.like = input if like is None else like

    def added(self, keys: Value, axis: int, past: Value | None) -> Value | None:
        """Return the sum of mask and bias, of shape (batch or 1, heads or 1, queries or 1, keys). The number of keys is
        the size of `axis` of `keys`, plus that of the past ones."""
        if self.mask is None:
            return self.bias
        b = self.b
        visible = self._visible(self.mask, keys, axis, past)
        masked = b.Where(visible, b.number(0, self.like), b.number(self.filter_value, self.like))
        return masked if self.bias is None else b.Add(masked, self.bias)

    def _visible(self, mask: Value, keys: Value, axis: int, past: Value | None) -> Value:
        b = self.b
        if rank(mask) == 1:
            return self._within(mask, keys, axis, past)
        places = {2: (1, 2), 3: (1,)}.get(rank(mask) or 0)
        if places is None:
            b.fail("its mask has neither one, two nor three axes")
        return b.Greater(b.Unsqueeze(mask, b.ints(*places)), b.number(0, mask))

    def _within(self, limits: Value, keys: Value, axis: int, past: Value | None) -> Value:
        """Return which keys are before the end of their sequence and, if starts are given too, not before its start."""
        b = self.b
        count = size(limits, 0)
        length = b.Shape(keys, start=axis, end=axis + 1)
        if past is not None:
            length = b.Add(length, b.Shape(past, start=2, end=3))
        zero, one = (b.constant(np.asarray(n)) for n in (0, 1))
        key = b.CastLike(b.Range(zero, b.Squeeze(length), one), limits)

        def column(values: Value) -> Value:
            return b.Unsqueeze(values, b.ints(1, 2, 3))

        if count == self.batch:
            return b.Less(key, column(limits))
        if count is None or self.batch is None or symbolic.divide_exactly(count, self.batch) != 2:
            b.fail("its mask of one axis has neither one nor two numbers for each sequence")
        ends, starts = b.several(2, "Split", limits, axis=0, num_outputs=2)
        return b.And(b.Less(key, column(ends)), b.GreaterOrEqual(key, column(starts)))

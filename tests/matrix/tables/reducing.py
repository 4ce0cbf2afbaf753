"""Reductions, positions of extremes, running totals."""

from __future__ import annotations

import numpy as np

from lifting.ops.standard.math.test_reduce import AXES, REDUCTIONS
from matrix.case import Array, Row, each, floats, ints, row, some


def log_sum(x: Array, axis: int | None) -> Array:
    return np.log(x.astype(np.float64).sum(axis, keepdims=axis is None)).astype(x.dtype)


def log_sum_exp(x: Array, axis: int | None) -> Array:
    return np.log(np.exp(x.astype(np.float64)).sum(axis, keepdims=axis is None)).astype(x.dtype)


EXACT = {"ReduceLogSum": log_sum, "ReduceLogSumExp": log_sum_exp}  # ONNX Runtime computes them in integers, or not


def reduction(op_type: str) -> list[Row]:
    positive = {"low": 1, "high": 4}
    exact = EXACT.get(op_type)
    rows = [row(each(2, 3, 4, **positive), expected=exact and (lambda x: exact(x, None)))]
    for axes, keepdims in AXES:
        chosen = {} if axes is None else {"axes": list(axes)}
        since = 11 if axes is not None and min(axes) < 0 else 1
        rows.append(row(floats(2, 3, 4, low=0.5), keepdims=keepdims, since=since, **chosen))
        if axes is not None:
            rows.append(row(some(2, 3, 4, **positive), ints(*axes), keepdims=keepdims))
    empty = np.zeros(0, np.int64)
    rows += [
        row(each(2, 3, **positive), ints(1), keepdims=0, expected=exact and (lambda x, axes: exact(x, 1))),
        row(some(2, 3, **positive), empty, noop_with_empty_axes=1, reference=True),
        row(some(2, 3, **positive), empty, noop_with_empty_axes=0),
    ]
    if op_type in ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare"):
        rows.append(row(some(2, 0, 3), ints(1)))
    return rows


TOTALS = [
    row(each(2, 3, low=1, high=3), each(low=0, high=1)),
    *(
        row(some(3, 4, low=1, high=3), ints(axis).reshape(()), exclusive=exclusive, reverse=reverse)
        for axis in (0, -1)
        for exclusive in (0, 1)
        for reverse in (0, 1)
    ),
    row(some(0, 4), ints(1).reshape(())),
]
ROWS: dict[str, list[Row]] = {
    **{op_type: reduction(op_type) for op_type in REDUCTIONS},
    **{
        op_type: [
            row(each(2, 3, 4)),
            *(row(some(2, 3, 4), axis=axis, keepdims=keepdims) for axis in (1, 2) for keepdims in (0, 1)),
            row(some(2, 3, 4), axis=-1, keepdims=0, since=11),
            *(row(each(4, 5, low=0, high=2, whole=True), axis=-1, select_last_index=last) for last in (0, 1)),
        ]
        for op_type in ("ArgMax", "ArgMin")
    },
    "CumSum": TOTALS,
    "CumProd": TOTALS,
}

"""Reductions, positions of extremes, running totals."""

from __future__ import annotations

import numpy as np
from test_reduce import AXES, REDUCTIONS

from ..case import Row, each, floats, ints, row, some


def reduction(op_type: str) -> list[Row]:
    positive = {"low": 1, "high": 4}
    rows = [row(each(2, 3, 4, **positive))]
    for axes, keepdims in AXES:
        chosen = {} if axes is None else {"axes": list(axes)}
        since = 11 if axes is not None and min(axes) < 0 else 1
        rows.append(row(floats(2, 3, 4, low=0.5), keepdims=keepdims, since=since, **chosen))
        if axes is not None:
            rows.append(row(some(2, 3, 4, **positive), ints(*axes), keepdims=keepdims))
    empty = np.zeros(0, np.int64)
    return [
        *rows,
        row(each(2, 3, **positive), ints(1), keepdims=0),
        row(some(2, 3, **positive), empty, noop_with_empty_axes=1, reference=True),
        row(some(2, 3, **positive), empty, noop_with_empty_axes=0),
        row(some(**positive), until=12 if op_type == "ReduceSum" else 17) if False else row(some(2, 1, **positive)),
        row(floats(2, 0, 3), ints(1))
        if op_type in ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare")
        else rows[0],
    ]


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
            *(row(each(4, 5, low=0, high=2), axis=-1, select_last_index=last) for last in (0, 1)),
        ]
        for op_type in ("ArgMax", "ArgMin")
    },
    "CumSum": TOTALS,
    "CumProd": TOTALS,
}

"""Sequences, optionals, control flow, and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import parser

from matrix.case import Optional, Row, each, floats, ints, row, some

SEQUENCE = [floats(2, 3), floats(4, seed=1), floats(1, 5, seed=2)]
EQUAL = [floats(2, 3), floats(2, 3, seed=1), floats(2, 3, seed=2)]


def scalar(value: Any) -> np.ndarray:
    return np.array(value)


def graph(text: str) -> onnx.GraphProto:
    return parser.parse_graph(text)


def branch(text: str) -> onnx.GraphProto:
    return graph(f"branch () => (float[2, 3] r) {text}")


def constant(name: str, value: float) -> str:
    return f"{name} = Constant <value = float[2, 3] {{{', '.join(str(value * i) for i in range(1, 7))}}}> ()"


IFS = [
    row(
        scalar(flag),
        then_branch=branch(f"{{ {constant('a', 1.5)} r = Neg (a) }}"),
        else_branch=branch(f"{{ {constant('a', 0.5)} r = Exp (a) }}"),
    )
    for flag in (True, False)
]
HALVING = graph(
    f"""body (int64 i, bool go, float[2, 3] s) => (bool more, float[2, 3] t, float[2, 3] u)
    {{ more = Identity (go) {constant("step", 0.3)} t = Sub (s, step) u = Tanh (s) }}"""
)
UNTIL = graph(
    """body (int64 i, bool go, float s) => (bool more, float t)
    { limit = Constant <value = float {3.5}> () t = Add (s, s) more = Less (t, limit) }"""
)
SUMMING = graph("body (float[3] h, float[3] x) => (float[3] k, float[3] y) { k = Add (h, x) y = Tanh (k) }")
ROWSX = floats(5, 3)

MAPPED = graph("body (float[r, c] x) => (float[r, c] y) { y = Exp (x) }")
LOOPS = [
    row(scalar(4), scalar(True), floats(2, 3), outputs=2, body=HALVING),
    row(scalar(0), scalar(True), floats(2, 3), outputs=2, body=HALVING, open_sizes=False),
    row(scalar(3), None, floats(2, 3), outputs=2, body=HALVING),
    row(None, scalar(True), np.array(0.3, np.float32), body=UNTIL),
    row(scalar(2), scalar(True), np.array(0.3, np.float32), body=UNTIL),
]
SCANS = [
    row(None, floats(2, 3), floats(2, 5, 3, seed=1), outputs=2, body=SUMMING, num_scan_inputs=1, until=8),
    row(None, floats(2, 3), floats(2, 5, 3, seed=1), outputs=2, body=SUMMING, num_scan_inputs=1, directions=[1]),
    row(floats(3), ROWSX, outputs=2, body=SUMMING, num_scan_inputs=1, since=9),
    row(floats(3), ROWSX, outputs=2, body=SUMMING, num_scan_inputs=1, scan_input_directions=[1]),
    row(floats(3), ROWSX, outputs=2, body=SUMMING, num_scan_inputs=1, scan_output_directions=[1]),
    row(
        floats(3), ROWSX.T.copy(), outputs=2, body=SUMMING, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1]
    ),
]
SIZE = {"shape": [2, 5]}

ROWS: dict[str, list[Row]] = {
    "SequenceConstruct": [row(each(2, 3), each(4)), row(some(2))],
    "SequenceEmpty": [row(), row(dtype=7)],
    "SequenceInsert": [
        row(SEQUENCE, floats(7)),
        row([each(2), each(3)], each(4)),
        *(row(SEQUENCE, floats(7), scalar(position)) for position in (0, 2, 3, -1, -3)),
    ],
    "SequenceErase": [
        row(SEQUENCE),
        *(row(SEQUENCE, scalar(position)) for position in (0, 1, -1, -3)),
        row([each(2), each(3)]),
    ],
    "SequenceAt": [
        *(row(SEQUENCE, scalar(position)) for position in (0, 2, -1, -3)),
        row([each(2), each(3)], scalar(1)),
    ],
    "SequenceLength": [row(SEQUENCE), row([each(2), each(3)])],
    "SplitToSequence": [
        row(each(4, 6), axis=1),
        row(some(4, 6), axis=0, keepdims=0),
        row(some(4, 6), scalar(2), axis=-1),
        row(some(4, 7), scalar(3), axis=1),
        row(some(4, 6), ints(1, 3, 2), axis=1),
    ],
    "ConcatFromSequence": [
        *(row(EQUAL, axis=axis) for axis in (0, 1, -1)),
        *(row(EQUAL, axis=axis, new_axis=1) for axis in (0, 1, -1)),
        row([each(2, 3), each(1, 3)], axis=0),
    ],
    "SequenceMap": [row(EQUAL, body=MAPPED)],
    "Optional": [row(each(2, 3), expected=lambda x: x), row(SEQUENCE, expected=lambda x: x)],
    "OptionalHasElement": [
        row(Optional(floats(2, 3))),
        row(Optional(None, floats(2, 3))),
        row(Optional(SEQUENCE)),
        row(floats(2, 3)),
        row(since=18),
    ],
    "OptionalGetElement": [row(Optional(floats(2, 3))), row(Optional(SEQUENCE)), row(floats(2, 3)), row(SEQUENCE)],
    "If": IFS,
    "Loop": LOOPS,
    "Scan": SCANS,
    "RandomNormal": [row(random=True, **SIZE), row(random=True, dtype=11, mean=3.0, scale=0.5, seed=2.0, **SIZE)],
    "RandomUniform": [row(random=True, **SIZE), row(random=True, dtype=11, low=3.0, high=4.0, seed=2.0, **SIZE)],
    "RandomNormalLike": [row(each(2, 5), random=True, dtype=1), row(floats(2, 5), random=True)],
    "RandomUniformLike": [row(each(2, 5), random=True, dtype=1), row(floats(2, 5), random=True)],
    "Bernoulli": [row(each(3, 4, low=0, high=1), random=True), row(floats(3, 4, low=0, high=1), random=True, dtype=7)],
    "Multinomial": [
        row(each(2, 4), random=True, sample_size=3, expected=lambda x: np.zeros((2, 3), np.int32)),
        row(floats(2, 4), random=True, dtype=7, expected=lambda x: np.zeros((2, 1), np.int64)),
    ],
}

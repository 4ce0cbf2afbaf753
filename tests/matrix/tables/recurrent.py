"""Recurrent layers, and attention in its kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import parser

from lifting.ops.standard.layers.test_recurrent import GATES, KERNELS
from matrix.case import Array, Row, each, floats, ints, row, some

STEPS, BATCH, INPUT, HIDDEN = 4, 3, 2, 5
SMALL = {"low": -0.7, "high": 0.7}
UNIT = {"low": -1, "high": 1}
NAMES = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")


def recurrent(kind: str, given: str, make: Any = some, batch_first: bool = False, **attributes: Any) -> Row:
    """A row with the inputs that `given` names."""
    directions, rows = 2 if attributes.get("direction") == "bidirectional" else 1, GATES[kind] * HIDDEN
    state = (BATCH, directions, HIDDEN) if batch_first else (directions, BATCH, HIDDEN)
    arrays = {
        "X": make(*((BATCH, STEPS) if batch_first else (STEPS, BATCH)), INPUT, **SMALL),
        "W": make(directions, rows, INPUT, **SMALL),
        "R": make(directions, rows, HIDDEN, **SMALL),
        "B": make(directions, 2 * rows, **SMALL),
        "sequence_lens": np.array([4, 1, 3], np.int32),
        "initial_h": make(*state, **SMALL),
        "initial_c": make(*state, **SMALL),
        "P": make(directions, 3 * HIDDEN, **SMALL),
    }
    inputs = [arrays[name] if name in given.split() else None for name in NAMES]
    while inputs[-1] is None:
        inputs.pop()
    # Opset 7 only gave up `output_sequence`, and the reference makes do without lengths, clips and peepholes.
    return row(*inputs, hidden_size=HIDDEN, asked=7, **{"outputs": 2, **attributes})


def rows(kind: str) -> list[Row]:
    kernels = [recurrent(kind, given, **attributes) for name, given, attributes in KERNELS if name == kind]
    directions = [recurrent(kind, "X W R B initial_h", direction=d) for d in ("forward", "reverse", "bidirectional")]
    return [
        recurrent(kind, "X W R B", each),
        recurrent(kind, "X W R", outputs=3 if kind == "LSTM" else 2),
        recurrent(kind, "X W R B sequence_lens", direction="bidirectional"),
        recurrent(kind, "X W R B initial_h", batch_first=True, layout=1),
        recurrent(kind, "X W R B", output_sequence=1),
        *directions,
        *kernels,
    ]


def heads(*shape: int, seed: int = 0) -> Array:
    return floats(*shape, low=-1, high=1, seed=seed)


def doubled_scores() -> Any:
    text = "mod (float[b, h, q, k] s) => (float[b, h, q, k] t) { t = Add (s, s) }"
    return parser.parse_graph(text)


QKV = (heads(2, 4, 3, 8), heads(2, 4, 5, 8, seed=1), heads(2, 4, 5, 6, seed=2))
GROUPED = (heads(2, 4, 3, 8), heads(2, 2, 5, 8, seed=1), heads(2, 2, 5, 8, seed=2))
FLAT = (heads(2, 3, 16), heads(2, 5, 16, seed=1), heads(2, 5, 16, seed=2))
PAST = (heads(2, 4, 2, 8, seed=3), heads(2, 4, 2, 6, seed=4))
MASK = np.random.default_rng(5).uniform(size=(3, 5)) > 0.4
MASK[:, 0] = True

ROWS: dict[str, list[Row]] = {
    **{kind: rows(kind) for kind in GATES},
    "Attention": [
        row(each(2, 4, 3, 8, **UNIT), each(2, 4, 5, 8, **UNIT), each(2, 4, 5, 8, **UNIT)),
        row(*QKV),
        row(*QKV, scale=0.3, softcap=2.0),
        row(*QKV, is_causal=1),
        row(*QKV, MASK),
        row(*QKV, heads(2, 1, 3, 5, seed=6), softcap=1.5),
        row(*GROUPED),
        row(*GROUPED, is_causal=1),
        row(*FLAT, q_num_heads=4, kv_num_heads=4),
        row(*QKV, None, *PAST, outputs=3),
        row(*QKV, None, *PAST, outputs=3, is_causal=1),
        *(row(*QKV, heads(3, 5, seed=6), outputs=4, qk_matmul_output_mode=mode, reference=True) for mode in range(4)),
        row(*QKV, None, None, None, ints(5, 3)),
        row(*QKV, is_causal=1, left_window_size=1),
        row(*QKV, left_window_size=1, right_window_size=0),
    ],
    "RotaryEmbedding": [
        row(each(2, 3, 4, 6), each(9, 3), each(9, 3), ints([0, 1, 2, 3], [5, 6, 7, 8])),
        row(some(2, 3, 4, 6), some(9, 3), some(9, 3), ints([0, 1, 2, 3], [5, 6, 7, 8]), interleaved=1),
        row(some(2, 3, 4, 6), some(2, 4, 3), some(2, 4, 3)),
        row(some(2, 4, 18), some(2, 4, 3), some(2, 4, 3), num_heads=3),
        row(some(2, 3, 4, 6), some(9, 2), some(9, 2), ints([0, 1, 2, 3], [5, 6, 7, 8]), rotary_embedding_dim=4),
    ],
    "LinearAttention": [
        *(
            row(
                *FLAT[:1], heads(2, 3, 16, seed=1), heads(2, 3, 8, seed=2), *rest, outputs=2, update_rule=rule, **counts
            )
            for counts in ({"q_num_heads": 2, "kv_num_heads": 2},)
            for rule, rest in (
                ("linear", ()),
                ("gated", (None, heads(2, 3, 16, seed=3))),
                ("delta", (None, None, heads(2, 3, 2, seed=4))),
                ("gated_delta", (heads(2, 2, 8, 4, seed=5), heads(2, 3, 16, seed=3), heads(2, 3, 2, seed=4))),
            )
        ),
        row(
            *(heads(2, 3, 16), heads(2, 3, 8, seed=1), heads(2, 3, 4, seed=2)),
            outputs=2,
            update_rule="linear",
            q_num_heads=4,
            kv_num_heads=2,
            scale=0.3,
        ),
    ],
}
PREVIEW: dict[str, list[Row]] = {
    "FlexAttention": [
        row(each(2, 4, 3, 8, **UNIT), each(2, 4, 5, 8, **UNIT), each(2, 4, 5, 8, **UNIT)),
        row(*QKV, scale=0.3),
        row(*GROUPED),
        row(*QKV, score_mod=doubled_scores()),
        row(*QKV, prob_mod=doubled_scores()),
    ],
}

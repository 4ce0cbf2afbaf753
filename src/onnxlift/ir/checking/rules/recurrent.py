"""Rules on recurrent layers: their weights have the sizes that the gates, the directions and the input give."""

from __future__ import annotations

from collections.abc import Iterable

from onnxlift.ir.inference.node_view import Unknown

from .rule import Subject, rule, shape_text

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@rule("OL090", "recurrent-sizes", *_GATES, typed=True)
def recurrent_weights_fit_the_gates(n: Subject) -> Iterable[str]:
    """W, R and B of an RNN, a GRU or an LSTM have the sizes that directions, gates, hidden and input size give."""
    directions = 2 if n.setting("direction") == "bidirectional" else 1
    hidden = n.setting("hidden_size")
    rows = None if hidden is None else _GATES[n.node.op_type] * hidden
    features = _shape(n, 0) if n.always_runs else None  # in a branch, another input may have been meant
    width = features[2] if features is not None and len(features) == 3 else None
    wanted = {
        "W": (directions, rows, width),
        "R": (directions, rows, hidden),
        "B": (directions, None if rows is None else 2 * rows),
    }
    for index, (name, sizes) in enumerate(wanted.items(), 1):
        shape = _shape(n, index)
        if shape is None:
            continue
        differs = any(
            isinstance(is_now, int) and isinstance(must_be, int) and is_now != must_be
            for is_now, must_be in zip(shape, sizes, strict=False)
        )
        if len(shape) != len(sizes) or differs:
            yield f"its input {name} is {shape_text(shape)}, and must be {shape_text(sizes)}."


def _shape(n: Subject, index: int) -> tuple[object, ...] | None:
    try:
        return tuple(n.shape(index)) if n.has(index) else None
    except Unknown:
        return None

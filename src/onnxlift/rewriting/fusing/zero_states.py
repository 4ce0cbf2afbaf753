"""Leave out an initial state of zeros of a recurrent layer.

    LSTM(x, w, r, b, , zeros, zeros)   ->   LSTM(x, w, r, b)

The same for RNN and GRU. It applies if the state is known to be zeros whatever its size is: a constant, a
ConstantOfShape or an Expand of zeros, or made from such by operators that only move or join elements. Sound because a
state that is left out is zeros.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import is_zeros, made_by
from onnxlift.stages import step

_STATES = (5, 6)
"""The places of initial_h and initial_c among the inputs."""


@step("zero-states", repeats=True)
def run(model: ir.Model) -> int:
    """Leave out initial states of zeros; return how many."""
    return sweep(model, {("RNN", "GRU", "LSTM"): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    for place in _STATES:
        value = node.inputs[place] if place < len(node.inputs) else None
        if value is not None and _joins_zeros(edit, value):
            node.replace_input_with(place, None)
            edit.changes += 1
    while node.inputs and node.inputs[-1] is None:
        node.resize_inputs(len(node.inputs) - 1)


def _joins_zeros(edit: Edit, value: ir.Value) -> bool:
    joined = made_by(edit, value, "Concat")
    return all(is_zeros(edit, part) for part in joined.inputs) if joined is not None else is_zeros(edit, value)

"""Tell which constants are weights, in a graph whose initialisers have no names, or names that are mere numbers.

A layer knows its weights. Other weights are told by their use. A constant is to be trained if it is added to,
multiplied with or joined to the data of the model, at once or after its shape was changed (a token, positions, a
scale), or if rows of it are looked up. Not to be trained are masks of an attention, constants that only positions,
frequencies and sizes are computed from, and constants that stood in a node of the model: exporters keep weights as
initialisers, and constants of the code in nodes. A single number is a weight only if it has a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import onnx_ir as ir

from onnxlift.ir.graph.types import FLOATS, type_of
from onnxlift.ir.origin.tensors import MOST_READERS, mark_trained, origin_of

from .flow import Flow

_SHAPING = {"Expand", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Cast", "Slice", "Identity"}
_WORDS = {"Mul": "scale", "Sub": "shift", "Concat": "token", "MatMul": "weight"}


def mark_weights(graph: ir.Graph, flow: Flow, are_counted: bool) -> None:
    """Give weights their names, in a graph where no initialiser has one, or all are counted."""
    constants = [value for value in graph.initializers.values() if not origin_of(value).is_constant]
    if not are_counted and not all(origin_of(value).is_nameless for value in constants):
        return
    for value in constants:
        size = type_of(value).size or 0
        if value.dtype in FLOATS and (size > 1 or (size == 1 and not origin_of(value).is_nameless)):
            word = next(_roles(value, flow), None)
            if word is not None:
                mark_trained(value, word, "nothing has a name, and this is computed with the data of the model")


def _roles(value: ir.Value, flow: Flow) -> Iterator[str]:
    """Yield the word for a constant at each node that reads it as something to train."""
    rank = len([size for size in type_of(value).shape or () if size != 1])
    waiting = [value]
    for current in waiting:
        for node, index in islice(current.uses(), MOST_READERS):
            if node.op_type == "Gather" and index == 0 and rank > 1:
                yield "table"
            elif node in flow.position and node.op_type == "Add":
                yield "position" if rank > 1 else "bias"
            elif node in flow.position and node.op_type in _WORDS:
                yield _WORDS[node.op_type]
            elif node.op_type in _SHAPING and index == 0 and len(waiting) < MOST_READERS:
                waiting.append(node.outputs[0])

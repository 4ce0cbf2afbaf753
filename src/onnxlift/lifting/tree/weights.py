"""Which constants are weights, in a graph whose initialisers have no names, or names that say no more than a number.

A layer knows its weights. Others are told by their use: what is added to, multiplied with or joined to the data of the
model (a token, positions, a scale), at once or after its shape was changed, is to be trained; so is a table that rows
are looked up in. Masks of an attention are not, nor what only positions, frequencies and sizes are computed from, nor
what stood in a node of the model: exporters keep weights as initialisers, and constants of the code in nodes. A single
number is one only if it has a name.
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
    """What a constant is to each of the nodes that read it, as far as that is something to train."""
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

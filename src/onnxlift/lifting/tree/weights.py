"""Which constants are weights, in a graph whose initialisers have no names, or names that say no more than a number.

A layer knows its weights. Others are told by their use: what is added to, multiplied with or joined to the data of the
model (a token, positions, a scale), at once or after its shape was changed, is to be trained; so is a table that rows
are looked up in. Masks of an attention are not, nor what only positions, frequencies and sizes are computed from, nor
what stood in a node of the model: exporters keep weights as initialisers, and constants of the code in nodes. A single
number is one only if it has a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import onnx_ir as ir

from onnxlift.ir.graph.marks import WEIGHT as WEIGHT
from onnxlift.ir.graph.types import FLOATS, type_of
from onnxlift.ir.origin.metadata import FOLDED_FROM, SIGNATURE_KIND
from onnxlift.lifting.code.identifiers import is_nameless

from .flow import Flow

_SHAPING = {"Expand", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Cast", "Slice", "Identity"}
_WORDS = {"Mul": "scale", "Sub": "shift", "Concat": "token", "MatMul": "weight"}
_LOSSES = {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}
MOST_READERS = 64  # what more nodes read is no weight of any of them


# What models compute once and keep, and never train.
_BUFFER = re.compile(
    r"(^|[._])(inv_freq|freqs?(_cis)?|(cos|sin)(_cached)?|masked_bias|attn_mask|anchors?|window|weight_scale)$"
)


def is_parameter(value: ir.Value) -> bool:
    """Whether a constant is something to train: floating point, not a single number, and an initialiser of the model
    with a name of its own (constants of the code are not), or used as a weight where nothing has a name. PyTorch's
    newer exporter says what is a buffer, and what it has computed."""
    if value.metadata_props.get(SIGNATURE_KIND) == "BUFFER" or FOLDED_FROM in value.metadata_props:
        return False
    if WEIGHT in value.meta:
        return True
    size = type_of(value).size
    named = not is_nameless(value) and "constant" not in value.meta and not _BUFFER.search(value.name or "")
    return value.dtype in FLOATS and size is not None and size > 1 and named and not _weighs_classes(value)


def _weighs_classes(value: ir.Value) -> bool:
    """Whether a loss counts classes by these numbers, which PyTorch's losses do not train."""
    readers = [*islice(value.uses(), MOST_READERS)]
    return bool(readers) and all(node.op_type in _LOSSES and index == 2 for node, index in readers)


def mark_weights(graph: ir.Graph, flow: Flow, are_counted: bool) -> None:
    """Give weights their names, in a graph where no initialiser has one, or all are counted."""
    constants = [value for value in graph.initializers.values() if "constant" not in value.meta]
    if not are_counted and not all(is_nameless(value) for value in constants):
        return
    for value in constants:
        size = type_of(value).size or 0
        if value.dtype in FLOATS and (size > 1 or (size == 1 and not is_nameless(value))):
            word = next(_roles(value, flow), None)
            if word is not None:
                value.meta[WEIGHT] = word


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

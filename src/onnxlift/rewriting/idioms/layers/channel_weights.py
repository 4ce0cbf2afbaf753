"""Tell the weights among the constants without a name: what is added to a layer's result, or multiplies it, by channel.

    Mul(BatchNorm(x), c), c as (1, 64, 1, 1)   ->   the same, with c marked as a parameter, called `scale`
    Add(Squeeze(Conv(x, W)), c), c as (64, 1)  ->   the same, with c marked as a parameter, called `bias`
    MatMul(Relu(Linear(x, W)), c)              ->   the same, with c marked as a parameter, called `weight`

tf2onnx calls what it has folded `const_fold_opt__123`, whatever it was: biases, scales, masks and tables. So the name
does not tell, and the use must. A constant is a parameter if

1. a node adds, subtracts, multiplies with or divides by it, or MatMul multiplies with it, perhaps after its shape was
   changed;
2. the other operand is computed from the result of a layer (parts/channels.py). Before the first layer, it is the mean
   or the deviation of the data;
3. for the arithmetic: it has more than one number along a single axis, that of the channels. With several axes it may
   be a mask or a table of positions, and along another axis it counts places, not channels;
4. it is no mask: not only zeros beside ones that multiply, or beside large numbers that are added.

The others stay buffers, each with the reason, for the warning that says what will not train. Not in a model from
PyTorch: its exporters write the state dict, and what they have computed is undone elsewhere (restoring/). No number
changes. This comes after all idioms that make layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.origin.exporter import exporter_of
from onnxlift.ir.origin.tensors import MOST_READERS, Kind, mark_trained, mark_untrained, may_be_trained, origin_of
from onnxlift.rewriting.idioms.parts.channels import Axes, channel_axes
from onnxlift.stages import step

_WORDS = {"Add": "bias", "Sub": "shift", "Mul": "scale", "Div": "divisor", "MatMul": "weight"}
_SHAPING = frozenset({"Cast", "Expand", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_QUANTISERS = re.compile("Quantize|QLinear|Integer|Bits")
_LARGE = 1e3

_MASK = "it has only zeros and ones, or zeros and large numbers, as a mask has"
_QUANTISER = "it belongs to a quantiser, or to a quantised layer"
_BEFORE = "it is applied before the first layer, as the mean and the deviation of the data are"
_TABLE = "it has several axes, as a mask or a table of positions has"
_LOST = "the axes of the result that it is applied to are no longer those of a layer"
_PLACES = "it goes along an axis of places, not of channels, as a table does"
_NOTHING = "no layer's result is added to it or multiplied with it, so nothing shows that it is a weight"
_TRAINED = "it is added to the result of a layer, or multiplied with it, by channel"


@step(
    "channel-weights",
    after={
        "bare-weights": "what is a weight of an operator is known then",
        "conv-bias": "a bias that a convolution takes is its own",
        "linear": "a bias that a linear layer takes is its own, and its result has channels",
        "embedding": "what it gives has channels",
        "layer-norm": "its scale and bias are its own",
        "group-norm": "its scale and bias are its own",
        "rms-norm": "its scale is its own",
    },
)
def run(model: ir.Model) -> int:
    """Mark constants of the main graph that act as weights; return how many."""
    return mark_channel_weights(model)


def mark_channel_weights(model: ir.Model) -> int:
    """Do the same, for a graph that may be without idioms."""
    values = [value for value in model.graph.initializers.values() if _is_untold(value)]
    if exporter_of(model).is_pytorch:
        return 0
    axes = channel_axes(model.graph) if values else {}  # for speed
    count = 0
    for value in values:
        verdicts = [*_verdicts(value, axes)]
        against = next((why for word, why in verdicts if word is None), None)
        word = next((word for word, _ in verdicts if word is not None), None)
        if word is not None and against not in (_MASK, _QUANTISER) and may_be_trained(value):
            mark_trained(value, word, _TRAINED)
            count += 1
        elif against == _QUANTISER or may_be_trained(value):
            mark_untrained(value, _NOTHING if against is None else against)
    return count


def _is_untold(value: ir.Value) -> bool:
    """Tell whether nothing is known of a constant yet. One whose name tells that it is not trained is known."""
    origin, tensor = origin_of(value), constant(value)
    is_known = not origin.is_nameless and tensor is not None and tensor.size > 1
    return origin.kind is Kind.UNTOLD and not is_known


def _verdicts(value: ir.Value, axes: Axes) -> Iterator[tuple[str | None, str]]:
    """Yield for each reader the word for what a constant is to it, or None and the reason why it is no weight."""
    waiting = [value]
    for read in waiting:
        for node, place in islice(read.uses(), MOST_READERS):
            if _QUANTISERS.search(node.op_type):
                yield None, _QUANTISER
            elif node.op_type in _WORDS and not (node.op_type == "Div" and place == 0):
                why = _reason_against(node, read, node.inputs[1 - place], axes)
                yield (_WORDS[node.op_type], "") if why is None else (None, why)
            elif node.op_type in _SHAPING:
                waiting += node.outputs if len(waiting) < MOST_READERS else ()  # for speed


def _reason_against(node: ir.Node, value: ir.Value, other: ir.Value | None, axes: Axes) -> str | None:
    """Return why a constant is no weight, as an operand of arithmetic; None if it is one."""
    sizes, shape, axis = shape_of(value), shape_of(other), axes.get(other)
    if other not in axes:
        return _BEFORE
    if node.op_type == "MatMul":
        return None
    if sizes is None or shape is None or axis is None:
        return _LOST
    longer = max(len(sizes), len(shape))
    wide = [place for place, size in enumerate(sizes, longer - len(sizes)) if size != 1]
    if len(wide) != 1:
        return _TABLE
    if wide[0] != axis + longer - len(shape):
        return _PLACES
    tensor = constant(value)
    return _MASK if tensor is not None and _is_mask(tensor.numpy(), node.op_type) else None


def _is_mask(array: Array, op_type: str) -> bool:
    """Tell whether numbers are those of a mask: zeros and ones to multiply with, zeros and large numbers to add."""
    numbers = np.abs(np.unique(array.astype(np.float64)))
    others = numbers[numbers != 0]
    if not len(others) or len(others) == len(numbers):
        return False
    return bool((others == 1).all()) if op_type in ("Mul", "Div") else bool((others >= _LARGE).all())

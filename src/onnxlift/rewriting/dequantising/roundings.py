"""Values that are rounded to integers, and turned back into floats later, stay floats.

    QuantizeLinear(x), [moves], DequantizeLinear   ->   Relu(x), [moves]       if all numbers below 0 were cut off
                                                        Clip(x, 0, 6), [moves]  if those above 6 were, too
                                                        x, [moves]              otherwise

Quantisers leave activations to the limits of integers: an integer of 0 that stands for 0.0 is a ReLU. Moves are
operators that pick and move elements. Applies if nothing but these reads the
integers in between, and they read no others.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.walk import all_nodes

MOVES = frozenset(
    """Concat DepthToSpace Expand Flatten Gather GatherElements GatherND Identity MaxPool Reshape Resize Slice
    SpaceToDepth Split Squeeze Tile Transpose Unsqueeze""".split()
)
_PAIR = frozenset({"QuantizeLinear", "DequantizeLinear"})
_INTEGERS = (ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.UINT16, ir.DataType.INT16)
_NONNEGATIVE = frozenset({"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Exp", "Abs", "Sqrt"})
_SIX, _NEAR = 6.0, 0.02


def drop_roundings(model: ir.Model) -> tuple[int, int]:
    """Let values be floats that are only rounded in between; return how many roundings went, and how many stayed."""
    found = _candidates(model)
    made = Counter[str]()

    def visit(edit: Edit, node: ir.Node) -> None:
        if node.op_type == "DequantizeLinear" and node in integers:
            _keep_floats(edit, node)
        elif node.op_type == "QuantizeLinear":
            made["dropped" if node in integers else "kept"] += 1
            if node in integers:
                _unrounded(edit, node, integers[node])

    integers = {node: value.dtype or ir.DataType.UINT8 for value in found for node in _roundings_of(value)}
    for value in found:
        value.type = ir.TensorType(ir.DataType.FLOAT)
    sweep(model, {"QuantizeLinear": visit, "DequantizeLinear": visit})
    return made["dropped"], made["kept"]


def _candidates(model: ir.Model) -> dict[ir.Value, None]:
    """Return the values of integers that may be floats."""
    nodes = [node for node in all_nodes(model.graph) if node.op_type in _PAIR or node.op_type in MOVES]
    found: dict[ir.Value, None] = {}
    for node in nodes:  # each after those that it reads
        if node.op_type == "QuantizeLinear" and node.inputs[0] is not None and _is_plain(node):
            found[node.outputs[0]] = None
        elif node.op_type in MOVES and any(value in found for value in node.inputs):
            found.update(dict.fromkeys(node.outputs))
    waiting = [value for value in found if not _is_fit(value, found)]
    while waiting:
        value = waiting.pop()
        if value not in found:
            continue
        del found[value]
        producer = value.producer()
        around = [*(producer.inputs if producer is not None and producer.op_type in MOVES else ())]
        around += [output for user, _ in value.uses() if user.op_type in MOVES for output in user.outputs]
        around += [*(producer.outputs if producer is not None else ())]
        waiting += [each for each in around if each is not None and each in found]
    return found


def _is_plain(node: ir.Node) -> bool:
    scale = constant(node.inputs[1])
    return node.outputs[0].dtype in _INTEGERS and scale is not None and scale.dtype == ir.DataType.FLOAT


def _is_fit(value: ir.Value, found: dict[ir.Value, None]) -> bool:
    """Tell whether only moves and dequantisations read a value, and whether these read no other integers."""
    if value.is_graph_output():
        return False
    for user, place in value.uses():
        if user.op_type == "DequantizeLinear" and place == 0 and user.outputs[0].dtype == ir.DataType.FLOAT:
            continue
        others = [each for each in user.inputs if each is not None and each.dtype == value.dtype and each not in found]
        if user.op_type not in MOVES or others or user.domain not in ("", "ai.onnx"):
            return False
    return True


def _unrounded(edit: Edit, node: ir.Node, dtype: ir.DataType) -> None:
    """Put what the limits of the integers do in the place of a rounding."""
    x, scale, zero = (*node.inputs, None)[:3]
    assert x is not None
    limits, step, point = np.iinfo(dtype.numpy()), constant(scale), constant(zero)
    lowest = 0 if zero is None else None if point is None else int(np.max(point.numpy()))
    made = x.producer()
    if lowest != limits.min or step is None or (made is not None and made.op_type in _NONNEGATIVE):
        _keep_floats(edit, node)
        return
    highest = float(np.max(step.numpy())) * (limits.max - limits.min)
    if abs(highest - _SIX) > _NEAR * _SIX or step.size != 1:
        edit.replace(node, "Relu", [x], domain="")
        return
    limit = node.outputs[0].name
    ends = [edit.constant(f"{limit}_{name}", np.array(end, np.float32)) for name, end in (("min", 0), ("max", _SIX))]
    edit.replace(node, "Clip", [x, *ends], domain="")


def _keep_floats(edit: Edit, node: ir.Node) -> None:
    if not edit.bypass(node, node.inputs[0]):
        edit.replace(node, "Identity", node.inputs[:1], domain="")


def _roundings_of(value: ir.Value) -> list[ir.Node]:
    """Return the nodes that make integers `value`, or make floats of it."""
    nodes = [value.producer(), *(user for user, _ in value.uses())]
    return [node for node in nodes if node is not None and node.op_type in _PAIR]

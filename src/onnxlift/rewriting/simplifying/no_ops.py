"""Remove nodes that pass their input on unchanged.

    y = Op(x)   ->   x for y

These are: Identity; Cast and CastLike to the type of x; Reshape, Flatten, Squeeze, Unsqueeze, Expand and Tile that
leave the shape as it is; Transpose that keeps the order; Slice with steps of 1 that leaves the shape; Pad by zero;
Resize to the sizes that x has; Concat, Sum, Max, Min and Mean of one input; Split into one output; Dropout of nothing.
With a constant operand that is the same element throughout, these are also x * 1, x / 1, x - 0, x ** 1, x & True, x |
False, x + 0, max(x, -inf), min(x, inf), where(True, x, _) and where(False, _, x).

A node stays if

- the shape is not known to be the same. Sizes must be equal names or equal numbers. `x * ones` may broadcast x, so the
  output must have x's shape and type.
- x is a floating-point tensor and the operation is x + 0.0, which turns -0.0 into 0.0. But x - 0.0 and x + -0.0 keep
  every value, and go. So does x + 0.0 in two cases. One is that everything made of it ends in a softmax, which does not
  distinguish the two zeros: scores with a mask that hides nothing. The other is that x has no -0.0, or none that ONNX
  promises, since x is a sum of products in no fixed order: a total that begins with zeros.
- the constant operand may be a parameter: a scale that is 1 before training is still a scale.
- it is a Resize that is given scales, crops, keeps an aspect ratio, or maps places to other places than their own.
- it is a Dropout that drops anything in training: it says how to train the model further, and becomes `nn.Dropout`.
- a second output (a Dropout's mask) is read.
- x would have to become a graph output, but is an input, an initialiser, another output, or comes from outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, Operators, sweep
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import same_shape, shape_of, static_elements
from onnxlift.ir.origin.tensors import may_be_trained
from onnxlift.stages import step

Rule = Callable[[Edit, ir.Node], ir.Value | None]
_OWN_PLACES = frozenset({"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"})
_PASSING_ON = frozenset({"Add", "Sub", "Where", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand"})
_LONGEST_WAY = 16
_MOVING = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"})
_WITHOUT_NEGATIVE_ZERO = frozenset({"Conv", "ConvTranspose", "Exp", "Gemm", "MatMul", "Relu", "Sigmoid", "Softmax"})
_DEEPEST_SUM = 3
# op -> (neutral element, whether it may be on the left)
_NEUTRAL = {
    "Add": (0, True),
    "Sub": (0, False),
    "Mul": (1, True),
    "Div": (1, False),
    "Pow": (1, False),
    "And": (True, True),
    "Or": (False, True),
    "Max": (-math.inf, True),
    "Min": (math.inf, True),
}


@step("no-ops", after={"constant-folding": "an operand that is computed from constants is known by then"}, repeats=True)
def run(model: ir.Model) -> int:
    """Remove nodes that change nothing; return how many."""
    return sweep(model, {operators: partial(_visit, rule=rule) for operators, rule in _RULES.items()})


def _visit(edit: Edit, node: ir.Node, rule: Rule) -> None:
    if node.inputs and node.outputs:
        edit.bypass(node, rule(edit, node))


# The rules. Each returns the input that the node passes on unchanged, or None.


def _identity(_: Edit, node: ir.Node) -> ir.Value | None:
    return None if may_be_trained(node.inputs[0]) else node.inputs[0]


def _cast(_: Edit, node: ir.Node) -> ir.Value | None:
    x = node.inputs[0]
    return x if x is not None and x.dtype is not None and x.dtype == node.outputs[0].dtype else None


def _reshape(_: Edit, node: ir.Node) -> ir.Value | None:
    x = node.inputs[0]
    return x if x is not None and same_shape(x, node.outputs[0]) else None


def _transpose(_: Edit, node: ir.Node) -> ir.Value | None:
    shape, order = shape_of(node.inputs[0]), attribute(node, "perm", ())
    in_order = order is not None and len(order) > 0 and list(order) == list(range(len(order)))
    return node.inputs[0] if in_order or (shape is not None and len(shape) < 2) else None


def _slice(edit: Edit, node: ir.Node) -> ir.Value | None:
    steps = (1,) if len(node.inputs) < 5 or node.inputs[4] is None else static_elements(node.inputs[4])
    return _reshape(edit, node) if steps is not None and set(steps) <= {1} else None


def _pad(_: Edit, node: ir.Node) -> ir.Value | None:
    pads = static_elements(node.inputs[1]) if len(node.inputs) > 1 else attribute(node, "pads", None)
    return node.inputs[0] if pads is not None and set(pads) <= {0} else None


def _resize(edit: Edit, node: ir.Node) -> ir.Value | None:
    return _reshape(edit, node) if _keeps_sizes(node) else None


def _of_one_input(_: Edit, node: ir.Node) -> ir.Value | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


def _of_one_output(edit: Edit, node: ir.Node) -> ir.Value | None:
    return _reshape(edit, node) if len(node.outputs) == 1 else None


def _dropout(edit: Edit, node: ir.Node) -> ir.Value | None:
    return node.inputs[0] if _drops_nothing(edit, node) else None


def _extreme(edit: Edit, node: ir.Node) -> ir.Value | None:
    return _of_one_input(edit, node) or _without_neutral(edit, node)


def _keeps_sizes(node: ir.Node) -> bool:
    """Tell whether a Resize that leaves the shape as it is leaves each element in its place."""
    coordinates = attribute(node, "coordinate_transformation_mode", "half_pixel")
    is_stretched = attribute(node, "keep_aspect_ratio_policy", "stretch") == "stretch"
    has_sizes = len(node.inputs) == 4 and node.inputs[3] is not None and node.inputs[2] is None
    return has_sizes and is_stretched and coordinates in _OWN_PLACES


def _drops_nothing(edit: Edit, node: ir.Node) -> bool:
    if edit.opset(node) < 12:
        return bool(attribute(node, "ratio", 0.5) == 0)
    ratio = constant(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] is not None else None
    return ratio is not None and ratio.size == 1 and not ratio.numpy().any()


def _without_neutral(_: Edit, node: ir.Node) -> ir.Value | None:
    """Return the operand that the node gives unchanged because the other one is neutral throughout."""
    neutral, either_side = _NEUTRAL[node.op_type]
    if len(node.inputs) != 2 or attribute(node, "broadcast", 0) != 0:
        return None
    left, right = node.inputs
    for source, operand in ((left, right), (right, left)) if either_side else ((left, right),):
        if source is None or operand is None or may_be_trained(operand):
            continue
        if not same_shape(source, node.outputs[0]) or source.dtype != node.outputs[0].dtype:
            continue
        if _is_throughout(operand, neutral, node.op_type):
            return source
        is_zero = node.op_type == "Add" and _is_throughout(operand, neutral, "Sub")
        if is_zero and (_has_no_negative_zero(source) or _forgets_signs(node.outputs[0])):
            return source
    return None


def _has_no_negative_zero(value: ir.Value, depth: int = 0) -> bool:
    """Tell whether `value` has no -0.0, or none that ONNX promises. A sum is -0.0 only if both summands are."""
    node = value.producer()
    if node is None or node.domain != "" or depth > _DEEPEST_SUM:
        return False
    if node.op_type == "Add" or node.op_type in _MOVING:
        sources = node.inputs if node.op_type == "Add" else node.inputs[:1]
        return any(source is not None and _has_no_negative_zero(source, depth + 1) for source in sources)
    return node.op_type in _WITHOUT_NEGATIVE_ZERO


def _forgets_signs(value: ir.Value) -> bool:
    """Tell whether nothing depends on the sign of a 0 in `value`. All ways from it must end in a softmax or a shape,
    and no node on them may turn a -0.0 into anything but a zero."""
    seen = {value}
    waiting = [value]
    while waiting:
        read = waiting.pop()
        if read.is_graph_output() or len(seen) > _LONGEST_WAY:
            return False
        for user, index in read.uses():
            others = [other for place, other in enumerate(user.inputs) if place != index]
            is_scaled = user.op_type == "Mul" or (user.op_type == "Div" and index == 0)
            if user.domain != "":
                return False
            if user.op_type in _PASSING_ON or (is_scaled and all(map(_is_number, others))):
                waiting += [output for output in user.outputs if output not in seen]
                seen.update(user.outputs)
            elif user.op_type not in ("Softmax", "Shape"):
                return False
    return True


def _is_number(value: ir.Value | None) -> bool:
    tensor = constant(value)
    return tensor is not None and tensor.size == 1


def _always_chosen(_: Edit, node: ir.Node) -> ir.Value | None:
    """Return the operand of a Where that all elements come from."""
    condition, then, otherwise = node.inputs
    for source, chosen in ((then, True), (otherwise, False)):
        if source is None or condition is None or not same_shape(source, node.outputs[0]):
            continue
        if _is_throughout(condition, chosen, node.op_type):
            return source
    return None


def _is_throughout(operand: ir.Value, neutral: float, op: str) -> bool:
    tensor = constant(operand)
    if tensor is None or tensor.size == 0 or tensor.size > 1024 or tensor.dtype == ir.DataType.STRING:
        return False
    array = tensor.numpy()
    if math.isinf(neutral) and array.dtype.kind != "f":
        return False
    if not (array == np.asarray(neutral, array.dtype)).all():
        return False
    if op in ("Add", "Sub") and array.dtype.kind not in "biu":
        return bool((np.signbit(array.astype(np.float64)) == (op == "Add")).all())
    return True


_RULES: dict[Operators, Rule] = {
    "Identity": _identity,
    ("Cast", "CastLike"): _cast,
    ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile"): _reshape,
    "Transpose": _transpose,
    "Slice": _slice,
    "Pad": _pad,
    "Resize": _resize,
    ("Concat", "Sum", "Mean"): _of_one_input,
    "Split": _of_one_output,
    "Dropout": _dropout,
    ("Max", "Min"): _extreme,
    ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or"): _without_neutral,
    "Where": _always_chosen,
}

"""Leave out a repetition in front of an operator that broadcasts anyway.

1. Add(E(x), y)       ->  Add(x, y)          if x and y alone give the same shape
2. Mul(E(x), 2)       ->  E(Mul(x, 2))       where E is an Expand: less to compute, and rule 1 may apply further on
3. Less(E(x), E(y))   ->  E(Less(x, y))      where both are an Unsqueeze, and all that reads the result broadcasts
4. Expand(E(x), s)    ->  Expand(x, s)       where E is an Expand, and s is the whole shape of the result

The rules are for elementwise operators with two or more inputs (rule 2 also for Cast and Not). Each reader is judged by
itself. E(x) is

- Expand(x, s), and in rule 1 also ConstantOfShape(s) with its number for x
- Unsqueeze(x, axes), but only the axes in front of all others: `mask[None, :, None]` keeps the last of the three

No rule applies if E is what makes the result as large as it is: the shapes with and without it must be known to be
equal. In rules 2 and 3 they always are, because the other operands are numbers or lose the same axes. Rule 1 does not
apply if a reader that does not broadcast needs the Expand anyway: `x + block(x)` reads x once more. Sound because
broadcasting repeats elements just as Expand does, and adds axes in front just as Unsqueeze does.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import Shape, elements_of, shape_of
from onnxlift.ir.inference.node_view import Unknown
from onnxlift.ir.inference.shape_rules import BROADCASTING, broadcast_shapes
from onnxlift.stages import step

_MAX_READERS = 32
_WIDENING = (*BROADCASTING, "Expand", "Cast", "Not", "Shape")
_MAX_INPUTS = 8


@step(
    "expands",
    after={
        "no-ops": "a repetition that changes nothing, or a mask that hides nothing, is gone by then",
        "fills": "arithmetic on one number in all places is done by then, and gives such a tensor again",
        "positions": "a comparison that always holds is a repeated truth by then",
        "reshapes": "axes that were added one after the other are one Unsqueeze by then",
        "unit-axes": "a reshape that only adds axes is an Unsqueeze by then",
    },
    repeats=True,
)
def run(model: ir.Model) -> int:
    """Bypass nodes that only repeat elements; return how often."""
    return sweep(
        model, {("Cast", "Not"): _sink_expand, "Expand": _merge_expands, tuple(sorted(BROADCASTING)): _broadcasting}
    )


def _broadcasting(edit: Edit, node: ir.Node) -> None:
    if attribute(node, "broadcast", 0) != 0 or len(node.outputs) != 1:
        return
    if edit.opset(node) < 8 or len(node.inputs) > _MAX_INPUTS:
        return  # before 8, not all of these broadcast
    if _sink_expand(edit, node) or _sink_unsqueeze(edit, node):
        return
    wanted = shape_of(node.outputs[0])
    for index, value in enumerate(node.inputs):
        shape = _narrow_shape(value)
        if value is None or shape is None or wanted is None:
            continue
        others = [shape_of(other) for position, other in enumerate(node.inputs) if position != index]
        source = _narrow(edit, node, value) if _broadcast([shape, *others]) == wanted else None
        if source is not None:
            node.replace_input_with(index, source)
            edit.changes += 1


def _merge_expands(edit: Edit, node: ir.Node) -> None:
    """Apply rule 4."""
    first = None if node.inputs[0] is None else node.inputs[0].producer()
    if first is None or not is_standard(first, "Expand") or first.inputs[0] is None:
        return
    if elements_of(node.inputs[1]) == shape_of(node.outputs[0]) is not None:
        node.replace_input_with(0, first.inputs[0])
        edit.changes += 1


def _narrow_shape(value: ir.Value | None) -> Shape | None:
    """Return the shape of x, if `value` is E(x)."""
    node, shape = None if value is None else value.producer(), shape_of(value)
    if value is None or node is None or shape is None:
        return None
    if is_standard(node, "Expand"):
        return None if _is_needed(value) else shape_of(node.inputs[0])
    if is_standard(node, "ConstantOfShape"):
        return () if len(shape) > 1 else None  # a list is shape arithmetic, which reads better with the list
    front = _new_in_front(value)
    return shape[front:] if front else None


def _is_needed(value: ir.Value) -> bool:
    """Tell whether a reader needs the expanded value, since it does not broadcast by itself."""
    uses = value.uses()
    return 1 < len(uses) <= _MAX_READERS and not all(is_standard(user, *_WIDENING) for user, _ in uses)


def _narrow(edit: Edit, reader: ir.Node, value: ir.Value) -> ir.Value | None:
    """Return x, if `value` is E(x)."""
    node = value.producer()
    assert node is not None
    if is_standard(node, "Expand"):
        return node.inputs[0]
    if is_standard(node, "ConstantOfShape"):
        tensor = attribute(node, "value", None)
        if "value" in node.attributes and (tensor is None or tensor.size != 1):
            return None
        array = np.zeros((), np.float32) if tensor is None else tensor.numpy().reshape(())
        return edit.constant(f"{value.name}.number", array) if array.dtype.kind in "biuf" else None
    return _without_front(edit, reader, value, _new_in_front(value))


def _new_in_front(value: ir.Value | None) -> int:
    """Return how many axes in front of all others an Unsqueeze adds to make `value`; 0 if no Unsqueeze does."""
    node, shape = None if value is None else value.producer(), shape_of(value)
    axes = axes_of(node) if node is not None and is_standard(node, "Unsqueeze") else None
    if axes is None or shape is None:
        return 0
    new = {axis % len(shape) for axis in axes}
    return next(axis for axis in range(len(shape) + 1) if axis not in new)


def _without_front(edit: Edit, reader: ir.Node, value: ir.Value, count: int) -> ir.Value | None:
    """Return the result of an Unsqueeze without the first `count` of its new axes."""
    node, shape = value.producer(), shape_of(value)
    assert node is not None and shape is not None
    axes = sorted(axis % len(shape) for axis in axes_of(node) or ())[count:]
    source = node.inputs[0]
    if not axes or source is None:
        return source
    inputs, attributes = edit.axes(node, [axis - count for axis in axes])
    return edit.insert(
        reader,
        "Unsqueeze",
        [source, *inputs],
        attributes,
        like=source,
        shape=shape[count:],
        name=f"{value.name}.narrow",
    )


def _sink_expand(edit: Edit, node: ir.Node) -> bool:
    """Apply rule 2, if possible; tell whether it was."""
    wide = [value for value in node.inputs if not _is_number(value)]
    expand = wide[0].producer() if len(wide) == 1 and wide[0] is not None else None
    if expand is None or not is_standard(expand, "Expand") or expand.graph is not edit.graph:
        return False
    source = expand.inputs[0]
    shape = shape_of(source)
    if (
        shape is None
        or constant(source) is not None
        or any(len(shape_of(v) or ()) > len(shape) for v in node.inputs if v not in wide)
    ):
        return False
    output = node.outputs[0]
    inputs = [source if value is wide[0] else value for value in node.inputs]
    narrow = edit.insert(
        node, node.op_type, inputs, node.attributes.values(), like=output, shape=shape, name=f"{output.name}.narrow"
    )
    edit.replace(node, "Expand", [narrow, expand.inputs[1]])
    return True


def _sink_unsqueeze(edit: Edit, node: ir.Node) -> bool:
    """Apply rule 3, if possible; tell whether it was."""
    wide = [value for value in node.inputs if value is not None and not _is_number(value)]
    output, shape = node.outputs[0], shape_of(node.outputs[0])
    count = min((_new_in_front(value) for value in wide), default=0)
    if not count or shape is None or len({len(shape_of(value) or ()) for value in wide}) != 1 or edit.is_output(output):
        return False
    if any(len(shape_of(value) or ()) > len(shape) - count for value in node.inputs if value not in wide):
        return False
    readers = [user for user, _ in output.uses()] if len(output.uses()) <= _MAX_READERS else []
    if not readers or not all(is_standard(user, *BROADCASTING) and _has_longer(user, output) for user in readers):
        return False
    narrow = {value: _without_front(edit, node, value, count) for value in wide}
    inputs = [narrow.get(value, value) if value is not None else None for value in node.inputs]
    result = edit.insert(
        node,
        node.op_type,
        inputs,
        node.attributes.values(),
        like=output,
        shape=shape[count:],
        name=f"{output.name}.narrow",
    )
    axes, attributes = edit.axes(node, range(count))
    edit.replace(node, "Unsqueeze", [result, *axes], attributes)
    return True


def _has_longer(node: ir.Node, value: ir.Value) -> bool:
    """Tell whether another input of the node has at least as many axes as `value`, and its first axes are not new
    ones."""
    axes = len(shape_of(value) or ())
    return any(
        other is not value and len(shape_of(other) or ()) >= axes and not _new_in_front(other) for other in node.inputs
    )


def _is_number(value: ir.Value | None) -> bool:
    tensor = constant(value)
    return tensor is not None and tensor.size == 1


def _broadcast(shapes: list[Shape | None]) -> Shape | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes):
        return None
    try:
        return broadcast_shapes(known, _unknown)
    except Unknown:
        return None


def _unknown() -> str:
    raise Unknown

"""A weight of integers that is turned into numbers by hand is dequantised.

    Mul(Cast(W), s)                    ->   DequantizeLinear(W, s)
    Mul(Sub(Cast(W), z), s)            ->   DequantizeLinear(W, s, z)
    Reshape(either of these, (n, m))   ->   DequantizeLinear(W, s, z) with a block size

in either order of the factors. Tools that shrink a model write weights so, without an operator for it. The layer that
reads the weight can then hold the integers (idioms/quantised).

Applies to constants: W of 8-bit integers, s of float32 and z of whole numbers in the range of W, each with one number
for all of W, or with one for each place along one axis. z may be cast as well, and W be given its axes by a Reshape. In
the third form W has three axes, of which the Reshape joins two, and s and z have one number for each place but along
the second of these: a block. Nobody else reads a value in between. Not if s or z has more axes than W.

Sound because DequantizeLinear is defined so, and the difference of two such integers has no rounding in float32. The
node gets the version of the operator that has axes, or blocks, whatever the opset of the model is.

In this stage, because simplifying computes small casts of constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, initialiser, sweep
from onnxlift.ir.editing.match import both_orders, drop_unused, is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import static_elements
from onnxlift.stages import step

_INTEGERS = (ir.DataType.INT8, ir.DataType.UINT8)
_WITH_AXES, _WITH_BLOCKS = 13, 21
_REASON = "a quantiser has chosen it for the weight"


@step("dequantised-weights")
def run(model: ir.Model) -> int:
    """Write as DequantizeLinear what turns stored integers into weights; return how many there were."""
    return sweep(model, {"Mul": _visit})


@dataclass
class _Weight:
    """Integers that are turned into numbers: their `value`, the sizes that they get, and the `nodes` in between."""

    value: ir.Value
    sizes: Sequence[int]
    nodes: list[ir.Node]


def _visit(edit: Edit, node: ir.Node) -> None:
    for value, scale in both_orders(node):
        difference = made_by(edit, value, "Sub")
        weight = _integers(edit, value if difference is None else difference.inputs[0])
        if weight is None or scale.dtype != ir.DataType.FLOAT:
            continue
        given = [scale] if difference is None else [scale, difference.inputs[1]]
        arrays = _numbers(edit, weight, given)
        if arrays is None or (difference is not None and not is_private(edit, value)):
            continue
        names = [each.name or "" for each in given if each is not None]
        used = [*([] if difference is None else [difference]), *weight.nodes]
        if _replace(edit, node, weight, names, arrays):
            drop_unused(edit, used)
            return


def _integers(edit: Edit, value: ir.Value | None) -> _Weight | None:
    """Return the integers that `value` is cast from. They may be given other axes before or after that."""
    nodes: list[ir.Node] = []
    sizes: Sequence[int] | None = None
    while value is not None and constant(value) is None and len(nodes) < 2:
        node = made_by(edit, value, "Cast", "Reshape")
        if node is None or not is_private(edit, value) or any(node.op_type == other.op_type for other in nodes):
            return None
        if node.op_type == "Reshape":
            sizes = static_elements(node.inputs[1])
        nodes.append(node)
        value = node.inputs[0]
    tensor = constant(value)
    if value is None or tensor is None or tensor.dtype not in _INTEGERS or all(n.op_type != "Cast" for n in nodes):
        return None
    if len(nodes) == 1:
        sizes = tensor.shape.numpy()
    return None if sizes is None or min(sizes, default=1) < 1 else _Weight(value, sizes, nodes)


def _numbers(edit: Edit, weight: _Weight, given: Sequence[ir.Value | None]) -> list[Array] | None:
    """Return scale, and perhaps zero point, in the types that they are stored in; None if they are no such numbers."""
    tensor = constant(weight.value)
    assert tensor is not None
    arrays: list[Array] = []
    for value, dtype in zip(given, (np.dtype(np.float32), tensor.dtype.numpy()), strict=False):
        cast = made_by(edit, value, "Cast")
        held = constant(value if cast is None else cast.inputs[0])
        if held is None or held.size > tensor.size or (cast is not None and held.dtype not in _INTEGERS):
            return None
        array = held.numpy()
        if not np.array_equal(array.astype(dtype), array):
            return None
        arrays.append(array.astype(dtype))
    return arrays


def _replace(edit: Edit, node: ir.Node, weight: _Weight, names: Sequence[str], arrays: Sequence[Array]) -> bool:
    """Put a DequantizeLinear in the place of the product, if scale and zero point are along one axis, or by blocks."""
    sizes = weight.sizes
    axes = {axis for array in arrays for axis in _axes(array, sizes)}
    if None not in axes and len(axes) < 2 and len(weight.nodes) == 1:
        length = [sizes[axis] for axis in axes if axis is not None]
        steps = [_initialiser(edit, name, np.resize(array, length)) for name, array in zip(names, arrays, strict=True)]
        attributes = [ir.AttrInt64("axis", axis) for axis in axes if axis is not None]
        edit.replace(node, "DequantizeLinear", [weight.value, *steps], attributes).version = _at_least(
            edit, node, _WITH_AXES
        )
        return True
    users = [user for user, _ in node.outputs[0].uses()]
    if len(sizes) != 3 or len(users) != 1 or users[0].op_type != "Reshape" or not is_private(edit, node.outputs[0]):
        return False
    joined = static_elements(users[0].inputs[1])
    axis = next((axis for axis in (0, 1) if _has_blocks(axis, sizes, arrays, joined)), None)
    if axis is None:
        return False
    by_block = [size for place, size in enumerate(sizes) if place != axis + 1]
    whole = [*sizes[:axis], sizes[axis] * sizes[axis + 1], *sizes[axis + 2 :]]
    tensor = constant(weight.value)
    assert tensor is not None
    matrix = edit.constant(weight.value.name or "weight", np.reshape(tensor.numpy(), whole))
    shape = [1 if place == axis + 1 else size for place, size in enumerate(sizes)]
    steps = [
        _initialiser(edit, name, np.reshape(np.broadcast_to(array, shape), by_block))
        for name, array in zip(names, arrays, strict=True)
    ]
    attributes = [ir.AttrInt64("axis", axis), ir.AttrInt64("block_size", sizes[axis + 1])]
    version = _at_least(edit, node, _WITH_BLOCKS)
    edit.replace(users[0], "DequantizeLinear", [matrix, *steps], attributes, named_by=node).version = version
    drop_unused(edit, [node])
    return True


def _at_least(edit: Edit, node: ir.Node, version: int) -> int:
    return max(edit.opset(node), version)


def _has_blocks(axis: int, sizes: Sequence[int], arrays: Sequence[Array], joined: Sequence[int] | None) -> bool:
    """Tell whether the numbers are for blocks along `axis + 1`, which the Reshape joins with the axis before."""
    whole = [*sizes[:axis], sizes[axis] * sizes[axis + 1], *sizes[axis + 2 :]]
    fits = (
        joined is not None and len(joined) == 2 and all(j in (size, -1) for j, size in zip(joined, whole, strict=True))
    )
    shape = [1 if place == axis + 1 else size for place, size in enumerate(sizes)]
    return fits and all(array.shape == tuple(shape) or array.size == 1 for array in arrays)


def _initialiser(edit: Edit, name: str, array: Array) -> ir.Value:
    return initialiser(edit.graph, edit.names.fresh(name), np.ascontiguousarray(array), _REASON)


def _axes(array: Array, sizes: Sequence[int]) -> list[int | None]:
    """Return the axes along which an array that is broadcast to `sizes` has several numbers; None if it is not."""
    offset = len(sizes) - array.ndim
    if offset < 0:
        return [None]
    places = [place for place, size in enumerate(array.shape) if size != 1]
    return [offset + place if array.shape[place] == sizes[offset + place] else None for place in places]

"""Instance normalisation of groups of channels is group normalisation, which ONNX lacked until opset 18.

    r = InstanceNormalization(Reshape(x, (0, groups, -1)), ones, zeros)
    Reshape(r, Shape(x))                  ->   GroupNorm(x, num_groups=groups)
    Reshape(r, (0, channels, -1))         ->   GroupNorm(Reshape(x, (0, channels, -1)), num_groups=groups)
    GroupNorm(x) * weight + bias          ->   GroupNorm(x, weight, bias)
    GroupNorm(x) + 0                      ->   GroupNorm(x), as the older exporter writes a layer without weights
    GroupNorm(x) * ones + zeros           ->   GroupNorm(x), as the newer one does, if it notes that it made both
    InstanceNormalization(x, ones, zeros) * weight + bias   ->   GroupNorm(x, weight, bias, num_groups=channels)

weight and bias are constants with one number for each channel and axes of size 1 after it, or an Unsqueeze gives them
these axes. A weight without a bias stays outside, and so does a bias without a weight: PyTorch's layer has both. With
as many groups as channels, there is nothing to reshape (the last rule).

It applies if the shapes prove two things. The first reshape splits the channels of x into groups. The second reshape
gives back the shape of x, or at least its batch and channels: then it is two reshapes in one, and the part that is not
for the norm is done before the norm.

Not if the instance normalisation has a scale or a bias of its own, not for groups of single elements, which PyTorch
refuses in a batch of one, and not if another node reads a value in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, both_orders, drop_unused, is_private, made_by
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import elements_of, shape_of
from onnxlift.ir.inference.symbolic import product
from onnxlift.ir.origin.exported import Program, read_program
from onnxlift.ir.origin.tensors import folded_from
from onnxlift.stages import step


@step("group-norm")
def run(model: ir.Model) -> int:
    """Recognise group normalisation; return how many rewrites that took."""
    return sweep(model, {"Reshape": _normalised, "Add": partial(_affine, program=read_program(model.graph))})


def _normalised(edit: Edit, node: ir.Node) -> None:
    norm = made_by(edit, node.inputs[0], "InstanceNormalization")
    split = made_by(edit, norm.inputs[0], "Reshape") if norm is not None else None
    if norm is None or split is None or not is_private(edit, node.inputs[0]) or not is_private(edit, norm.inputs[0]):
        return
    x, epsilon = split.inputs[0], attribute(norm, "epsilon", 1e-5)
    shape, groups = shape_of(x), shape_of(norm.inputs[0])
    result = shape_of(node.outputs[0])
    if x is None or shape is None or groups is None or result is None or len(shape) < 2 or epsilon is None:
        return
    if shape != result and (shape[:2] != result[:2] or not _names_sizes(node)):
        near_miss(node, "the result does not have the shape of what is normalised")
        return
    if groups[0] != shape[0] or not isinstance(groups[1], int) or not isinstance(shape[1], int):
        near_miss(node, "the number of groups or channels is not known, or the batch is divided")
        return
    if not groups[1] or shape[1] % groups[1] or product(groups[2:]) == 1:
        near_miss(node, "the channels cannot be divided into the groups, or a group has one element")
        return
    if not _is_all(norm.inputs[1], 1) or not _is_all(norm.inputs[2], 0):
        near_miss(node, "the groups have weights: not all scales are 1, or not all shifts 0")
        return
    attributes = [ir.AttrInt64("num_groups", groups[1]), ir.AttrFloat32("epsilon", epsilon)]
    if shape != result:
        name = f"{node.outputs[0].name}.reshaped"
        x = edit.insert(node, "Reshape", [x, node.inputs[1]], node.attributes.values(), like=x, shape=result, name=name)
    edit.replace(node, "GroupNorm", [x], attributes, domain=DOMAIN)
    drop_unused(edit, [norm, split])


def _names_sizes(reshape: ir.Node) -> bool:
    """Tell whether a Reshape spells out the sizes that it wants: at most the first is a 0, which copies the input's
    size.
    """
    sizes = elements_of(reshape.inputs[1])
    return sizes is not None and None not in sizes and 0 not in sizes[1:]


def _affine(edit: Edit, node: ir.Node, program: Program | None) -> None:
    for scaled, bias in both_orders(node):
        if _is_all(bias, 0) and _without_addition(edit, node, scaled):
            return
        multiply = made_by(edit, scaled, "Mul")
        if multiply is None or not is_private(edit, scaled):
            continue
        for value, weight in both_orders(multiply):
            found = _without_weights(edit, value)
            if found is None or not is_private(edit, value):
                continue
            norm, attributes = found
            stored = [_by_channel(edit, factor, value) for factor in (weight, bias)]
            if None not in stored:
                is_plain = _is_all(weight, 1) and _is_all(bias, 0) and _are_made_up((weight, bias), program)
                inputs = [norm.inputs[0], *([] if is_plain else stored)]
                edit.replace(node, "GroupNorm", inputs, attributes, domain=DOMAIN, named_by=multiply)
                unsqueezed = (made_by(edit, factor, "Unsqueeze") for factor in (weight, bias))
                drop_unused(edit, [multiply, norm, *filter(None, unsqueezed)])
                return


def _without_addition(edit: Edit, node: ir.Node, value: ir.Value) -> bool:
    """Replace `GroupNorm(x) + 0` by `GroupNorm(x)`; return whether `value` is such a normalisation."""
    norm = made_by(edit, value, "GroupNorm", domain=DOMAIN)
    if norm is None or not is_private(edit, value) or shape_of(value) != shape_of(node.outputs[0]):
        return False
    edit.replace(node, "GroupNorm", norm.inputs, norm.attributes.values(), domain=DOMAIN, named_by=norm)
    drop_unused(edit, [norm])
    return True


def _without_weights(edit: Edit, value: ir.Value) -> tuple[ir.Node, list[ir.Attr]] | None:
    """Return the node that makes `value` if it only normalises, with its attributes as a group normalisation.

    It is a GroupNorm without weights, or an instance normalisation, which has a group for each channel.
    """
    group = made_by(edit, value, "GroupNorm", domain=DOMAIN)
    if group is not None:
        return (group, [*group.attributes.values()]) if len(group.inputs) == 1 else None
    norm, shape = made_by(edit, value, "InstanceNormalization"), shape_of(value)
    if norm is None or shape is None or not _is_all(norm.inputs[1], 1) or not _is_all(norm.inputs[2], 0):
        return None
    epsilon = attribute(norm, "epsilon", 1e-5)
    if epsilon is None or all(size == 1 for size in shape[2:]) or not isinstance(shape[1], int) or not shape[1]:
        return None
    return norm, [ir.AttrInt64("num_groups", shape[1]), ir.AttrFloat32("epsilon", epsilon)]


def _is_all(value: ir.Value | None, expected: float) -> bool:
    tensor = constant(value)
    return tensor is not None and bool((tensor.numpy() == expected).all())


def _are_made_up(values: Iterable[ir.Value], program: Program | None) -> bool:
    """Tell whether the newer exporter made these values itself: it notes their sources, and none is a parameter."""
    sources = [folded_from(value) for value in values]
    return program is not None and all(names and program.names.isdisjoint(names) for names in sources)


def _by_channel(edit: Edit, value: ir.Value, x: ir.Value) -> ir.Value | None:
    """Return the constant with one number for each channel of x that `value` is, or is with further axes of size 1."""
    shape, of_x = shape_of(value), shape_of(x)
    if shape is None or of_x is None:
        return None
    aligned = (1,) * (len(of_x) - len(shape)) + shape
    if aligned != (1, of_x[1], *(1 for _ in of_x[2:])):
        return None
    unsqueeze = made_by(edit, value, "Unsqueeze")
    stored = unsqueeze.inputs[0] if unsqueeze is not None else value
    return stored if constant(stored) is not None else None

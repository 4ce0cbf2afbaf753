"""Rules on operands that stand beside the main one: scales, biases, slopes, indices and updates fit it."""

from __future__ import annotations

from collections.abc import Iterable

from onnxlift.ir.graph.shapes import Shape, shape_of

from .rule import Subject, rule, shape_text

_BESIDE = {"Gemm": (2,), "LayerNormalization": (1, 2), "PRelu": (1,), "RMSNormalization": (1,)}


@rule("OL076", "one-way-broadcast", *_BESIDE, about_sizes=True)
def what_stands_beside_fits_the_result(n: Subject) -> Iterable[str]:
    """A scale, a bias or a slope is broadcast to the result, and never the other way round."""
    target = shape_of(n.node.outputs[0])
    if target is None or n.opset < 7:
        return  # there, a Gemm says how it is broadcast, and a PRelu has a slope for each channel
    for index in _BESIDE[n.node.op_type]:
        shape = shape_of(n.inputs[index]) if n.has(index) else None
        if shape is not None and not _goes_to(shape, target):
            name = n.schema.inputs[index].name if n.schema is not None else f"number {index}"
            yield f"its input {name} is {shape_text(shape)}, which cannot be broadcast to {shape_text(target)}."


def _goes_to(shape: Shape, target: Shape) -> bool:
    pairs = zip(reversed(shape), reversed(target), strict=False)
    fit = all(not isinstance(a, int) or not isinstance(b, int) or a in (1, b) for a, b in pairs)
    return fit and len(shape) <= len(target)


@rule("OL077", "element-indices", "GatherElements", "Scatter", "ScatterElements", about_sizes=True)
def indices_of_elements_have_the_axes_of_the_data(n: Subject) -> Iterable[str]:
    """The indices of a GatherElements or ScatterElements have the data's axes, and updates the sizes of the indices."""
    data, indices = n.shape(0), n.shape(1)
    if len(data) != len(indices):
        yield f"its data is {shape_text(data)} and its indices are {shape_text(indices)}: both need the same axes."
    elif n.has(2):
        updates = n.shape(2)
        pairs = zip(indices, updates, strict=False)
        if len(indices) != len(updates) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
            yield f"its indices are {shape_text(indices)} and its updates {shape_text(updates)}: both need one shape."


@rule("OL086", "group-parameters", "GroupNormalization", about_sizes=True)
def groups_divide_the_channels(n: Subject) -> Iterable[str]:
    """The groups of a GroupNormalization divide its channels; it has a scale and a bias for each channel.

    Before opset 21, it has them for each group."""
    shape, groups = n.shape(), n.attribute("num_groups")
    channels = shape[1] if len(shape) > 1 else None
    if isinstance(channels, int) and groups > 0 and channels % groups:
        yield f"its input {shape_text(shape)} has {channels} channels, which are no multiple of {groups} groups."
        return
    wanted, of_what = (channels, "channels") if n.opset >= 21 else (groups, "groups")
    for index, name in ((1, "scale"), (2, "bias")):
        vector = n.shape(index)
        is_other = isinstance(wanted, int) and len(vector) == 1 and isinstance(vector[0], int) and vector[0] != wanted
        if len(vector) != 1 or is_other:
            yield f"its {name} is {shape_text(vector)}, and it has {'?' if wanted is None else wanted} {of_what}."
            return

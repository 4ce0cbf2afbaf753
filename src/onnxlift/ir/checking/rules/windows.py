"""Rules on convolutions and poolings: kernel, strides, dilations, pads and channels fit the input."""

from __future__ import annotations

from collections.abc import Iterable

from onnxlift.ir.graph.shapes import Shape
from onnxlift.ir.inference.node_view import Unknown

from .rule import Subject, rule, shape_text

_WEIGHT = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3, "DeformConv": 1}
_POOLS = ("AveragePool", "MaxPool", "LpPool")
_LARGEST = 2**31 - 1


@rule("OL080", "window-axes", *_WEIGHT, *_POOLS, about_sizes=True)
def a_window_has_a_number_for_each_spatial_axis(n: Subject) -> Iterable[str]:
    """Kernel, strides and dilations have a number for each spatial axis, and pads have two."""
    shape = n.shape()
    count = len(shape) - 2
    if count < 1:
        yield f"its input is {shape_text(shape)}, and it takes (batch, channels, ...) with one spatial axis or more."
        return
    for name, wanted in (("kernel_shape", count), ("strides", count), ("dilations", count), ("pads", 2 * count)):
        numbers = n.attribute(name, None)
        if numbers is not None and len(numbers) != wanted:
            yield f"its attribute {name} has {len(numbers)} numbers; for {count} spatial axes it must have {wanted}."


@rule("OL081", "window-size", *_WEIGHT, *_POOLS, about_sizes=True)
def a_window_is_of_a_size_that_can_be(n: Subject) -> Iterable[str]:
    """Kernel, strides, dilations and pads are below 2**31, which is beyond every tensor."""
    for name in ("kernel_shape", "strides", "dilations", "pads", "output_padding", "output_shape"):
        numbers = n.attribute(name, None)
        if numbers is not None and any(abs(number) > _LARGEST for number in numbers):
            yield f"its attribute {name} is {shape_text(numbers)}, which is larger than any tensor."


@rule("OL082", "kernel-fits", "Conv", "ConvInteger", "QLinearConv", *_POOLS, about_sizes=True)
def the_kernel_fits_into_the_input(n: Subject) -> Iterable[str]:
    """The kernel fits into the padded input, or is so little larger that there are no windows at all."""
    shape, kernel = n.shape(), _kernel(n)
    count = len(shape) - 2
    if n.setting("auto_pad") not in ("NOTSET", "VALID") or len(kernel) != count:
        return
    strides, dilations = (n.attribute(name, None) or (1,) * count for name in ("strides", "dilations"))
    pads = (n.attribute("pads", None) if n.setting("auto_pad") == "NOTSET" else None) or (0,) * (2 * count)
    if not len(strides) == len(dilations) == count or len(pads) != 2 * count:
        return
    for i, (size, width) in enumerate(zip(shape[2:], kernel, strict=True)):
        if isinstance(size, int) and isinstance(width, int) and size > 0:
            reach, room = dilations[i] * (width - 1) + 1, size + pads[i] + pads[i + count]
            if (room - reach) // strides[i] + 1 < 0:
                yield f"its kernel covers {reach} elements of spatial axis {i}, and the padded input has {room}."


def _kernel(n: Subject) -> Shape:
    given: Shape | None = n.attribute("kernel_shape", None)
    if given:
        return given
    if n.node.op_type not in _WEIGHT:
        raise Unknown
    return n.shape(_WEIGHT[n.node.op_type])[2:]


@rule("OL083", "channels", *_WEIGHT, about_sizes=True)
def the_weight_fits_the_channels(n: Subject) -> Iterable[str]:
    """The weight of a convolution has the rank of its input, and its channels, times the groups, are the input's."""
    shape, weight, groups = n.shape(), n.shape(_WEIGHT[n.node.op_type]), n.attribute("group", 1)
    if len(shape) != len(weight) or len(shape) < 3:
        sizes = f"its input is {shape_text(shape)} and its weight {shape_text(weight)}"
        yield f"{sizes}: both need the same number of axes, 3 or more."
        return
    kernel = n.attribute("kernel_shape", None)
    if kernel and any(isinstance(b, int) and a != b for a, b in zip(kernel, weight[2:], strict=False)):
        yield f"its attribute kernel_shape is {shape_text(kernel)}, and its weight is {shape_text(weight)}."
    channels, (split, taken) = shape[1], weight[:2]
    if n.node.op_type == "ConvTranspose":
        taken, groups_taken = split, 1
    else:
        groups_taken = groups
    if isinstance(channels, int) and isinstance(taken, int) and channels != taken * groups_taken:
        sizes = f"a weight {shape_text(weight)} in {groups} groups"
        yield f"its input has {channels} channels, and {sizes} takes {taken * groups_taken}."
    elif isinstance(split, int) and groups > 0 and split % groups:
        yield f"its {split} channels cannot be split into {groups} groups."


_BIAS = {"Conv": 2, "ConvTranspose": 2, "QLinearConv": 8, "DeformConv": 3}


@rule("OL084", "bias-size", *_BIAS, typed=True)
def the_bias_has_a_number_for_each_channel(n: Subject) -> Iterable[str]:
    """The bias of a convolution is a vector with a number for each channel that it gives."""
    index = _BIAS[n.node.op_type]
    if not n.has(index):
        return
    bias, weight, groups = n.shape(index), n.shape(_WEIGHT[n.node.op_type]), n.attribute("group", 1)
    if len(weight) < 3:
        return  # another rule tells
    channels = weight[0] if n.node.op_type != "ConvTranspose" else weight[1]
    if isinstance(channels, int) and n.node.op_type == "ConvTranspose":
        channels *= groups
    if len(bias) != 1 or (isinstance(bias[0], int) and isinstance(channels, int) and bias[0] != channels):
        yield f"its bias is {shape_text(bias)}, and it gives {shape_text((channels,))[1:-2]} channels."


@rule("OL085", "channel-parameters", "BatchNormalization", "InstanceNormalization", about_sizes=True)
def a_norm_has_a_number_for_each_channel(n: Subject) -> Iterable[str]:
    """The scale, bias, mean and variance of a norm are vectors with a number for each channel."""
    if n.opset < 9 and not n.attribute("spatial", 1):
        return  # it has a number for each place
    shape = _known_shape(n, 0)
    channels = None if shape is None or not shape else shape[1] if len(shape) > 1 else 1
    whose = "" if shape is None else f"its input {shape_text(shape)} has {channels} channels"
    for index in range(1, len(n.inputs)):
        vector = _known_shape(n, index)
        if vector is None:
            continue
        size = vector[0] if len(vector) == 1 else None
        is_other = isinstance(size, int) and isinstance(channels, int) and size != channels
        given = f"its parameter number {index} is {shape_text(vector)}"
        if len(vector) != 1 or is_other:
            yield f"{whose}, and {given}." if whose else f"{given}."
            return
        if not isinstance(channels, int) and isinstance(size, int):
            channels, whose = size, given  # the other parameters have as many numbers as this one


def _known_shape(n: Subject, index: int) -> Shape | None:
    try:
        return n.shape(index)
    except Unknown:
        return None

"""Rules on sizes: operands fit each other, and results can exist."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from math import prod

from onnxlift.ir.graph.shapes import Shape, shape_of, static_elements
from onnxlift.ir.inference.node_view import Unknown
from onnxlift.ir.inference.shape_rules import BROADCASTING

from .rule import Subject, rule, shape_text

_LARGEST = 2**63 - 1


@rule("OL060", "broadcast", *sorted(BROADCASTING - {"Pow"}), "Pow", about_sizes=True)
def operands_can_be_broadcast(n: Subject) -> Iterable[str]:
    """The operands of an elementwise operator can be broadcast: counted from the end, sizes are equal or 1."""
    if n.opset < 7:
        return  # there, `axis` aligns the second operand with the first
    shapes = [n.shape(index) for index in range(len(n.inputs))]
    result: Shape = ()
    for shape in shapes:
        joined = _broadcast(result, shape)
        if joined is None:
            yield f"its operands {' and '.join(map(shape_text, shapes))} cannot be broadcast to one shape."
            return
        result = joined


def _broadcast(a: Shape, b: Shape) -> Shape | None:
    sizes = []
    for x, y in zip_longest(reversed(a), reversed(b), fillvalue=1):
        if isinstance(x, int) and isinstance(y, int) and x != y and 1 not in (x, y):
            return None
        sizes.append(y if x == 1 or (isinstance(y, int) and y != 1) else x)
    return tuple(reversed(sizes))


@rule("OL061", "matrix-sizes", "MatMul", "Gemm", "MatMulInteger", "QLinearMatMul", about_sizes=True)
def matrices_can_be_multiplied(n: Subject) -> Iterable[str]:
    """The columns of the first matrix are as many as the rows of the second."""
    op = n.node.op_type
    a, b = n.shape(0), n.shape(3 if op == "QLinearMatMul" else 1)
    if op == "Gemm":
        if len(a) != 2 or len(b) != 2:
            yield f"its operands are {shape_text(a)} and {shape_text(b)}, and Gemm takes two matrices."
            return
        inner = a[0 if n.setting("transA") else 1], b[1 if n.setting("transB") else 0]
    elif not a or not b:
        yield "one of its operands has no axes, and a matrix product needs at least one."
        return
    else:
        inner = a[-1], b[-2] if len(b) > 1 else b[-1]
    if isinstance(inner[0], int) and isinstance(inner[1], int) and inner[0] != inner[1]:
        yield f"it multiplies {shape_text(a)} by {shape_text(b)}, where {inner[0]} and {inner[1]} must be equal."
    elif op != "Gemm" and _broadcast(a[:-2], b[:-2]) is None:
        yield f"the batches of {shape_text(a)} and {shape_text(b)} cannot be broadcast to one shape."


@rule("OL062", "concat-sizes", "Concat", about_sizes=True)
def joined_tensors_agree_but_for_one_axis(n: Subject) -> Iterable[str]:
    """Tensors that are joined have the same sizes, but for the axis along which they are joined."""
    shapes = [n.shape(index) for index in range(len(n.inputs))]
    count = len(shapes[0])
    axis = n.axis("axis", count, 1)
    for shape in shapes[1:]:
        is_other = len(shape) != count or any(
            isinstance(a, int) and isinstance(b, int) and a != b and i != axis
            for i, (a, b) in enumerate(zip(shapes[0], shape, strict=False))
        )
        if is_other:
            joined = f"{shape_text(shapes[0])} and {shape_text(shape)}"
            yield f"it joins {joined} along axis {axis}, and the other sizes differ."
            return


@rule("OL063", "reshape-sizes", "Reshape", about_sizes=True)
def a_reshape_keeps_the_number_of_elements(n: Subject) -> Iterable[str]:
    """The target of a Reshape has at most one -1, no other negative size, and as many elements as the input."""
    target = n.elements(1) if n.has(1) else n.attribute("shape")
    if target.count(-1) > 1:
        yield f"its target {shape_text(target)} has -1 more than once: only one size can be left open."
        return
    if any(isinstance(size, int) and size < -1 for size in target):
        yield f"its target {shape_text(target)} has a negative size other than -1."
        return
    shape = n.shape()
    keeps = not n.attribute("allowzero", 0)
    if keeps and any(size == 0 and i >= len(shape) for i, size in enumerate(target)):
        yield f"its target {shape_text(target)} keeps a size, by 0, that its input {shape_text(shape)} does not have."
        return
    sizes = [shape[i] if size == 0 and keeps else size for i, size in enumerate(target)]
    numbers = [size for size in sizes if isinstance(size, int) and size != -1]
    if len(numbers) < len(sizes) - sizes.count(-1) or not all(isinstance(size, int) for size in shape):
        return
    have, want = prod(size for size in shape if isinstance(size, int)), prod(numbers)
    if have != want if -1 not in sizes else (have % want != 0 if want else have != 0):
        yield f"its input {shape_text(shape)} has {have:,} elements, which do not fit {shape_text(target)}."


@rule("OL064", "expand-sizes", "Expand", about_sizes=True)
def an_expanded_tensor_fits_the_target(n: Subject) -> Iterable[str]:
    """The input of an Expand and its target can be broadcast, and no size is negative."""
    target = n.elements(1)
    if any(isinstance(size, int) and size < 0 for size in target):
        yield f"its target {shape_text(target)} has a negative size."
    elif _broadcast(n.shape(), tuple("?" if size is None else size for size in target)) is None:
        yield f"its input {shape_text(n.shape())} cannot be broadcast to {shape_text(target)}."


@rule("OL065", "tile-repeats", "Tile", about_sizes=True)
def a_tile_has_a_count_for_each_axis(n: Subject) -> Iterable[str]:
    """A Tile repeats each axis, none of them a negative number of times."""
    if n.opset < 6:
        return
    repeats, count = n.elements(1), len(n.shape())
    if len(repeats) != count:
        yield f"it has {len(repeats)} repeats, and its input has {count} axes."
    elif any(isinstance(times, int) and times < 0 for times in repeats):
        yield f"its repeats are {shape_text(repeats)}, and none can be negative."


@rule("OL066", "negative-size", "ConstantOfShape", about_sizes=True)
def a_filled_tensor_has_no_negative_size(n: Subject) -> Iterable[str]:
    """The sizes of a ConstantOfShape are not negative."""
    sizes = n.elements(0)
    if any(isinstance(size, int) and size < 0 for size in sizes):
        yield f"its sizes are {shape_text(sizes)}, and none can be negative."


@rule("OL067", "range-bounds", "Range", about_sizes=True)
def the_bounds_of_a_range_are_numbers(n: Subject) -> Iterable[str]:
    """The start, the limit and the step of a Range are single numbers. (ONNX Runtime takes a vector of one.)"""
    for index, name in enumerate(("start", "limit", "delta")):
        try:
            shape = n.shape(index)
        except Unknown:
            continue
        if len(shape) > 1 or any(isinstance(size, int) and size != 1 for size in shape):
            yield f"its {name} is {shape_text(shape)}, and it takes a single number."


@rule("OL068", "range-step", "Range", about_sizes=True)
def a_range_has_a_step(n: Subject) -> Iterable[str]:
    """The step of a Range is not 0."""
    if static_elements(n.inputs[2]) == (0,):
        yield "its step is 0, so that it would never end."


@rule("OL069", "split-sizes", "Split", about_sizes=True)
def the_parts_of_a_split_make_the_whole(n: Subject) -> Iterable[str]:
    """A Split gives as many parts as it has sizes; these are not negative, and their sum is the size of the axis."""
    shape = n.shape()
    total = shape[n.axis("axis", len(shape), 0)]
    sizes = static_elements(n.inputs[1]) if n.has(1) else n.attribute("split", None)
    outputs = len(n.node.outputs)
    if sizes is None:
        if not n.has(1) and n.opset < 18 and isinstance(total, int) and total % outputs:
            yield f"it splits {total} into {outputs} equal parts, which leaves a rest."
        return
    if len(sizes) != outputs:
        yield f"it has {len(sizes)} sizes, and {outputs} outputs."
    elif min(sizes, default=0) < 0 or (isinstance(total, int) and sum(sizes) != total):
        yield f"its parts {list(sizes)[:16]} do not make up the {total} elements of the axis."


@rule("OL070", "squeeze-sizes", "Squeeze", about_sizes=True)
def only_axes_of_one_are_removed(n: Subject) -> Iterable[str]:
    """An axis that a Squeeze removes has the size 1."""
    shape = n.shape()
    for axis in n.ints("axes", 1, ()):
        if -len(shape) <= axis < len(shape) and isinstance(shape[axis], int) and shape[axis] != 1:
            yield f"it removes axis {axis} of {shape_text(shape)}, whose size is {shape[axis]} and not 1."


@rule("OL071", "pad-widths", "Pad", about_sizes=True)
def a_pad_has_two_widths_for_each_axis(n: Subject) -> Iterable[str]:
    """A Pad has a width before and one after each axis that it pads."""
    widths = len(n.elements(1)) if n.has(1) else len(n.attribute("pads"))
    axes = n.shape(3)[0] if n.has(3) else len(n.shape())
    if isinstance(axes, int) and widths != 2 * axes:
        yield f"it has {widths} widths, and pads {axes} axes: it needs {2 * axes}, first all before, then all after."


@rule("OL072", "depth-blocks", "DepthToSpace", "SpaceToDepth", about_sizes=True)
def blocks_fit_the_input(n: Subject) -> Iterable[str]:
    """The channels of a DepthToSpace are whole blocks; so are the height and the width of a SpaceToDepth."""
    shape, block = n.shape(), n.attribute("blocksize")
    if len(shape) != 4:
        yield f"its input is {shape_text(shape)}, and it takes (batch, channels, height, width)."
        return
    sizes = (shape[1],) if n.node.op_type == "DepthToSpace" else shape[2:]
    wanted = block * block if n.node.op_type == "DepthToSpace" else block
    if any(isinstance(size, int) and size % wanted for size in sizes):
        yield f"its input is {shape_text(shape)}, and {' or '.join(map(str, sizes))} is no multiple of {wanted}."


@rule("OL073", "top-k", "TopK", about_sizes=True)
def k_is_at_most_the_number_of_elements(n: Subject) -> Iterable[str]:
    """The k of a TopK is not negative, and at most the size of its axis."""
    shape = n.shape()
    k = static_elements(n.inputs[1]) if n.has(1) else (n.attribute("k"),)
    size = shape[n.axis("axis", len(shape), -1)]
    if k is not None and len(k) == 1 and (k[0] < 0 or (isinstance(size, int) and k[0] > size)):
        yield f"its k is {k[0]}, and the axis has {size} elements."


@rule("OL074", "index-range", "Gather", about_sizes=True)
def known_indices_are_in_range(n: Subject) -> Iterable[str]:
    """An index that is known is one of the axis."""
    shape = n.shape()
    size = shape[n.axis("axis", len(shape), 0)]
    indices = static_elements(n.inputs[1])
    if isinstance(size, int) and indices is not None:
        outside = [index for index in indices if not -size <= index < size]
        if outside:
            yield f"its index {outside[0]} is outside the {size} elements of the axis."


@rule("OL075", "size-overflow", about_sizes=True)
def results_have_a_size_that_can_be(n: Subject) -> Iterable[str]:
    """No output is so large that its elements cannot be counted in 64 bits."""
    for value in n.node.outputs:
        shape = shape_of(value)
        if shape is None or (all(isinstance(size, int) and size < 2**20 for size in shape) and len(shape) < 4):
            continue
        known = prod(size for size in shape if isinstance(size, int) and size)
        if known > _LARGEST:
            yield f"its output would be {shape_text(shape)}, which is more elements than 64 bits can count."

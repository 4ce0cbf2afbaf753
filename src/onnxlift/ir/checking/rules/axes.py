"""Rules on axes: each one that a node names is an axis of its input.

Those on the number of axes hold in branches and loops as well, which may never run: ONNX Runtime wants that, too."""

from __future__ import annotations

from collections.abc import Iterable

from onnxlift.ir.graph.shapes import static_elements
from onnxlift.ir.inference.node_view import Unknown

from .rule import Subject, rule

_ONE = (
    "ArgMax ArgMin Compress Concat Gather GatherElements Hardmax LayerNormalization LogSoftmax LpNormalization "
    "RMSNormalization Scatter ScatterElements Softmax Split SplitToSequence TopK"
).split()
_REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
).split()


@rule("OL050", "axis-range", *_ONE, typed=True)
def the_axis_is_one_of_the_input(n: Subject) -> Iterable[str]:
    """The attribute `axis` is between -r and r - 1 for an input with r axes."""
    axis, count = n.setting("axis"), len(n.shape())
    # A scalar counts as a vector of one element for those that flatten their input up to the axis.
    if isinstance(axis, int) and not -max(count, 1) <= axis < max(count, 1) and not _flattens_all(n, axis, count):
        yield f"its axis is {axis}, and its input has {_axes(count)}."


def _flattens_all(n: Subject, axis: int, count: int) -> bool:
    return n.node.op_type in ("Softmax", "LogSoftmax", "Hardmax") and n.opset < 13 and axis == count


@rule("OL050", "axis-range", "Flatten", typed=True)
def the_axis_of_a_flatten_is_one_or_the_end(n: Subject) -> Iterable[str]:
    """The axis of a Flatten is between -r and r, for an input with r axes."""
    axis, count = n.setting("axis"), len(n.shape())
    if isinstance(axis, int) and not -count <= axis <= count:
        yield f"its axis is {axis}, and its input has {_axes(count)}."


@rule("OL050", "axis-range", *_REDUCTIONS, "Squeeze", typed=True)
def the_axes_are_those_of_the_input(n: Subject) -> Iterable[str]:
    """Axes that are reduced or removed are axes of the input, each named once."""
    count = len(n.shape())
    yield from _check(n.ints("axes", 1, ()), count, f"its input has {_axes(count)}")


@rule("OL050", "axis-range", "Pad", typed=True)
def the_padded_axes_are_those_of_the_input(n: Subject) -> Iterable[str]:
    """Axes that are padded are axes of the input, each named once."""
    count = len(n.shape())
    yield from _check(n.ints("axes", 3, ()), count, f"its input has {_axes(count)}")


@rule("OL050", "axis-range", "Unsqueeze", typed=True)
def the_axes_are_those_of_the_output(n: Subject) -> Iterable[str]:
    """Axes that are inserted are axes of the output, each named once."""
    axes = n.ints("axes", 1)
    count = len(n.shape()) + len(axes)
    yield from _check(axes, count, f"its output has {_axes(count)}")


@rule("OL050", "axis-range", "CumSum", "OneHot", typed=True)
def the_axis_that_is_an_input_exists(n: Subject) -> Iterable[str]:
    """The axis of a CumSum, or of a OneHot (which adds one), exists."""
    count = len(n.shape())
    if n.node.op_type == "CumSum":
        axes = n.ints("axis", 1)
    else:
        axes, count = (n.setting("axis"),), count + 1
    if len(axes) == 1 and not -count <= axes[0] < count:
        yield f"its axis is {axes[0]}, and there are {_axes(count)}."


@rule("OL051", "permutation-length", "Transpose", typed=True)
def a_permutation_has_all_axes(n: Subject) -> Iterable[str]:
    """The `perm` of a Transpose has as many numbers as the input has axes."""
    axes, count = n.setting("perm"), len(n.shape())
    if axes is not None and len(axes) != count:
        yield f"its attribute perm has {len(axes)} numbers, and its input has {_axes(count)}."


@rule("OL052", "index-depth", "GatherND", "ScatterND", typed=True)
def indices_name_axes_of_the_data(n: Subject) -> Iterable[str]:
    """The last axis of the indices of a GatherND or a ScatterND is as long as there are axes to index, or shorter."""
    data, indices = n.shape(), n.shape(1)
    batch = n.setting("batch_dims") if n.node.op_type == "GatherND" else 0
    if not data or not indices:
        yield f"its data has {_axes(len(data))} and its indices have {_axes(len(indices))}: both need one or more."
    elif isinstance(indices[-1], int) and indices[-1] + (batch or 0) > len(data):
        yield f"its indices name {indices[-1]} axes each, and its data has {_axes(len(data))}."


@rule("OL053", "slice-bounds", "Slice", about_sizes=True)
def a_slice_has_bounds_for_each_axis(n: Subject) -> Iterable[str]:
    """A Slice has as many starts as ends, axes and steps; its axes exist, and no step is 0."""
    names = ("starts", "ends", "axes", "steps")
    lengths = {name: _length(n, name, index) for index, name in enumerate(names, 1)}
    known = {name: length for name, length in lengths.items() if length is not None}
    if len(set(known.values())) > 1:
        counts = ", ".join(f"{length} {name}" for name, length in known.items())
        yield f"it has {counts}: there must be as many of each."
        return
    if n.has(4) and 0 in (static_elements(n.inputs[4]) or ()):
        yield "one of its steps is 0."
    if n.has(3) or "axes" in n.node.attributes:
        count = len(n.shape())
        yield from _check(n.ints("axes", 3), count, f"its input has {_axes(count)}")


def _length(n: Subject, name: str, index: int) -> int | None:
    """Return how many starts, ends, axes or steps there are; None if there are none, or it is not known."""
    try:
        if n.has(index):
            shape = n.shape(index)
            return shape[0] if len(shape) == 1 and isinstance(shape[0], int) else None
        given = n.attribute(name, None)
        return None if given is None else len(given)
    except Unknown:
        return None


def _check(axes: Iterable[int], count: int, what: str) -> Iterable[str]:
    axes = tuple(axes)
    outside = [axis for axis in axes if not -count <= axis < count]
    if outside:
        yield f"its axes name {outside[0]}, and {what}."
    elif len({axis % count for axis in axes}) < len(axes):
        yield f"its axes are {list(axes)}, which name one of them twice."


def _axes(count: int) -> str:
    return "no axes" if count == 0 else "1 axis" if count == 1 else f"{count} axes"

"""Resize, spelled out axis by axis where the older one lacks a use of it.

Every mode is separable. For each axis, the places that the result reads are computed, then the elements around them are
gathered, weighted and added; or only gathered, if it is the nearest that counts. So an element that is not read cannot
spread a NaN.

Coordinates are computed in float, as runtimes do: their rounding decides which of two elements is nearest. Linear and
cubic interpolation of integers is refused, since runtimes round it in different ways; and so is a crop
(`tf_crop_and_resize`), which no case has needed yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.schema import attributes_of

from ..spelling import INT64, count_up, reduce, size_of, unsqueeze
from ..step import Step, Value
from .sampling import polynomial

D = ir.DataType
F = D.FLOAT


def resized_axis_by_axis(s: Step) -> Value:
    """Return the result of a Resize of opset 13 or newer."""
    options = attributes_of(s.node, s.old)
    X, _, scales, sizes = [*s.node.inputs, None, None, None][:4]
    assert X is not None
    rank, dtype, mode = s.rank(X), s.dtype(X), options["mode"]
    coordinates = options["coordinate_transformation_mode"]
    if coordinates == "tf_crop_and_resize":
        s.refuse("a crop with antialiasing or a kept aspect ratio is not known before opset 18")
    if mode != "nearest" and dtype not in (D.FLOAT, D.DOUBLE, D.FLOAT16, D.BFLOAT16):
        s.refuse("interpolated integers are rounded in different ways by different runtimes")
    axes = [axis % rank for axis in options.get("axes") or range(rank)]
    inner = dtype if mode == "nearest" or dtype == D.DOUBLE else F
    x = s.cast(X, inner)
    for goal in _goals(s, X, axes, scales, sizes, options.get("keep_aspect_ratio_policy") or "stretch"):
        place = _places(s, goal, coordinates)
        if mode == "nearest":
            x = s.Gather(x, _nearest(s, goal, place, options["nearest_mode"]), axis=goal.axis)
        else:
            x = _interpolated(s, x, goal, place, rank, inner, options)
    return s.cast(x, dtype) if x is not X else s.Identity(x)


@dataclass(frozen=True)
class _Goal:
    """An axis that is resized: all are lists of one number, and all but `output` are floats. `exact` is the size of the
    result before it was rounded."""

    axis: int
    size: Value
    scale: Value
    exact: Value
    output: Value


def _goals(s: Step, X: Value, axes: list[int], scales: Value | None, sizes: Value | None, policy: str) -> list[_Goal]:
    """Return the axes that change, as far as that is known."""
    given = sizes if sizes is not None and not _is_empty(s, sizes) else scales
    assert given is not None
    known = s.constant(given)
    own = {axis: s.cast(size_of(s, X, axis), F) for axis in axes}
    wanted = {axis: s.cast(s.Gather(given, s.array([i]), axis=0), F) for i, axis in enumerate(axes)}
    half = s.array([0.5], F)
    if given is scales:
        exact = {axis: s.Mul(own[axis], wanted[axis]) for axis in axes}
        goals = [_Goal(a, own[a], wanted[a], exact[a], s.Cast(s.Floor(exact[a]), to=int(INT64))) for a in axes]
    elif policy == "stretch":
        whole = {axis: s.Cast(s.Gather(given, s.array([i]), axis=0), to=int(INT64)) for i, axis in enumerate(axes)}
        goals = [_Goal(a, own[a], s.Div(wanted[a], own[a]), wanted[a], whole[a]) for a in axes]
    else:
        ratios = s.Concat(*(s.Div(wanted[axis], own[axis]) for axis in axes), axis=0)
        scale = reduce(s, "ReduceMin" if policy == "not_larger" else "ReduceMax", ratios, [0])
        exact = {axis: s.Mul(own[axis], scale) for axis in axes}
        goals = [_Goal(a, own[a], scale, exact[a], s.Cast(s.Floor(s.Add(exact[a], half)), to=int(INT64))) for a in axes]
    if known is None or policy != "stretch":
        return goals
    own_sizes = [1.0] * s.rank(X) if given is scales else list(X.shape or ())
    return [goal for goal, number in zip(goals, known, strict=True) if number != own_sizes[goal.axis]]


def _is_empty(s: Step, value: Value) -> bool:
    known = s.constant(value)
    return known is not None and not known.size


def _places(s: Step, goal: _Goal, coordinates: str) -> Value:
    """Return where in the axis each element of the result is read; fractional."""
    one, half, zero = s.array([1], F), s.array([0.5], F), s.array([0], F)
    number = s.cast(count_up(s, goal.output), F)
    match coordinates:
        case "asymmetric":
            return s.Div(number, goal.scale)
        case "align_corners":
            is_one = s.Equal(s.cast(goal.exact, D.DOUBLE), s.array([1], D.DOUBLE))
            rest = s.Where(is_one, one, s.Sub(goal.exact, one))
            return s.Div(s.Mul(s.Where(is_one, s.Mul(number, zero), number), s.Sub(goal.size, one)), rest)
        case "tf_half_pixel_for_nn":
            return s.Div(s.Add(number, half), goal.scale)
    place = s.Sub(s.Div(s.Add(number, half), goal.scale), half)
    if coordinates == "pytorch_half_pixel":
        return s.Where(s.Equal(goal.output, s.array([1])), zero, place)
    if coordinates == "half_pixel_symmetric":
        shift = s.Sub(one, s.Div(s.cast(goal.output, F), goal.exact))
        return s.Add(s.Mul(s.Mul(goal.size, half), shift), place)
    if coordinates != "half_pixel":
        s.refuse(f"its coordinates are {coordinates}, which is not known")
    return place


def _within(s: Step, goal: _Goal, index: Value) -> Value:
    last = s.Sub(goal.size, s.array([1], F))
    return s.Cast(s.Min(s.Max(index, s.array([0], F)), last), to=int(INT64))


def _nearest(s: Step, goal: _Goal, place: Value, rounding: str) -> Value:
    half = s.array([0.5], F)
    match rounding:
        case "round_prefer_floor":
            index = s.Ceil(s.Sub(place, half))
        case "round_prefer_ceil":
            index = s.Floor(s.Add(place, half))
        case "floor":
            index = s.Floor(place)
        case "ceil":
            index = s.Ceil(place)
        case _:
            s.refuse(f"it rounds by {rounding}, which is not known")
    return _within(s, goal, index)


def _interpolated(
    s: Step, x: Value, goal: _Goal, place: Value, rank: int, inner: D, options: Mapping[str, Any]
) -> Value:
    """Return the weighted sum of the elements around each place of one axis.

    Antialiasing makes the filter wider where an axis shrinks: then how many elements it reaches is computed, too."""
    one, zero = s.array([1], F), s.array([0], F)
    reach = s.array([1 if options["mode"] == "linear" else 2], F)
    stretch = s.Min(goal.scale, one) if options.get("antialias") else one
    first = s.Add(s.Floor(s.Neg(s.Div(reach, stretch))), one)
    count = s.Cast(s.Sub(s.array([2], F), s.Mul(first, s.array([2], F))), to=int(INT64))
    taps = s.Add(s.cast(count_up(s, count), F), first)
    base = s.Floor(place)
    rest = unsqueeze(s, s.Sub(place, base), [1])
    distance = s.Mul(s.Abs(s.Sub(taps, rest)), stretch)  # (element, tap)
    index = s.Add(unsqueeze(s, base, [1]), taps)
    if options["mode"] == "linear":
        weight = s.Max(s.Sub(one, distance), zero)
    else:
        weight = _cubic(s, distance, options["cubic_coeff_a"])
    if options["exclude_outside"]:
        inside = s.And(s.Not(s.Less(index, zero)), s.Less(index, goal.size))
        weight = s.Where(inside, weight, zero)
    if options["exclude_outside"] or options.get("antialias"):
        weight = s.Div(weight, reduce(s, "ReduceSum", weight, [1]))
    elements = s.Gather(x, _within(s, goal, index), axis=goal.axis)
    behind = rank - goal.axis - 1
    weight = s.cast(weight, inner)
    if behind:
        weight = unsqueeze(s, weight, list(range(2, 2 + behind)))
    return reduce(s, "ReduceSum", s.Mul(elements, weight), [goal.axis + 1], keepdims=0)


def _cubic(s: Step, distance: Value, a: float) -> Value:
    near = polynomial(s, distance, (a + 2, -(a + 3), 0.0, 1.0), F)
    far = polynomial(s, distance, (a, -5 * a, 8 * a, -4 * a), F)
    outer = s.Where(s.Less(distance, s.array(2, F)), far, s.array(0, F))
    return s.Where(s.Greater(distance, s.array(1, F)), outer, near)

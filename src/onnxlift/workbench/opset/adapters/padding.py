"""Pad: 2 (`pads`, called `paddings` before), 11 (pads and value are inputs), 18 (`axes`), 19 (`wrap`)."""

from __future__ import annotations

import numpy as np

from ..spelling import INT64, scattered, size_of
from ..step import Result, Step, Value, adapter


@adapter("Pad", 1, 2)
def paddings_become_pads(s: Step, *, paddings: tuple[int, ...]) -> Result:
    return s.again(paddings=None, pads=list(paddings))


@adapter("Pad", 2, 1)
def pads_become_paddings(s: Step, *, pads: tuple[int, ...]) -> Result:
    return s.again(pads=None, paddings=list(pads))


@adapter("Pad", 2, 11)
def pads_become_an_input(s: Step, data: Value, *, pads: tuple[int, ...], value: float) -> Result:
    number = s.number(value, data) if value else None
    return s.again(data, s.array(list(pads)), number, pads=None, value=None)


@adapter("Pad", 11, 2)
def pads_become_an_attribute(s: Step, data: Value, pads: Value, constant_value: Value | None) -> Result:
    number = None if constant_value is None else s.constant(constant_value)
    if constant_value is not None and number is None:
        s.refuse("its constant_value must be a constant before opset 11, and it is computed")
    value = None if number is None else float(number.reshape(-1)[0])
    return s.again(data, pads=s.ints(pads, "pads"), value=value)


@adapter("Pad", 18, 13)
def pads_of_all_axes(s: Step, data: Value, pads: Value, constant_value: Value | None, axes: Value | None) -> Result:
    """The pads of the axes that are not named are 0."""
    if axes is None:
        return s.again()
    rank = s.rank(data)
    numbers, places = s.constant(pads), s.constant(axes)
    if numbers is not None and places is not None:
        full = np.zeros((2, rank), np.int64)
        full[:, places.reshape(-1)] = numbers.reshape(2, -1)
        return s.again(data, s.array(full.reshape(-1)), constant_value)
    zero, count = s.array([0]), s.array([rank])
    place = s.cast(axes, INT64)
    place = s.Where(s.Less(place, zero), s.Add(place, count), place)
    both = s.Concat(place, s.Add(place, count), axis=0)
    return s.again(data, scattered(s, s.array([0] * (2 * rank)), both, pads), constant_value)


@adapter("Pad", 19, 18)
def wrapped(
    s: Step, data: Value, pads: Value, constant_value: Value | None, axes: Value | None, *, mode: str
) -> Result:
    """`wrap` repeats the whole tensor: place i of an axis of size n is place `i mod n`."""
    if mode != "wrap":
        return s.again()
    rank = s.rank(data)
    places = list(range(rank)) if axes is None else [axis % rank for axis in s.ints(axes, "axes")]
    zero, one = s.array(0), s.array(1)
    x = data
    for index, axis in enumerate(places):
        size = s.Squeeze(size_of(s, data, axis))
        before, after = (s.Gather(pads, s.array(place), axis=0) for place in (index, index + len(places)))
        indices = s.Mod(s.Range(s.Sub(zero, before), s.Add(size, after), one), size)
        x = s.Gather(x, indices, axis=axis)
    return x

"""Fourier transforms and mel filters.

- DFT: 17 (`axis` is an attribute, 1 by default), 20 (an input, -2 by default)
- STFT, MelWeightMatrix: 17

A transform is a product with a matrix of cosines and one of sines, whose angles are reduced to one turn as integers.
For sizes that are known, both are constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx_ir as ir

from ..spelling import INT64, choose, count_up, size_of, slice_axis, transpose_axes, unsqueeze
from ..step import Result, Step, Value, adapter

D = ir.DataType


@adapter("DFT", 17, 20)
def axis_becomes_an_input(s: Step, input: Value, dft_length: Value | None, *, axis: int) -> Result:
    return s.again(input, dft_length, s.array(axis), axis=None)


@adapter("DFT", 20, 17)
def axis_becomes_an_attribute(s: Step, input: Value, dft_length: Value | None, axis: Value | None) -> Result:
    """An axis that is computed is one of those that the input has."""
    rank = s.rank(input)
    if axis is None:
        return s.again(input, dft_length, axis=rank - 2)
    known = s.constant(axis)
    if known is not None:
        return s.again(input, dft_length, axis=int(known.reshape(-1)[0]) % rank)

    def along(place: int) -> Value:
        return s.same(input, dft_length, count=1, axis=place)[0]

    places = [*range(rank - 1), *range(-rank, -1)]
    return choose(s, axis, [(place, partial(along, place % rank)) for place in places])


@adapter("DFT", 17, 0)
def transform_by_matrices(
    s: Step, input: Value, dft_length: Value | None, *, axis: int, inverse: int, onesided: int
) -> Result:
    rank = s.rank(input)
    place = axis % rank
    if place == rank - 1:
        s.refuse("its axis is that of the real and imaginary parts")
    x = transpose_axes(s, input, place, rank - 2, rank)
    size = size_of(s, input, place)
    back = inverse and onesided
    if dft_length is not None:
        length = _listed(s, dft_length)
    elif back:
        length = s.Mul(s.Sub(size, s.array([1])), s.array([2]))
    else:
        length = size
    signal = _Signal(x, _has_imaginary_part(s, input), s.dtype(input), rank, size)
    made = _back_to_reals(s, signal, length) if back else _transformed(s, signal, length, inverse, onesided)
    return transpose_axes(s, made, place, rank - 2, rank)


@adapter("STFT", 17, 0)
def transform_of_frames(
    s: Step, signal: Value, frame_step: Value, window: Value | None, frame_length: Value | None, *, onesided: int
) -> Result:
    """The frames are gathered, and each is transformed."""
    is_flat = s.rank(signal) == 2
    if frame_length is None and window is None:
        s.refuse("it has neither a window nor a frame length")
    length = size_of(s, window, 0) if window is not None else _listed(s, frame_length)
    step = _listed(s, frame_step)
    count = s.Add(s.Div(s.Sub(size_of(s, signal, 1), length), step), s.array([1]))
    places = s.Add(s.Mul(unsqueeze(s, count_up(s, count), [1]), step), count_up(s, length))
    frames = s.Gather(unsqueeze(s, signal, [2]) if is_flat else signal, places, axis=1)
    if window is not None:
        frames = s.Mul(frames, unsqueeze(s, window, [1]))
    imaginary = False if is_flat else _has_imaginary_part(s, signal)
    return _transformed(s, _Signal(frames, imaginary, s.dtype(signal), 4, length), length, 0, onesided)


@dataclass(frozen=True)
class _Signal:
    """Numbers along the last axis but one, of which there are `size`; the last axis has real and imaginary parts."""

    values: Value
    imaginary: bool | Value
    """Whether there are imaginary parts; a value, if that is known when the model runs."""
    dtype: D
    rank: int
    size: Value

    @property
    def wide(self) -> D:
        return D.DOUBLE if self.dtype == D.DOUBLE else D.FLOAT


def _listed(s: Step, value: Value | None) -> Value:
    return s.Reshape(s.cast(value, INT64), s.array([1])) if value is not None else s.array([0])


def _has_imaginary_part(s: Step, x: Value) -> bool | Value:
    parts = None if x.shape is None else x.shape[-1]
    if isinstance(parts, int):
        return parts == 2
    return s.Greater(size_of(s, x, -1), s.array([1]))


def _parts(s: Step, signal: _Signal, kept: Value | None) -> tuple[Value, Value | None]:
    """Return the real and the imaginary parts of the first `kept` numbers."""
    x, last = signal.values, signal.rank - 1
    if kept is not None:
        x = slice_axis(s, x, s.array([0]), kept, signal.rank - 2)
    real = s.cast(s.Gather(x, s.array(0), axis=last), signal.wide)
    if signal.imaginary is False:
        return real, None
    other = s.cast(s.Gather(x, s.array(-1), axis=last), signal.wide)
    if signal.imaginary is True:
        return real, other
    return real, s.Where(signal.imaginary, other, s.array(0, signal.wide))


def _transformed(s: Step, signal: _Signal, length: Value, inverse: int, onesided: int) -> Value:
    """Return the transform of `length` numbers; those that are missing are 0."""
    is_whole = signal.size is length
    kept = None if is_whole else s.Min(signal.size, length)
    frequencies = s.Add(s.Div(length, s.array([2])), s.array([1])) if onesided else length
    cosines, sines = _waves(s, signal.size if kept is None else kept, frequencies, length, signal.wide)
    if inverse:
        sines = s.Neg(sines)
    real, imaginary = _parts(s, signal, kept)
    first, second = s.MatMul(real, cosines), s.Neg(s.MatMul(real, sines))
    if imaginary is not None:
        first = s.Add(first, s.MatMul(imaginary, sines))
        second = s.Add(second, s.MatMul(imaginary, cosines))
    last = [signal.rank - 1]
    both = s.Concat(unsqueeze(s, first, last), unsqueeze(s, second, last), axis=last[0])
    return s.cast(s.Div(both, s.cast(length, signal.wide)) if inverse else both, signal.dtype)


def _back_to_reals(s: Step, signal: _Signal, length: Value) -> Value:
    """Return `length` real numbers from the first half of their frequencies. The other half has the same sum, so all
    count twice but the first one, and the middle one if there is one."""
    one, two = s.array([1]), s.array([2])
    kept = s.Min(signal.size, s.Add(s.Div(length, two), one))
    cosines, sines = _waves(s, kept, length, length, signal.wide)
    number = count_up(s, kept)
    alone = s.Or(s.Equal(number, s.array([0])), s.Equal(s.Mul(number, two), length))
    weight = unsqueeze(s, s.cast(s.Where(alone, one, two), signal.wide), [1])
    real, imaginary = _parts(s, signal, kept)
    total = s.MatMul(real, s.Mul(cosines, weight))
    if imaginary is not None:
        total = s.Sub(total, s.MatMul(imaginary, s.Mul(sines, weight)))
    return s.cast(unsqueeze(s, s.Div(total, s.cast(length, signal.wide)), [signal.rank - 1]), signal.dtype)


def _waves(s: Step, rows: Value, columns: Value, length: Value, wide: D) -> tuple[Value, Value]:
    """Return the cosines and sines of `2 pi i k / length`, for each i and k below these numbers."""
    known = [s.constant(value) for value in (rows, columns, length)]
    counts = [int(number.reshape(-1)[0]) for number in known if number is not None]
    if len(counts) == 3:
        turn = max(counts[2], 1)
        angles = np.arange(counts[0])[:, None] * np.arange(counts[1]) % turn * (2 * np.pi / turn)
        return s.array(np.cos(angles), wide), s.array(np.sin(angles), wide)
    turns = s.Mod(s.Mul(unsqueeze(s, count_up(s, rows), [1]), count_up(s, columns)), length)
    angle = s.Div(s.Mul(s.cast(turns, D.DOUBLE), s.array(2 * np.pi, D.DOUBLE)), s.cast(length, D.DOUBLE))
    quarter = s.array(np.pi / 2, D.DOUBLE)  # runtimes have the sine of a double more often than its cosine
    return s.cast(s.Sin(s.Add(angle, quarter)), wide), s.cast(s.Sin(angle), wide)


@adapter("MelWeightMatrix", 17, 0)
def triangles_over_mel(
    s: Step,
    num_mel_bins: Value,
    dft_length: Value,
    sample_rate: Value,
    lower_edge_hertz: Value,
    upper_edge_hertz: Value,
    *,
    output_datatype: int,
) -> Result:
    """Triangles over neighbouring points that are evenly spaced in mel, computed in double."""
    wide = D.DOUBLE
    one, zero = s.array(1, wide), s.array(0, wide)
    bins, length = (s.Reshape(s.cast(value, INT64), s.array([1])) for value in (num_mel_bins, dft_length))
    edges = [s.cast(value, wide) for value in (lower_edge_hertz, upper_edge_hertz)]
    scale, corner = s.array(2595 / np.log(10), wide), s.array(700, wide)
    low, high = (s.Mul(s.Log(s.Add(s.Div(edge, corner), one)), scale) for edge in edges)
    two = s.Add(bins, s.array([2]))
    mel = s.Add(s.Mul(s.cast(count_up(s, two), wide), s.Div(s.Sub(high, low), s.cast(two, wide))), low)
    hertz = s.Mul(s.Sub(s.Exp(s.Div(mel, scale)), one), corner)
    points = s.Floor(s.Div(s.Mul(s.Add(s.cast(length, wide), one), hertz), s.cast(sample_rate, wide)))
    left, centre, right = (
        slice_axis(s, points, s.array([first]), s.Add(bins, s.array([first])), 0) for first in (0, 1, 2)
    )
    half = s.Add(s.Div(length, s.array([2])), s.array([1]))
    frequency = unsqueeze(s, s.cast(count_up(s, half), wide), [1])
    widens = s.Greater(centre, left)
    rising = s.Where(widens, s.Div(s.Sub(frequency, left), s.Where(widens, s.Sub(centre, left), one)), one)
    narrows = s.Greater(right, centre)
    falling = s.Div(s.Sub(right, frequency), s.Where(narrows, s.Sub(right, centre), one))
    up = s.And(s.Not(s.Less(frequency, left)), s.Not(s.Greater(frequency, centre)))
    down = s.And(s.Not(s.Less(frequency, centre)), s.Less(frequency, right))
    return s.cast(s.Where(down, falling, s.Where(up, rising, zero)), D(output_datatype))

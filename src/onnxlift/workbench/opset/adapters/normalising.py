"""Normalisations, Softmax and Dropout.

- Softmax, LogSoftmax, Hardmax: 11 (negative axis), 13 (one axis, -1 by default; before, all axes from `axis` on, 1 by
  default, flattened)
- BatchNormalization: 7 (no `is_test`), 9 (no `spatial`), 14 (`training_mode`; before, it trains if it has more than one
  output), 15 (types)
- Dropout: 7 (no `is_test`), 10 (the mask is bool), 12 (`ratio` and `training_mode` are inputs)
- LayerNormalization: 17
- GroupNormalization: 21 (scale and bias for each channel; before, for each group)
"""

from __future__ import annotations

import onnx_ir as ir

from ..spelling import BOOL, reduce, size_of, transpose_axes, unsqueeze
from ..step import Result, Step, Value, adapter

_OVER_AN_AXIS = ["Softmax", "LogSoftmax", "Hardmax"]


@adapter(_OVER_AN_AXIS, 13, 11)
def over_the_last_axis(s: Step, input: Value, *, axis: int) -> Result:
    """From the last axis on there is only that axis. Another one is moved there, and back."""
    if axis == -1:
        return s.again(axis=-1)
    rank = s.rank(input)
    place = axis % rank
    if place == rank - 1 or all(size == 1 for size in list(input.shape or ())[place + 1 :]):
        return s.again(axis=place)
    last = transpose_axes(s, input, place, rank - 1, rank)
    return transpose_axes(s, s.same(last, axis=rank - 1)[0], place, rank - 1, rank)


@adapter(_OVER_AN_AXIS, 11, 13)
def over_one_axis(s: Step, input: Value, *, axis: int) -> Result:
    """All axes from `axis` on are made one, and the result is put back into its form."""
    shape = None if input.shape is None else list(input.shape)
    only_axis = shape is not None and axis < len(shape) and all(size == 1 for size in shape[axis % len(shape) + 1 :])
    if axis == -1 or only_axis:
        return s.again(axis=axis)
    flat = s.Flatten(input, axis=axis)
    return s.Reshape(s.same(flat, axis=-1)[0], s.Shape(input))


@adapter("BatchNormalization", 6, 7)
def mode_is_seen_from_the_outputs(s: Step) -> Result:
    return s.again(is_test=None)


@adapter("BatchNormalization", 7, 9)
def statistics_of_each_place(
    s: Step, X: Value, scale: Value, B: Value, mean: Value, var: Value, *, spatial: int, epsilon: float
) -> Result:
    """Without `spatial` there are statistics of each place, and the formula is that of the paper."""
    if spatial:
        return s.again(spatial=None)
    if any(s.wants(index) for index in range(1, len(s.node.outputs))):
        s.refuse("training with spatial=0 is not known since opset 9")
    deviation = s.Sqrt(s.Add(var, s.number(epsilon, X)))
    return s.Add(s.Mul(s.Div(s.Sub(X, mean), deviation), scale), B)


@adapter("BatchNormalization", 9, 14)
def training_is_told(s: Step, X: Value, *, momentum: float) -> Result:
    if not any(s.wants(index) for index in range(1, len(s.node.outputs))):
        return _with_one_output(s)
    if s.wants(3) or s.wants(4):
        s.refuse("the saved statistics are no outputs since opset 14")
    y, mean, var = s.same(*s.node.inputs, count=3, training_mode=1)
    return [y, mean, var]


@adapter("BatchNormalization", 14, 9)
def training_is_seen_from_the_outputs(
    s: Step,
    X: Value,
    scale: Value,
    B: Value,
    mean: Value,
    var: Value,
    *,
    training_mode: int,
    epsilon: float,
    momentum: float,
) -> Result:
    """Before opset 14, a BatchNormalization that trains gives statistics of another kind, so the formula is written."""
    if not training_mode:
        return _with_one_output(s)
    rank = s.rank(X)
    dtype = s.dtype(X)
    wide = ir.DataType.DOUBLE if dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT
    others = [axis for axis in range(rank) if axis != 1]
    x, factor, shift = s.cast(X, wide), s.cast(scale, wide), s.cast(B, wide)
    average = reduce(s, "ReduceMean", x, others)
    centred = s.Sub(x, average)
    variance = reduce(s, "ReduceMean", s.Mul(centred, centred), others)
    normal = s.Div(centred, s.Sqrt(s.Add(variance, s.array(epsilon, wide))))
    behind = list(range(1, rank - 1))
    if behind:
        factor, shift = unsqueeze(s, factor, behind), unsqueeze(s, shift, behind)
    y = s.cast(s.Add(s.Mul(normal, factor), shift), dtype)

    def running(old: Value, new: Value) -> Value:
        kept, added = s.array(momentum, wide), s.array(1 - momentum, wide)
        flat = s.Reshape(new, s.array([-1]))
        return s.cast(s.Add(s.Mul(s.cast(old, wide), kept), s.Mul(flat, added)), s.dtype(old))

    return [y, running(mean, average), running(var, variance)]


def _with_one_output(s: Step) -> Result:
    if len(s.node.outputs) == 1:
        return s.again(training_mode=None)
    return s.same(*s.node.inputs, count=1, training_mode=None)


@adapter("BatchNormalization", 15, 14)
def statistics_of_the_type_of_the_input(
    s: Step, X: Value, scale: Value, B: Value, mean: Value, var: Value, *, training_mode: int
) -> Result:
    """Before opset 15, scale and bias are of the type of the input."""
    dtype = s.dtype(X)
    if s.dtype(scale) == dtype and s.dtype(B) == dtype:
        return s.again()
    if training_mode:
        s.refuse("training with weights of another type than the input is not known before opset 15")
    wide = s.dtype(scale)
    return s.cast(
        s.same(s.cast(X, wide), scale, s.cast(B, wide), s.cast(mean, wide), s.cast(var, wide), count=1)[0], dtype
    )


@adapter("LayerNormalization", 17, 0)
def layer_normalization(
    s: Step, X: Value, Scale: Value, B: Value | None, *, axis: int, epsilon: float, stash_type: int
) -> Result:
    """The formula by which the operator is defined. ONNX's own body for it flattens the input first, for which it needs
    twice the nodes."""
    axes = list(range(axis, 0)) if axis < 0 else list(range(axis, s.rank(X)))
    dtype, wide = s.dtype(X), ir.DataType(stash_type)
    x = s.cast(X, wide)
    mean = reduce(s, "ReduceMean", x, axes)
    centred = s.Sub(x, mean)
    variance = reduce(s, "ReduceMean", s.Mul(centred, centred), axes)
    deviation = s.Sqrt(s.Add(variance, s.array(epsilon, wide)))
    normal = s.Div(centred, deviation)
    y = s.Mul(normal if dtype == wide else s.cast(normal, dtype), Scale)
    statistics = [mean, s.Reciprocal(deviation)] if s.wants(1) or s.wants(2) else [None, None]
    return [y if B is None else s.Add(y, B), *statistics]


@adapter("GroupNormalization", 18, 21)
def weights_for_each_channel(s: Step, X: Value, scale: Value, bias: Value, *, num_groups: int) -> Result:
    """Each channel gets the weight of its group."""
    each = s.Div(size_of(s, X, 1), s.array([num_groups]))
    sizes = s.Concat(s.array([num_groups]), each, axis=0)
    column, row = s.array([num_groups, 1]), s.array([-1])
    weights = [s.Reshape(s.Expand(s.Reshape(weight, column), sizes), row) for weight in (scale, bias)]
    return s.again(X, *weights)


@adapter("GroupNormalization", 21, 18)
def weights_for_each_group(s: Step) -> Result:
    s.refuse("scale and bias are for each group before opset 21")


@adapter("Dropout", 6, 7)
def dropout_predicts(s: Step, data: Value, *, is_test: int, ratio: float) -> Result:
    """Without `is_test` it trains. The next revision that can do so is that of opset 12."""
    if is_test:
        return s.again(is_test=None)
    if s.wants(1):
        s.refuse("the mask of a training Dropout is of another type since opset 7")
    number, train = s.array(ratio, ir.DataType.FLOAT), s.array(True, BOOL)
    return s.several(1, "Dropout", data, number, train, at=12)[0]


@adapter("Dropout", 7, 10)
def mask_becomes_bool(s: Step, data: Value) -> Result:
    if not s.wants(1):
        return s.again()
    output, mask = s.same(data, count=2)
    return [output, s.cast(mask, s.dtype(data))]


@adapter("Dropout", 10, 7)
def mask_becomes_a_number(s: Step, data: Value) -> Result:
    if not s.wants(1):
        return s.again()
    output, mask = s.same(data, count=2)
    return [output, s.cast(mask, BOOL)]


@adapter("Dropout", 10, 12)
def ratio_becomes_an_input(s: Step, data: Value, *, ratio: float) -> Result:
    return s.again(data, s.array(ratio, ir.DataType.FLOAT), ratio=None)


@adapter("Dropout", 12, 10)
def ratio_becomes_an_attribute(s: Step, data: Value, ratio: Value | None, training_mode: Value | None) -> Result:
    """Who predicts reads no ratio."""
    if training_mode is not None:
        training = s.constant(training_mode)
        if training is None or training.any():
            s.refuse("training is not told before opset 12")
    known = s.constant(ratio)
    return s.again(data, ratio=None if known is None else float(known.reshape(-1)[0]), seed=None)

"""Control flow, sequences, optional values, scattering and recurrent layers.

| operator | opsets |
|---|---|
| Constant | 11 (sparse), 12 (`value_int` and its kin) |
| ConstantOfShape | 9, 20 (bfloat16) |
| EyeLike, RandomNormalLike, RandomUniformLike | 22 (bfloat16) |
| GRU, LSTM, RNN | 3 (`linear_before_reset` of GRU), 7 (no `output_sequence`), 14 (`layout`) |
| Identity | 1, 14 (sequences) |
| Optional, OptionalGetElement, OptionalHasElement | 15, 18 (of plain values too), 28 (types) |
| Range | 11, 27 (half precision, `stash_type`) |
| Scan | 8 (over a batch), 9 (not), 11 (negative axes) |
| Scatter | 9, 11 (ScatterElements takes its place) |
| ScatterElements, ScatterND | 11, 16 (`reduction`), 18 (`max`, `min`) |
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.rewriting.normal_form.constant_nodes import constant_tensor

from ..spelling import BOOL, unsqueeze
from ..step import Result, Step, Value, adapter

_RECURRENT = ["GRU", "LSTM", "RNN"]
_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


@adapter("Constant", 12, 11)
def constant_as_a_tensor(s: Step) -> Result:
    tensor = constant_tensor(s.node)
    if tensor is None:
        s.refuse("it gives an attribute of the function around it")
    names = dict.fromkeys(s.node.attributes)
    return s.again(**{**names, "value": tensor})


@adapter("GRU", 1, 3)
@adapter(["LSTM", "RNN"], 1, 7)
@adapter("GRU", 3, 7)
def sequence_is_an_output(s: Step, *, direction: str) -> Result:
    """`output_sequence` only said whether Y is wanted, and the first default of `direction` has a letter too few."""
    kept = "forward" if direction == "foward" else None
    return s.again(output_sequence=None, **({"direction": kept} if kept else {}))


@adapter(_RECURRENT, 14, 7)
def time_comes_first(
    s: Step,
    X: Value,
    W: Value,
    R: Value,
    B: Value | None,
    sequence_lens: Value | None,
    initial_h: Value | None,
    initial_c: Value | None,
    P: Value | None,
    *,
    layout: int,
) -> Result:
    """With `layout=1` the batch is the first axis of all inputs and outputs."""
    if not layout:
        return s.again(layout=None)
    states = [None if state is None else s.Transpose(state, perm=[1, 0, 2]) for state in (initial_h, initial_c)]
    x = s.Transpose(X, perm=[1, 0, 2])
    made = s.same(x, W, R, B, sequence_lens, *states, P, layout=None)
    turned = [s.Transpose(made[0], perm=[2, 0, 1, 3])]
    return turned + [s.Transpose(state, perm=[1, 0, 2]) for state in made[1:]]


@adapter("Range", 27, 11)
def range_of_wide_numbers(s: Step, start: Value, *, stash_type: int) -> Result:
    """Half precision is computed in float, which is what `stash_type` 1 says."""
    if s.dtype(start) in _HALF and stash_type != 1:
        s.refuse("half precision with another stash_type than float is not known before opset 27")
    return s.again(stash_type=None)


@adapter("ConstantOfShape", 20, 9)
def filled_with_bfloat16(s: Step, input: Value) -> Result:
    """A type that is not known is cast to."""
    attribute = s.node.attributes.get("value")
    tensor = None if attribute is None else attribute.as_tensor()
    if tensor is None or tensor.dtype != ir.DataType.BFLOAT16:
        return s.again()
    filled = s.ConstantOfShape(input, value=tensor.numpy().astype(np.float32).reshape(1))
    return s.cast(filled, ir.DataType.BFLOAT16)


@adapter("EyeLike", 22, 9)
@adapter(["RandomNormalLike", "RandomUniformLike"], 22, 1)
def made_as_large_as_bfloat16(s: Step, input: Value, *, dtype: int | None) -> Result:
    """What is made depends on the sizes of the input alone, and is rounded to bfloat16 at the end."""
    wanted = s.dtype(input) if dtype is None else ir.DataType(dtype)
    if ir.DataType.BFLOAT16 not in (wanted, s.dtype(input)):
        return s.again()
    like = s.cast(input, ir.DataType.FLOAT) if s.dtype(input) == ir.DataType.BFLOAT16 else input
    inner = ir.DataType.FLOAT if wanted == ir.DataType.BFLOAT16 else wanted
    made = s.same(like, dtype=int(inner))[0]
    return made if inner == wanted else s.cast(made, wanted)


@adapter("Identity", 14, 13)
def a_sequence_as_it_is(s: Step, input: Value) -> Result:
    """An element is put to the end of the sequence, and taken away again."""
    if not isinstance(input.type, ir.SequenceType):
        return s.again()
    if s.dtype(input) == ir.DataType.STRING:
        element = s.array([], np.dtype(object))
    else:
        element = s.array([], s.dtype(input))
    return s.SequenceErase(s.SequenceInsert(input, element))


@adapter("OptionalGetElement", 18, 15)
def element_of_a_plain_value(s: Step, input: Value) -> Result:
    if isinstance(input.type, ir.OptionalType):
        return s.again()
    return s.Identity(input)


@adapter("OptionalHasElement", 18, 15)
def plain_values_have_an_element(s: Step, input: Value | None) -> Result:
    if input is not None and isinstance(input.type, ir.OptionalType):
        return s.again()
    return s.Identity(s.array(input is not None, BOOL))


@adapter("Scatter", 9, 11)
def scatter_becomes_scatter_elements(s: Step, data: Value, indices: Value, updates: Value, *, axis: int) -> Result:
    return s.ScatterElements(data, indices, updates, axis=axis)


@adapter("ScatterElements", 11, 0)
def scatter_elements_become_scatter(s: Step, data: Value, indices: Value, updates: Value, *, axis: int) -> Result:
    known = s.constant(indices)
    if known is None or (known < 0).any():
        s.refuse("there is no ScatterElements before opset 11, and negative indices are not known to Scatter")
    return s.Scatter(data, indices, updates, axis=axis % s.rank(data))


@adapter(["ScatterElements", "ScatterND"], 18, 16)
def largest_or_smallest(s: Step, data: Value, indices: Value, updates: Value, *, reduction: str) -> Result:
    if reduction in ("max", "min"):
        return _one_by_one(s, data, indices, updates, reduction)
    return s.again()


@adapter(["ScatterElements", "ScatterND"], 16, 13)
def sums_and_products(s: Step, data: Value, indices: Value, updates: Value, *, reduction: str) -> Result:
    """Updates of one place follow each other, so they are written one by one, each onto what is there."""
    if reduction in (None, "none"):
        return s.again(reduction=None)
    return _one_by_one(s, data, indices, updates, reduction)


_ACROSS = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}


def _one_by_one(s: Step, data: Value, indices: Value, updates: Value, reduction: str) -> Value:
    """Return the updated data. A Scan goes over the updates: it reads a place, combines, and writes it back.

    The places are those of ScatterND; an index of ScatterElements is told by all coordinates of the update but one."""
    dtype = s.dtype(data)
    inner = ir.DataType.FLOAT if dtype == ir.DataType.BFLOAT16 else dtype
    rank = s.rank(data)
    if s.node.op_type == "ScatterElements":
        indices, updates = _places_of_elements(s, data, indices, updates)
    else:
        depth = s.rank(indices) - 1 + rank - s.rank(updates)
        slices = [s.Slice(s.Shape(data), s.array([depth]), s.array([rank]))] if depth < rank else []
        indices = s.Reshape(indices, s.array([-1, depth]))
        updates = s.Reshape(updates, s.Concat(s.array([-1]), *slices, axis=0))
    data, updates = s.cast(data, inner), s.cast(updates, inner)
    names = s.edit.names
    state, place, update = (
        ir.Value(name=names.fresh(name), type=ir.TensorType(kind))
        for name, kind in (("state", inner), ("place", ir.DataType.INT64), ("update", inner))
    )

    def one() -> list[Value]:
        row = unsqueeze(s, place, [0])
        there = s.GatherND(state, row)
        combined = s.several(1, _ACROSS[reduction], there, unsqueeze(s, update, [0]))[0]
        return [s.ScatterND(state, row, combined)]

    body = s.graph(one, [state, place, update])
    return s.cast(s.several(1, "Scan", data, indices, updates, body=body, num_scan_inputs=2)[0], dtype)


def _places_of_elements(s: Step, data: Value, indices: Value, updates: Value) -> tuple[Value, Value]:
    rank = s.rank(data)
    axis = int(s.node.attributes["axis"].as_int()) % rank if "axis" in s.node.attributes else 0
    own = s.Transpose(s.NonZero(s.ConstantOfShape(s.Shape(indices), value=np.ones(1, np.int64))), perm=[1, 0])
    flat = s.Reshape(s.cast(indices, ir.DataType.INT64), s.array([-1, 1]))
    columns = [flat if each == axis else s.Gather(own, s.array([each]), axis=1) for each in range(rank)]
    return s.Concat(*columns, axis=1), s.Reshape(updates, s.array([-1]))


@adapter("Scan", 8, 9)
def each_sequence_of_the_batch(
    s: Step, sequence_lens: Value | None, *inputs: Value, num_scan_inputs: int, directions: tuple[int, ...] | None
) -> Result:
    """Opset 8 runs the body over each sequence of a batch; so one Scan goes over the batch, and one is in it.

    Sequences that end early are refused: their outputs would have to be filled up."""
    if sequence_lens is not None:
        s.refuse("lengths of the sequences are not known since opset 9")
    body = s.node.attributes["body"]
    names = s.edit.names
    elements = [ir.Value(name=names.fresh("element"), type=value.type) for value in inputs]
    count = len(s.node.outputs)

    def one() -> list[Value]:
        told = list(directions) if directions else None
        return s.several(
            count, "Scan", *elements, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=told
        )

    return s.several(count, "Scan", *inputs, body=s.graph(one, elements), num_scan_inputs=len(inputs))


@adapter("Scan", 9, 8)
def sequences_as_a_batch(s: Step) -> Result:
    s.refuse("every Scan is over a batch before opset 9")


@adapter("TensorScatter", 24, 0)
def updated_cache(
    s: Step, past_cache: Value, update: Value, write_indices: Value | None, *, axis: int, mode: str
) -> Result:
    """Each update goes to its place in the sequence, which all elements of a sample share."""
    rank = s.rank(past_cache)
    place = axis % rank
    sizes = s.Shape(update)
    length = s.Squeeze(s.Gather(sizes, s.array([place]), axis=0))
    steps = s.Reshape(s.Range(s.array(0), length, s.array(1)), s.array([-1] + [1] * (rank - place - 1)))
    if write_indices is not None:
        steps = s.Add(steps, s.Reshape(write_indices, s.array([-1] + [1] * (rank - 1))))
    if mode == "circular":
        steps = s.Mod(steps, s.Gather(s.Shape(past_cache), s.array([place]), axis=0))
    return s.ScatterElements(past_cache, s.Expand(steps, sizes), update, axis=place)

"""Changes of what a model says of its values: inputs, outputs, types, shapes, names."""

from __future__ import annotations

import random

import onnx
from onnx import TensorProto

from . import hostile
from .view import View, pick


def other_element(choose: random.Random, view: View) -> None:
    value = pick(choose, [each for each in view.values if each.type.HasField("tensor_type")])
    value.type.tensor_type.elem_type = choose.choice((*TensorProto.DataType.values(), -1, 99))


def other_dimension(choose: random.Random, view: View) -> None:
    value = pick(choose, [each for each in view.values if each.type.tensor_type.shape.dim])
    dimension = choose.choice(value.type.tensor_type.shape.dim)
    _dimension(choose, dimension)


def other_rank(choose: random.Random, view: View) -> None:
    value = pick(choose, [each for each in view.values if each.type.HasField("tensor_type")])
    dimensions = value.type.tensor_type.shape.dim
    if dimensions and choose.random() < 0.5:
        del dimensions[choose.randrange(len(dimensions))]
    else:
        for _ in range(choose.choice((1, 1, 2, 40))):
            _dimension(choose, dimensions.add())


def no_shape(choose: random.Random, view: View) -> None:
    value = pick(choose, [each for each in view.values if each.type.HasField("tensor_type")])
    value.type.tensor_type.ClearField("shape")


def no_type(choose: random.Random, view: View) -> None:
    pick(choose, view.values).ClearField("type")


def other_kind(choose: random.Random, view: View) -> None:
    """Make a tensor a sequence, an optional, a map, or the reverse."""
    value = pick(choose, view.values)
    inner = onnx.TypeProto()
    inner.CopyFrom(value.type)
    draw = choose.randrange(6)
    if draw == 0:
        value.type.sequence_type.elem_type.CopyFrom(inner)
    elif draw == 1:
        value.type.optional_type.elem_type.CopyFrom(inner)
    elif draw == 2:
        value.type.map_type.key_type = choose.choice((TensorProto.INT64, TensorProto.STRING, 0))
        value.type.map_type.value_type.CopyFrom(inner)
    elif draw == 3:
        value.type.sparse_tensor_type.elem_type = TensorProto.FLOAT
    elif draw == 4:
        value.type.Clear()
        value.type.tensor_type.elem_type = choose.choice((TensorProto.FLOAT, TensorProto.INT64))
    else:
        for _ in range(choose.choice((2, 10, 60))):
            outer = onnx.TypeProto()
            outer.sequence_type.elem_type.CopyFrom(value.type)
            value.type.CopyFrom(outer)


def name(choose: random.Random, view: View) -> None:
    value = pick(choose, view.values)
    value.name = hostile.text(choose) if choose.random() < 0.6 else pick(choose, view.names())


def drop_input(choose: random.Random, view: View) -> None:
    region = pick(choose, [each for each in view.regions if each.input])
    del region.input[choose.randrange(len(region.input))]


def drop_output(choose: random.Random, view: View) -> None:
    region = pick(choose, [each for each in view.regions if each.output])
    del region.output[choose.randrange(len(region.output))]


def repeat_input(choose: random.Random, view: View) -> None:
    region = pick(choose, [each for each in view.regions if each.input])
    region.input.append(choose.choice(region.input))


def repeat_output(choose: random.Random, view: View) -> None:
    region = pick(choose, [each for each in view.regions if each.output])
    region.output.append(choose.choice(region.output))


def output_anything(choose: random.Random, view: View) -> None:
    """Return some value of the model, too."""
    region = pick(choose, [each for each in view.regions if each.output])
    chosen = pick(choose, view.names())
    if isinstance(region, onnx.GraphProto):
        region.output.add(name=chosen)
    else:
        region.output.append(chosen)


def rename(choose: random.Random, view: View) -> None:
    """Rename a value wherever it occurs: the model stays valid, but its name is a stranger's."""
    old = pick(choose, view.names())
    new = hostile.text(choose)
    if choose.random() < 0.3:
        new = choose.choice(
            ("encoder.layer.0.weight", "encoder.layer.0.bias", "0.weight", "onnx::MatMul_13", "a.b.weight_v")
        )
    for _, node in view.nodes:
        for names in (node.input, node.output):
            for place, each in enumerate(names):
                if each == old:
                    names[place] = new
    for each in (*view.values, *view.tensors):
        if each.name == old:
            each.name = new


def lie(choose: random.Random, view: View) -> None:
    """Add what is said of a value inside a graph: a type that it has not."""
    region = pick(choose, view.regions)
    value = region.value_info.add(name=pick(choose, view.names()))
    value.type.tensor_type.elem_type = choose.choice(TensorProto.DataType.values())
    for _ in range(choose.randint(0, 3)):
        _dimension(choose, value.type.tensor_type.shape.dim.add())


def _dimension(choose: random.Random, dimension: onnx.TensorShapeProto.Dimension) -> None:
    draw = choose.random()
    if draw < 0.5:
        dimension.dim_value = hostile.size(choose)
    elif draw < 0.9:
        dimension.dim_param = choose.choice(hostile.SYMBOLS)
    else:
        dimension.Clear()


CHANGES = {
    other_element: 4,
    other_dimension: 4,
    other_rank: 4,
    no_shape: 2,
    no_type: 2,
    other_kind: 3,
    name: 2,
    drop_input: 2,
    drop_output: 2,
    repeat_input: 1,
    repeat_output: 1,
    output_anything: 2,
    rename: 3,
    lie: 2,
}

"""Changes of attributes: their names, their kinds, their values."""

from __future__ import annotations

import random

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from . import hostile
from .view import View, pick

SCALARS = {
    AttributeProto.INT: "i",
    AttributeProto.FLOAT: "f",
    AttributeProto.STRING: "s",
    AttributeProto.INTS: "ints",
    AttributeProto.FLOATS: "floats",
    AttributeProto.STRINGS: "strings",
}
FIELDS = ("f", "i", "s", "t", "g", "floats", "ints", "strings", "tensors", "graphs", "sparse_tensor", "tp")
COMMON = tuple(sorted({name for schema in onnx.defs.get_all_schemas() for name in schema.attributes}))


def other_value(choose: random.Random, view: View) -> None:
    """Give a number, a text or a list another value of the same kind."""
    attribute = pick(choose, [each for each in view.attributes if each.type in SCALARS])
    _set(choose, attribute, attribute.type)


def near_value(choose: random.Random, view: View) -> None:
    """Change one number of a list, or a number, by a little; or the length of the list."""
    attribute = pick(
        choose, [each for each in view.attributes if each.type in {AttributeProto.INT, AttributeProto.INTS}]
    )
    if attribute.type == AttributeProto.INT:
        attribute.i = max(-(1 << 62), min(1 << 62, attribute.i)) + choose.choice((-2, -1, 1, 2, 3))
        return
    draw = choose.random()
    if attribute.ints and draw < 0.5:
        attribute.ints[choose.randrange(len(attribute.ints))] = choose.choice(
            (-2, -1, 0, 1, 2, 3, hostile.integer(choose))
        )
    elif attribute.ints and draw < 0.75:
        attribute.ints.pop()
    else:
        attribute.ints.append(choose.randint(-2, 5))


def other_kind(choose: random.Random, view: View) -> None:
    """Make an attribute one of another kind, with a value that fits the new kind."""
    attribute = pick(choose, view.attributes)
    for name in FIELDS:
        attribute.ClearField(name)
    kind = choose.choice((*SCALARS, *SCALARS, AttributeProto.TENSOR, AttributeProto.TENSORS, AttributeProto.GRAPH))
    if kind == AttributeProto.TENSOR:
        attribute.t.CopyFrom(_tensor(choose))
    elif kind == AttributeProto.TENSORS:
        attribute.tensors.extend([_tensor(choose), _tensor(choose)])
    elif kind == AttributeProto.GRAPH:
        graphs = [region for region in view.regions if isinstance(region, onnx.GraphProto)]
        attribute.g.ParseFromString(choose.choice(graphs).SerializeToString())
    else:
        _set(choose, attribute, kind)
    attribute.type = kind


def other_label(choose: random.Random, view: View) -> None:
    """Say that an attribute is of another kind than its value."""
    attribute = pick(choose, view.attributes)
    attribute.type = choose.choice(AttributeProto.AttributeType.values())


def reference(choose: random.Random, view: View) -> None:
    """Let an attribute refer to one of a function around it, which there may not be."""
    attribute = pick(choose, view.attributes)
    attribute.ref_attr_name = choose.choice((attribute.name, *hostile.TEXTS))
    if choose.random() < 0.7:
        for name in FIELDS:
            attribute.ClearField(name)


def other_name(choose: random.Random, view: View) -> None:
    attribute = pick(choose, view.attributes)
    attribute.name = hostile.text(choose) if choose.random() < 0.3 else choose.choice(COMMON)


def drop(choose: random.Random, view: View) -> None:
    _, node = pick(choose, [each for each in view.nodes if each[1].attribute])
    del node.attribute[choose.randrange(len(node.attribute))]


def repeat(choose: random.Random, view: View) -> None:
    _, node = pick(choose, [each for each in view.nodes if each[1].attribute])
    node.attribute.add().CopyFrom(choose.choice(node.attribute))


def add(choose: random.Random, view: View) -> None:
    """Give a node an attribute that its operator has, of the right kind or another; or one that it lacks."""
    _, node = pick(choose, view.nodes)
    domain = "" if node.domain == "ai.onnx" else node.domain
    declared = []
    if onnx.defs.has(node.op_type, domain) and choose.random() < 0.8:
        declared = list(onnx.defs.get_schema(node.op_type, domain=domain).attributes.values())
    if not declared:
        attribute = node.attribute.add(name=choose.choice(COMMON))
        attribute.type = choose.choice(tuple(SCALARS))
        _set(choose, attribute, attribute.type)
        return
    schema = choose.choice(declared)
    kind = int(schema.type.value)
    if kind not in SCALARS or choose.random() < 0.1:
        kind = choose.choice(tuple(SCALARS))
    kept = [each for each in node.attribute if each.name != schema.name]
    del node.attribute[:]
    node.attribute.extend(kept)
    attribute = node.attribute.add(name=schema.name, type=kind)
    _set(choose, attribute, kind)


def _set(choose: random.Random, attribute: onnx.AttributeProto, kind: int) -> None:
    if kind == AttributeProto.INT:
        attribute.i = hostile.integer(choose)
    elif kind == AttributeProto.FLOAT:
        attribute.f = hostile.number(choose)
    elif kind == AttributeProto.STRING:
        attribute.s = _octets(choose)
    elif kind == AttributeProto.INTS:
        attribute.ints[:] = hostile.integers(choose) if choose.random() < 0.5 else hostile.small_integers(choose)
    elif kind == AttributeProto.FLOATS:
        attribute.floats[:] = [hostile.number(choose) for _ in range(choose.choice((0, 1, 2, 3, 8, 100)))]
    else:
        attribute.strings[:] = [_octets(choose) for _ in range(choose.choice((0, 1, 2, 3, 8)))]


def _octets(choose: random.Random) -> bytes:
    return b"\xff\xfe\x00" if choose.random() < 0.1 else hostile.text(choose).encode("utf-8", "surrogatepass")


def _tensor(choose: random.Random) -> onnx.TensorProto:
    array = np.array(choose.choice((hostile.small_integers(choose), choose.randint(-2, 5))))
    return numpy_helper.from_array(array.astype(choose.choice((np.int64, np.float32, np.bool_, np.int32, np.uint8))))


def graphs(choose: random.Random, view: View) -> None:
    """Exchange the graph of an attribute: for another of the model, for one without nodes, or for one that holds it."""
    attribute = pick(choose, [each for each in view.attributes if each.HasField("g")])
    draw = choose.random()
    if draw < 0.2:
        attribute.ClearField("g")
    elif draw < 0.4:
        attribute.g.Clear()
    elif draw < 0.6:
        other = onnx.GraphProto()  # a copy: it may be inside the graph that it replaces
        other.CopyFrom(pick(choose, [each.g for each in view.attributes if each.HasField("g")]))
        attribute.g.CopyFrom(other)
    elif draw < 0.8:
        part = choose.choice(("input", "output", "node", "initializer"))
        attribute.g.ClearField(part)
    else:
        nest(choose, view)


def nest(choose: random.Random, view: View) -> None:
    """Put a node with a subgraph into its own subgraph, some levels deep."""
    holders = [node for _, node in view.nodes if any(each.HasField("g") for each in node.attribute)]
    node = pick(choose, holders)
    for _ in range(choose.choice((1, 2, 5, 12, 40))):
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        if copy.ByteSize() > 200_000:
            break
        graph = next(each.g for each in node.attribute if each.HasField("g"))
        graph.node.append(copy)


def branch(choose: random.Random, view: View) -> None:
    """Put a part of a graph into both branches of an If."""
    _, node = pick(choose, [each for each in view.nodes if each[1].output])
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    outputs = [helper.make_empty_tensor_value_info(name) for name in copy.output]
    name = choose.choice([*view.names(), ""])
    node.Clear()
    node.op_type = "If"
    node.input.append(name)
    node.output.extend(copy.output)
    for key in ("then_branch", "else_branch")[: choose.choice((1, 2, 2, 2))]:
        node.attribute.append(helper.make_attribute(key, helper.make_graph([copy], key, [], outputs)))


CHANGES = {
    other_value: 8,
    near_value: 6,
    other_kind: 5,
    other_label: 2,
    reference: 2,
    other_name: 3,
    drop: 4,
    repeat: 2,
    add: 6,
    graphs: 4,
    nest: 2,
    branch: 2,
}

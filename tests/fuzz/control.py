"""Templates of operators with subgraphs, and of sequences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from fuzz.builder import Builder, UnsuitableError, Value, element_type
from fuzz.elementwise import partner

Grow = Callable[[Builder, int], None]
"""Adds that many random templates to a graph."""


def condition_of(b: Builder) -> Value:
    """A single truth: an input, a constant, or something about a value or its size."""
    roll = b.choose.random()
    if roll < 0.4:
        return b.operand(np.asarray(b.choose.random() < 0.5), "condition")
    if roll < 0.7:
        size = b.one("Size", b.pick("fi"))
        return b.one(
            b.choose.choice(["Greater", "Less", "Equal"]), size, b.constant(np.asarray(b.choose.choice([4, 12])))
        )
    x = b.pick("f", where=lambda v: v.dtype == np.float32)
    total = b.one("ReduceSum", x, keepdims=0)
    return b.one("Greater", total, b.constant(np.float32(0)))


def if_(b: Builder, grow: Grow) -> None:
    condition = condition_of(b)
    x = b.pick("f")
    count = b.choose.choice([1, 1, 2])
    branches = []
    for name in ("then", "else"):
        body = b.body()
        body.pool.append(x)
        start = len(body.pool)
        grow(body, b.choose.randint(0, 3))
        made = [v for v in body.pool[start:] if v.dtype == x.dtype]
        outputs = []
        for _ in range(count):
            source = b.choose.choice(made) if made else body.pick("f", where=lambda v: v.dtype == x.dtype)
            outputs.append(body.one(b.choose.choice(["Identity", "Neg"]), source))
        branches.append(body.graph(name, [], outputs))
    node = b.make_node("If", [condition.name], count, then_branch=branches[0], else_branch=branches[1])
    b.add([node], list(node.output))


def loop(b: Builder, grow: Grow) -> None:
    x = b.pick("f", where=lambda v: v.dtype == np.float32 and v.array.size <= 256)
    body = b.body()
    step, alive, state = (body.names.value("Body") for _ in range(3))
    inputs = [
        helper.make_tensor_value_info(step, onnx.TensorProto.INT64, []),
        helper.make_tensor_value_info(alive, onnx.TensorProto.BOOL, []),
        helper.make_tensor_value_info(state, element_type(x.array), None),
    ]
    current = Value(state, x.array)
    body.known |= {step: np.asarray(1), alive: np.asarray(True), state: x.array}
    body.pool += [current, current]
    start = len(body.pool)
    grow(body, b.choose.randint(0, 3))
    made = [v for v in body.pool[start:] if v.dtype == x.dtype and v.shape == x.shape]
    change = b.choose.choice(made) if made else partner(body, current, pooled=0)
    following = body.one("Tanh", body.one(b.choose.choice(["Add", "Mul"]), current, change))
    if following.shape != x.shape:
        raise UnsuitableError
    outputs = [following]
    if b.choose.random() < 0.6:
        counted = body.one("Cast", Value(step, np.asarray(1)), to=1)
        outputs.append(body.one("Add", body.one("ReduceMax", following, keepdims=0), counted))
    if b.choose.random() < 0.5:
        goes_on = body.one("Identity", Value(alive, np.asarray(True)))
    else:
        goes_on = body.one("Less", Value(step, np.asarray(1)), body.constant(np.asarray(b.choose.choice([0, 1, 2]))))
    graph = body.graph("body", inputs, [goes_on, *outputs])
    trips = b.operand(np.asarray(b.choose.choice([0, 1, 2, 3, 3])), "trips")
    begins = b.operand(np.asarray(True), "begins") if b.choose.random() < 0.5 else None
    node = b.make_node("Loop", [trips.name, begins.name if begins else "", x.name], len(outputs), body=graph)
    b.add([node], list(node.output))


def scan(b: Builder, grow: Grow) -> None:
    x = b.pick("f", ranks=[2, 3], where=lambda v: v.dtype == np.float32)
    body = b.body()
    body.pool.clear()
    state, item = body.names.value("Body"), body.names.value("Body")
    first = b.operand(b.floats(x.shape[1:]), "state")
    values = [Value(state, first.array), Value(item, x.array[0])]
    body.known |= {v.name: v.array for v in values}
    body.pool += values
    start = len(body.pool)
    grow(body, b.choose.randint(0, 2))
    made = [v for v in body.pool[start:] if v.dtype == x.dtype and v.shape == first.shape]
    mixed = body.one("Add", values[0], b.choose.choice([*made, values[1]]))
    following = body.one("Tanh", mixed)
    infos = [helper.make_tensor_value_info(v.name, element_type(v.array), [None] * v.rank) for v in values]
    graph = body.graph("body", infos, [following, body.one("Identity", mixed)])
    for info in graph.output:  # without a rank ONNX Runtime does not know how much to allocate
        info.CopyFrom(helper.make_tensor_value_info(info.name, element_type(x.array), [None] * (x.rank - 1)))
    direction = b.choose.choice([None, [0], [1]])
    node = b.make_node("Scan", [first.name, x.name], 2, body=graph, num_scan_inputs=1, scan_input_directions=direction)
    b.add([node], list(node.output))


def sequence(b: Builder, grow: Grow) -> None:
    """Split into a sequence and join again, or pick from it."""
    if b.opset < 11:
        raise UnsuitableError
    x = b.pick("f", ranks=[1, 2, 3])
    axis = b.choose.randrange(x.rank)
    if b.choose.random() < 0.6:
        make = b.make_node("SplitToSequence", [x.name], axis=axis, keepdims=b.choose.choice([None, 0, 1]))
    else:
        others = [partner(b, x, pooled=1) for _ in range(b.choose.choice([0, 1, 2]))]
        make = b.make_node("SequenceConstruct", [x.name, *(v.name for v in others if v.shape == x.shape)])
    if b.choose.random() < 0.5:
        use = b.make_node("SequenceAt", [make.output[0], b.operand(np.asarray(b.choose.choice([0, -1]))).name])
    else:
        use = b.make_node("ConcatFromSequence", [make.output[0]], axis=0, new_axis=b.choose.choice([None, 1]))
    b.add([make, use], [use.output[0]])


TEMPLATES = {if_: (9, 3), loop: (9, 2), scan: (9, 1), sequence: (11, 1)}

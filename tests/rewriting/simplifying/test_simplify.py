"""The passes together: random graphs compute the same, everything can be skipped, names and metadata survive."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnx.helper as oh
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

import onnxlift
from onnxlift.errors import OnnxLiftError
from onnxlift.rewriting.stages import SIMPLIFYING
from rewriting.graphs import apply, assert_same, normal_form, operators, parse
from rewriting.running_stages import normalise, simplify

# Steps of a random graph: operator, attributes, and what its other inputs are. All take and give float tensors of
# shape (batch, 2, 6) except that the shape arithmetic in between may go wherever it likes.
SAME_SHAPE = {
    "Neg": {},
    "Relu": {},
    "Identity": {},
    "Cast": {"to": 1},
    "Dropout": {},
    "Softmax": {"axis": -1},
    "Elu": {"alpha": 0.5},
}
CONSTANTS = [np.float32(1), np.float32(0), np.float32(-0.0), np.float32(2.5), np.ones((1, 6), np.float32)]

STEPS = {step.name: step for step in SIMPLIFYING.steps}


class Builder:
    """Grows a graph by one random step at a time."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initialisers: list[onnx.TensorProto] = []
        self.values = ["x", "other"]
        self.count = itertools.count()

    def node(self, op: str, inputs: list[str], **attributes: object) -> str:
        name = f"v{next(self.count)}"
        self.nodes.append(oh.make_node(op, inputs, [name], name=f"n_{name}", **attributes))
        return name

    def constant(self, array: np.ndarray, as_node: bool = True) -> str:
        name = f"c{next(self.count)}"
        tensor = numpy_helper.from_array(np.asarray(array), name)
        if as_node:
            self.nodes.append(oh.make_node("Constant", [], [name], value=tensor))
        else:
            self.initialisers.append(tensor)
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def size(self, value: str, axis: int) -> str:
        return self.node("Gather", [self.node("Shape", [value]), self.ints(axis)], axis=0)

    def step(self, draw: st.DrawFn) -> None:
        x = draw(st.sampled_from(self.values))
        kind = draw(
            st.sampled_from(
                ["same", "binary", "constant", "reshape", "transpose", "squeeze", "expand", "slice", "cast"]
            )
        )
        if kind == "same":
            op = draw(st.sampled_from(sorted(SAME_SHAPE)))
            result = self.node(op, [x], **SAME_SHAPE[op])
        elif kind == "binary":
            result = self.node(
                draw(st.sampled_from(["Add", "Sub", "Mul", "Max"])), [x, draw(st.sampled_from(self.values))]
            )
        elif kind == "constant":
            constant = self.constant(draw(st.sampled_from(CONSTANTS)), draw(st.booleans()))
            pair = [x, constant] if draw(st.booleans()) else [constant, x]
            result = self.node(draw(st.sampled_from(["Add", "Sub", "Mul"])), pair)
        elif kind == "reshape":
            target = draw(st.sampled_from([(0, 3, 4), (0, 4, 3), (-1, 12), (0, -1), (0, 0, 2, 3), (12, -1)]))
            if draw(st.booleans()):
                there = self.node("Reshape", [x, self.ints(*target)])
            else:
                parts = [self.size(x, 0), self.ints(draw(st.sampled_from([3, 4, 12]))), self.ints(-1)]
                there = self.node("Reshape", [x, self.node("Concat", parts, axis=0)])
            back = self.node("Concat", [self.size(x, 0), self.size(x, 1), self.ints(6)], axis=0)
            result = self.node("Reshape", [there, draw(st.sampled_from([back, self.ints(-1, 2, 6)]))])
        elif kind == "transpose":
            order = draw(st.permutations(range(3)))
            there = self.node("Transpose", [x], perm=order)
            result = self.node("Transpose", [there], perm=[order.index(i) for i in range(3)])
        elif kind == "squeeze":
            axis = draw(st.integers(0, 3))
            there = self.node("Unsqueeze", [x, self.ints(axis)])
            there = self.node("Unsqueeze", [there, self.ints(0)])
            result = self.node("Squeeze", [there, self.ints(0, axis + 1)])
        elif kind == "expand":
            shape = self.node("Shape", [draw(st.sampled_from(self.values))])
            hidden = self.node("Equal", [shape, self.ints(-1)])
            shape = self.node("Where", [hidden, self.ints(1, 1, 1), shape])
            result = self.node("Add", [self.node("Expand", [self.constant(CONSTANTS[3]), shape]), x])
        elif kind == "slice":
            step = draw(st.sampled_from([1, -1]))
            first, last = (0, 2**62) if step == 1 else (-1, -(2**62))
            result = self.node("Slice", [x, self.ints(first), self.ints(last), self.ints(1), self.ints(step)])
        else:
            through = draw(st.sampled_from([onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT]))
            result = self.node("Cast", [self.node("Cast", [x], to=through)], to=onnx.TensorProto.FLOAT)
        self.values.append(result)


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    builder = Builder()
    for _ in range(draw(st.integers(1, 8))):
        builder.step(draw)
    outputs = draw(st.lists(st.sampled_from(builder.values[2:]), min_size=1, max_size=3, unique=True))
    shape = ["batch", 2, 6]
    graph = oh.make_graph(
        builder.nodes,
        "random",
        [oh.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("x", "other")],
        [oh.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in outputs],
        builder.initialisers,
    )
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 18)], ir_version=10)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [*STEPS, "all"])
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(proto=models())
def test_random_graphs_compute_the_same(name: str, proto: onnx.ModelProto) -> None:
    model = ir.from_proto(proto)
    normalise(model)
    if name == "all":
        simplify(model)
    else:
        STEPS[name](model)
    assert_same(proto, model, [{"batch": 1}, {"batch": 3}])


def test_skipped_passes_do_not_run() -> None:
    text = "g (float[n] x) => (y) { a = Cast <to = 1> (x) b = Transpose(a) y = Neg(b) }"
    model = normal_form(parse(text))
    assert "no-ops" not in simplify(model, skip=["no-ops"])
    assert operators(model) == ["Cast", "Transpose", "Neg"]


def test_an_unknown_step_cannot_be_skipped() -> None:
    with pytest.raises(OnnxLiftError, match=r"no step 'fold' to skip.*'constant-folding' or"):
        onnxlift.lift(parse("g (float[n] x) => (y) { y = Neg(x) }"), skip_passes=["fold"])


def test_stages_are_shown_when_something_changed() -> None:
    stages: list[tuple[str, int]] = []
    model = ir.from_proto(parse("g (float[n] x) => (y) { a = Identity(x) b = Cast <to = 1> (a) y = Neg(b) }"))
    normalise(model, lambda name, model: stages.append((name, len(model.graph))))
    simplify(model, observer=lambda name, model: stages.append((name, len(model.graph))))
    assert stages == [("identities", 2), ("no-ops", 1)]


def test_a_second_run_finds_nothing() -> None:
    text = """g (float[batch, seq, 6] x) => (y) {
        s = Shape(x) i = Constant <value_ints = [0]> () b = Gather(s, i) rest = Constant <value_ints = [-1, 3]> ()
        t = Concat <axis = 0> (b, rest) r = Reshape(x, t) p = Transpose <perm = [0, 2, 1]> (r)
        q = Transpose <perm = [0, 2, 1]> (p) back = Shape(x) y = Reshape(q, back)
    }"""
    model, _ = apply(text, [])
    assert sum(simplify(model).values()) > 0
    assert not any(simplify(model).values())


def test_a_replaced_node_keeps_name_and_metadata() -> None:
    model = normal_form(
        parse("g (float[n, m] x) => (y) { a = Transpose(x) b = Relu(a) c = Transpose(b) d = Transpose(c) y = Neg(d) }")
    )
    for node in model.graph:
        node.name = f"/block/{node.outputs[0].name}"
        node.metadata_props["scope"] = node.name
    simplify(model)
    assert [(node.op_type, node.name, node.metadata_props["scope"]) for node in model.graph] == [
        ("Transpose", "/block/a", "/block/a"),
        ("Relu", "/block/b", "/block/b"),
        ("Neg", "/block/y", "/block/y"),
    ]


def test_subgraphs_and_functions_are_simplified_too() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18, "local" : 1]>
        g (bool c, float[n, 3] x) => (float[n, 3] y) {
            y = If (c) <
                then_branch = a () => (float[n, 3] t) { p = Cast <to = 1> (x) t = local.Twice(p) },
                else_branch = b () => (float[n, 3] e) { s = Shape(x) q = Reshape(x, s) e = Neg(q) }
            >
        }
        <domain: "local", opset_import: ["" : 18]>
        Twice (v) => (w) { p = Transpose(v) q = Transpose(p) w = Add(q, q) }"""
    )
    model = normal_form(proto)
    simplify(model)
    then, other = (model.graph[0].attributes[name].as_graph() for name in ("then_branch", "else_branch"))
    assert [node.op_type for node in then] == ["Twice"]
    assert [node.op_type for node in other] == ["Neg"]
    assert [node.op_type for node in next(iter(model.functions.values()))] == ["Add"]
    assert_same(proto, model, [{"n": 2}, {"n": 4}])

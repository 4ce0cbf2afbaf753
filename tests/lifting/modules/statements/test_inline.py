"""What is inlined, and under which names the rest lives, never changes what is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import onnxlift
from onnxlift.lifting.code.expr import Expr
from onnxlift.lifting.modules.statements.inline import LENGTH, _Inliner
from onnxlift.lifting.names.variable_rules import LETTERS
from onnxlift.lifting.names.words import WORDS
from small_graphs import Graph, code, compare, step

# Names that meet in one variable when they are cleaned, mean something to the emitter, or mean nothing.
NAMES = [*LETTERS, *WORDS.values(), "context", "conv_out", "Q_t", "val", "tensor", "size", "trace", "i", "x_1", "step"]
UNARY = ("Sin", "Neg", "Sigmoid", "Relu", "Tanh", "Identity")
BINARY = ("Add", "Sub", "Mul", "Max")


class Draw:
    """Draws a graph of float tensors of shape (n, 3): elementwise nodes, branches and loops."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.count = 0

    def choose(self, options: Any) -> Any:
        return self.data.draw(st.sampled_from(list(options)))

    def name(self) -> str:
        self.count += 1
        return f"{self.choose(NAMES)}{self.choose(['', '_', '.', '__out'])}{self.count}"

    def float_info(self, name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3])

    def body(self, values: list[str], depth: int, length: int) -> tuple[list[onnx.NodeProto], list[str]]:
        """Nodes that read `values` and one another, and the values that they give."""
        nodes: list[onnx.NodeProto] = []
        given_ = list(values)
        for _ in range(length):
            kinds = ["unary", "binary", "binary"] + (["if", "loop"] if depth < 2 else [])
            kind = self.choose(kinds)
            recent = given_[-4:] + given_[:1]
            if kind == "unary":
                nodes.append(helper.make_node(self.choose(UNARY), [self.choose(recent)], [self.name()]))
            elif kind == "binary":
                operands = [self.choose(recent), self.choose(given_)]
                nodes.append(helper.make_node(self.choose(BINARY), operands, [self.name()]))
            elif kind == "if":
                nodes += self.branch(given_, depth)
            else:
                nodes += self.loop(given_, depth)
            given_ += [output for output in nodes[-1].output if output]
        return nodes, given_[len(values) :]

    def branch(self, values: list[str], depth: int) -> list[onnx.NodeProto]:
        total, condition = self.name(), self.name()
        outputs = [self.name() for _ in range(self.data.draw(st.integers(1, 2)))]
        sides = {}
        for side in ("then_branch", "else_branch"):
            nodes, given_ = self.body(values, depth + 1, self.data.draw(st.integers(1, 3)))
            results = []
            for _ in outputs:
                results.append(self.name())
                nodes.append(helper.make_node("Identity", [self.choose(given_ + values)], [results[-1]]))
            sides[side] = helper.make_graph(nodes, side, [], list(map(self.float_info, results)))
        return [
            helper.make_node("ReduceSum", [self.choose(values)], [total], keepdims=0),
            helper.make_node("Greater", [total, "zero"], [condition]),
            helper.make_node("If", [condition], outputs, **sides),
        ]

    def loop(self, values: list[str], depth: int) -> list[onnx.NodeProto]:
        states = [self.name() for _ in range(self.data.draw(st.integers(1, 2)))]
        iteration, going_on, still = self.name(), self.name(), self.name()
        nodes, given_ = self.body([*values, *states], depth + 1, self.data.draw(st.integers(1, 4)))
        nodes.append(helper.make_node("Identity", [going_on], [still]))
        results = []
        for _ in states:
            results.append(self.name())
            nodes.append(helper.make_node("Identity", [self.choose(given_ + states)], [results[-1]]))
        inputs = [
            helper.make_tensor_value_info(iteration, TensorProto.INT64, []),
            helper.make_tensor_value_info(going_on, TensorProto.BOOL, []),
            *map(self.float_info, states),
        ]
        outputs = [helper.make_tensor_value_info(still, TensorProto.BOOL, []), *map(self.float_info, results)]
        body = helper.make_graph(nodes, "body", inputs, outputs)
        starts = [self.choose(values) for _ in states]
        return [helper.make_node("Loop", ["trips", "go", *starts], [self.name() for _ in states], body=body)]

    def model(self) -> onnx.ModelProto:
        inputs = [self.choose(NAMES) for _ in range(2)]
        inputs[1] += "_b"
        nodes, values = self.body(inputs, 0, self.data.draw(st.integers(2, 10)))
        results = values[-1:] + self.data.draw(st.lists(st.sampled_from(values), max_size=2))
        outputs = [self.name() for _ in results]
        nodes += [helper.make_node("Neg", [value], [name]) for value, name in zip(results, outputs, strict=True)]
        constants = {"zero": np.float32(0), "go": np.array(True), "trips": np.array(self.data.draw(st.integers(0, 3)))}
        graph = helper.make_graph(
            nodes,
            "random",
            list(map(self.float_info, inputs)),
            list(map(self.float_info, outputs)),
            [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_programs_compute_the_same(data: st.DataObject) -> None:
    model = Draw(data).model()
    lifted = onnxlift.lift(model, name="random", simplify=data.draw(st.booleans()))
    random = np.random.default_rng(0)
    for size in (1, 4):
        arrays = {i.name: random.standard_normal((size, 3)).astype(np.float32) for i in model.graph.input}
        compare(lifted, model, arrays)


def test_a_straight_line_is_one_expression() -> None:
    g = Graph()
    x = g.node("Relu", g.node("Sin", g.linear(g.input("x", "n", 4), "fc")))
    assert "return F.relu(self.fc(x).sin())" in code(g.lift(x))


def test_a_line_stays_readable() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(20):
        x = g.node(("Sin", "Sigmoid", "Tanh", "Neg")[i % 4], g.linear(x, f"projection_{i}"))
    assert max(map(len, code(g.lift(x)).splitlines())) <= 8 + LENGTH + 10


def test_long_names_of_parameters_count() -> None:
    """`return (` and the rest on a line of its own would be worse than two statements."""
    g = Graph()
    x = g.node("Concat", g.input("x", "n", 4), g.node("Sin", g.node("Cos", "x")), g.node("Tanh", "x"), axis=1)
    x = g.node("Mul", g.node("Exp", x), g.weight("embeddings.position_embeddings_table_of_the_model", 1, 12))
    text = code(g.lift(x))
    assert "return (" not in text and "return x * self." in text, text


def test_the_weight_of_an_embedding_counts_like_a_parameter_of_the_module() -> None:
    """The exporter looked up all rows, and noted so. The line is as long as one may be with names that are known."""
    g = Graph()
    x = g.node("Cos", g.node("Exp", g.node("Sin", g.node("Cos", g.node("Exp", g.input("x", "n", 12, 4))))))
    model = g.model(g.node("Add", x, g.weight("embedding", 12, 4)))
    info = model.graph.value_info.add(name="embedding")
    info.type.tensor_type.elem_type = TensorProto.FLOAT
    note = ["arange", "position_embeddings_of_the_model.weight"]
    info.metadata_props.add(key="pkg.onnxscript.optimizer.folded_from", value=repr(note))
    text = code(onnxlift.lift(model, name="small"))
    assert "return x.exp().cos().sin().exp().cos() + self.position_embeddings_of_the_model.weight" in text, text


@pytest.mark.parametrize(("op_type", "written"), [("Equal", "x != y"), ("Less", "~(x < y)")])
def test_what_is_not_equal_differs(op_type: str, written: str) -> None:
    """But what is not less need not be greater or equal: NaN is neither."""
    g = Graph()
    x, y = g.input("x", "n", 4), g.input("y", "n", 4)
    assert written in code(g.lift(g.node("Where", g.node("Not", g.node(op_type, x, y)), x, y)))


def test_a_value_that_is_read_twice_is_computed_once() -> None:
    g = Graph()
    h = g.node("Sin", g.linear(g.input("x", "n", 4), "fc"))
    lifted = g.lift(g.node("Mul", g.node("Exp", h), g.node("Cos", h)))
    assert lifted.source.count("self.fc(") == 1 and lifted.source.count(".sin()") == 1


def test_a_line_of_many_values_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = 0
    length = _Inliner.length

    def counted(self: _Inliner, expr: Expr) -> int:
        nonlocal measured
        measured += 1
        return length(self, expr)

    monkeypatch.setattr(_Inliner, "length", counted)
    g = Graph()
    x = g.input("x", "n", 4)
    count = 300
    assert "torch.cat(" in g.lift(g.node("Concat", *[g.linear(x, f"fc_{i}") for i in range(count)], axis=1)).source
    assert measured < 20 * count


def test_steps_of_the_model_that_go_on_with_one_another_are_one_line() -> None:
    g = Graph()
    x = step(g, step(g, step(g, g.input("x", "n", 4), "stem"), "body"), "head")
    lifted = g.lift(g.node("Softmax", x, name="/Softmax"))
    assert "return self.head(self.body(self.stem(x))).softmax(-1)" in lifted.source


def test_numbered_steps_have_a_line_each() -> None:
    g = Graph()
    x = step(g, step(g, g.input("x", "n", 4), "stage1"), "stage2a")
    assert "x = self.stage1(x)\n        return self.stage2a(x)" in code(g.lift(x))


def test_the_last_of_numbered_steps_has_its_line_too() -> None:
    g = Graph()
    x = step(g, step(g, g.input("x", "n", 4), "stage1"), "stage2")
    assert "x = self.stage2(x)\n        return x.softmax(-1)" in code(g.lift(g.node("Softmax", x, name="/Softmax")))


def test_a_step_does_not_move_into_what_reads_more_than_it() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    body = step(g, x, "body")
    assert "body = self.body(x)\n" in code(g.lift(g.node("Concat", body, g.node("Exp", x), axis=1)))
    assert "return self.body(x) + x.exp()" in code(g.lift(g.node("Add", body, g.node("Exp", x))))


def test_a_step_among_functions_is_not_nested_as_deep_as_layers() -> None:
    g = Graph()
    x = g.linear(step(g, g.input("x", "n", 4), "body"), "fc1")
    x = g.linear(g.node("Relu", x, name="/Relu"), "fc2")
    assert "x = F.relu(self.fc1(self.body(x)))\n        return self.fc2(x)" in code(g.lift(x))


def test_a_weight_that_a_loop_carries_unchanged_is_read_where_it_is_used() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18]>
        loops (float[2, 2] x, int64 trips, bool go) => (float[2, 2] y) <float[2, 2] w = {0.5, 0.25, -0.5, 1}> {
            y, last = Loop (trips, go, x, w) <body = round (int64 i, bool on, float[2, 2] s, float[2, 2] m)
                => (bool off, float[2, 2] t, float[2, 2] n) {
                off = Identity(on)
                p = MatMul(s, m)
                t = Tanh(p)
                n = Identity(m)
            }>
        }"""
    )
    lifted = onnxlift.lift(model, name="rounds", structure="flat")
    x = np.random.default_rng(0).standard_normal((2, 2)).astype(np.float32)
    compare(lifted, model, {"x": x, "trips": np.array(3), "go": np.array(True)})
    loop = lifted.source.index("for ", lifted.source.index("def forward"))
    assert "@ self.w" in lifted.source[loop:], lifted.source


@pytest.mark.parametrize("simplify", [True, False])
def test_a_value_from_outside_is_not_computed_in_every_round_of_a_loop(simplify: bool) -> None:
    model = onnx.parser.parse_model(
        """
        <ir_version: 10, opset_import: ["" : 18]>
        loops (float[n] x, int64 trips, bool go) => (float[n] y)
        {
            slow = Sin(x)
            y = Loop (trips, go, x) <body = b (int64 i, bool c, float[n] s) => (bool d, float[n] t) {
                d = Identity(c) t = Add(s, slow)
            }>
        }
        """
    )
    lifted = onnxlift.lift(model, simplify=simplify)
    compare(lifted, model, {"x": np.array([1.0, 2.0], np.float32), "trips": np.array(3), "go": np.array(True)})
    loop = lifted.source.index("for ")
    assert ".sin()" in lifted.source[:loop] and ".sin()" not in lifted.source[loop:]


def pieces(g: Graph, x: str, *slices: tuple[int, int]) -> str:
    """Every `step`-th column of x from `start` on, for each pair of these, joined."""
    axes = g.constant("axes", np.array([1]))
    ends = g.constant("ends", np.array([2**62]))
    parts = []
    for start, step_ in slices:
        bounds = (
            g.constant(f"from_{start}", np.array([start])),
            ends,
            axes,
            g.constant(f"by_{step_}", np.array([step_])),
        )
        parts.append(g.node("Slice", x, *bounds))
    return g.node("Concat", *parts, axis=-1)


def test_slices_that_are_joined_stand_in_the_line() -> None:
    g = Graph()
    x = g.node("Sin", g.node("Exp", g.input("x", "n", 8)))
    text = code(g.lift(pieces(g, x, (0, 4), (1, 4), (2, 4), (3, 4))))
    assert "torch.cat((x[:, ::4], x[:, 1::4], x[:, 2::4], x[:, 3::4]), 1)" in text


def test_slices_that_do_not_fit_are_all_or_none() -> None:
    g = Graph()
    x = g.node("Sin", g.node("Exp", g.input("x", "n", 8)))
    text = code(g.lift(pieces(g, x, *((start, 8) for start in range(7)))))
    assert max(map(len, text.splitlines())) <= 100


def test_slices_of_two_variables_are_not_moved_together() -> None:
    g = Graph()
    x = g.node("Sin", g.input("x", "n", 8))
    y = g.node("Cos", "x")
    g.lift(g.node("Concat", pieces(g, x, (0, 4), (1, 4)), pieces(g, y, (2, 4), (3, 4)), axis=-1))


def pair(g: Graph) -> tuple[str, str]:
    """Two results of a module within a module."""
    x = g.linear(g.input("x", "n", 4), "outer.inner.a")
    return g.linear(x, "outer.inner.b"), g.linear(x, "outer.inner.c")


def test_all_results_of_a_module_are_returned_at_once() -> None:
    g = Graph()
    source = code(g.lift(*(g.node("Sin", value, name=f"Sin_{i}") for i, value in enumerate(pair(g)))))
    assert "return self.inner(x)" in source
    assert "def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:" in source


def test_results_of_which_one_is_changed_are_returned_one_by_one() -> None:
    g = Graph()
    first, second = pair(g)
    second = g.node("Cos", second, name="/outer/Cos")
    source = code(g.lift(g.node("Sin", first, name="Sin_0"), g.node("Sin", second, name="Sin_1")))
    assert "return self.inner(x)" not in source

"""Model-local functions and operators that are defined by a body."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from onnx import helper

import onnxlift
from onnxlift.errors import LoadError, UnsupportedError
from onnxlift.ir.load import load
from onnxlift.rewriting.normal_form import expand_operators, inline_functions
from rewriting.running_stages import normalise

random = np.random.default_rng(2)
X = random.normal(size=(3, 4)).astype(np.float32)
HEADER = '<ir_version: 10, opset_import: ["" : 18, "acme" : 1]>'


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def function(text: str, opset: int = 18, overload: str = "") -> str:
    extra = f', overload: "{overload}"' if overload else ""
    return f'<domain: "acme", opset_import: ["" : {opset}, "acme" : 1]{extra}> {text}'


def inlined(model: onnx.ModelProto) -> ir.Model:
    loaded = load(model)
    inline_functions.run(loaded)
    assert not loaded.functions
    return loaded


def run(model: onnx.ModelProto, *inputs: np.ndarray[Any, Any]) -> str:
    """Compare the lifted model with ONNX Runtime; gives the source."""
    lifted = onnxlift.lift(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {v.name: x for v, x in zip(model.graph.input, inputs, strict=True)})
    with torch.no_grad():
        actual = lifted.module()(*map(torch.from_numpy, inputs))
    for a, e in zip(actual if isinstance(actual, tuple) else (actual,), expected, strict=True):
        np.testing.assert_allclose(a.numpy(), e, rtol=1e-5, atol=1e-6, err_msg=lifted.source)
    return lifted.source


def test_functions_that_call_functions() -> None:
    model = parse(
        f"""{HEADER} g (float[3, 4] x) => (float[3, 4] y, float[3, 4] z) {{
            a, b = acme.Outer(x)
            y = acme.Inner(a)
            z = Add(b, x)
        }}
        {function("Inner (p) => (q) { t = Sin(p)  q = Mul(t, p) }")}
        {function("Outer (p) => (q, r) { t = acme.Inner(p)  q = acme.Inner(t)  r = Neg(t) }")}"""
    )
    graph = inlined(model).graph
    assert [node.op_type for node in graph] == ["Sin", "Mul", "Sin", "Mul", "Neg", "Sin", "Mul", "Add"]
    names = [value.name for node in graph for value in node.outputs]
    assert len(set(names)) == len(names)
    run(model, X)


def test_names_say_which_call_a_node_belongs_to() -> None:
    model = parse(
        f"""{HEADER} g (float[3, 4] x) => (float[3, 4] y) {{
            [first] a = acme.Outer(x)
            [second] y = acme.Inner(a)
        }}
        {function("Inner (p) => (q) { [act] q = Tanh(p) }")}
        {function("Outer (p) => (q) { [inner] t = acme.Inner(p)  q = Neg(t) }")}"""
    )
    model.graph.node[1].name = "/second/"
    names = [node.name or "" for node in inlined(model).graph]
    assert names[0] == "/first/inner/act" and names[1].startswith("/first/") and names[2] == "/second/act"


def test_attributes_passed_defaulted_and_left_out() -> None:
    body = """Scale <alpha, beta: float = 3.0> (p) => (q) {
        a = Constant <value_float: float = @alpha> ()
        b = Constant <value_float: float = @beta> ()
        t = Mul(p, a)
        u = Add(t, b)
        q = Elu <alpha: float = @alpha> (u)
    }"""
    run(
        parse(
            f"""{HEADER} g (float[3, 4] x) => (float[3, 4] y) {{
                a = acme.Scale <alpha = 2.0> (x)
                y = acme.Scale <alpha = 0.5, beta = -1.0> (a)
            }}
            {function(body)}"""
        ),
        X,
    )


def test_attribute_that_nobody_passes_is_not_there() -> None:
    model = parse(
        f"""{HEADER} g (float[3, 4] x) => (float[3, 4] y) {{ y = acme.Leaky (x) }}
        {function("Leaky <slope> (p) => (q) { q = LeakyRelu <alpha: float = @slope> (p) }")}"""
    )
    assert "alpha" not in next(iter(inlined(model).graph)).attributes
    run(model, X)


def test_attributes_through_two_functions() -> None:
    run(
        parse(
            f"""{HEADER} g (float[3, 4] x) => (float[3, 4] y) {{ y = acme.Outer <k = 0.25> (x) }}
            {function("Inner <slope> (p) => (q) { q = LeakyRelu <alpha: float = @slope> (p) }")}
            {function("Outer <k> (p) => (q) { t = Neg(p)  q = acme.Inner <slope: float = @k> (t) }")}"""
        ),
        X,
    )


def test_control_flow_in_functions() -> None:
    body = """Choose <alpha> (c, p, n) => (q) {
        q = If (c) <
            then_branch = t () => (a) { a = LeakyRelu <alpha: float = @alpha> (p) },
            else_branch = e () => (b) {
                yes = Constant <value = bool {1}> ()
                b = Loop (n, yes, p) <body = l (int64 i, bool d, float[3, 4] s) => (bool k, float[3, 4] r) {
                    k = Identity(d)  r = acme.Halve(s)
                }>
            }
        >
    }"""
    model = parse(
        f"""{HEADER} g (bool c, float[3, 4] x, int64 n) => (float[3, 4] y) {{
            a = acme.Choose <alpha = 0.3> (c, x, n)
            y = acme.Choose <alpha = 0.7> (c, a, n)
        }}
        {function("Halve (p) => (q) { h = Constant <value = float {0.5}> ()  q = Mul(p, h) }")}
        {function(body)}"""
    )
    for flag in (True, False):
        run(model, np.array(flag), X, np.array(3))


def test_missing_optional_inputs() -> None:
    model = parse(
        f"""{HEADER} g (float[3, 4] x) => (float[3, 4] y) {{
            low = Constant <value = float {{-0.5}}> ()
            high = Constant <value = float {{0.25}}> ()
            a = acme.Limit(x, low)
            y = acme.Limit(a, , high)
        }}
        {function("Limit (p, low, high) => (q) { q = Clip(p, low, high) }")}"""
    )
    run(model, X)


def test_outputs_that_are_inputs() -> None:
    model = parse(
        f"""{HEADER} g (float[3, 4] x) => (float[3, 4] y, float[3, 4] z, float[3, 4] w) {{
            y, z = acme.Both(x)
            w = acme.Same(x)
        }}
        {function("Both (p) => (q, p) { q = Neg(p) }")}
        {function("Same (p) => (p) { }")}"""
    )
    loaded = load(model)
    normalise(loaded)
    assert [value.name for value in loaded.graph.outputs] == ["y", "z", "w"]


def test_overloads() -> None:
    model = parse(
        f"""{HEADER} g (float[3, 4] x) => (float[3, 4] y) {{ a = acme.F:one(x)  y = acme.F:two(a) }}
        {function("F (p) => (q) { q = Sin(p) }", overload="one")}
        {function("F (p) => (q) { q = Neg(p) }", overload="two")}"""
    )
    assert [node.op_type for node in inlined(model).graph] == ["Sin", "Neg"]


def test_another_operator_set_than_the_models() -> None:
    """Softmax works on one axis from opset 13 on; until then on all axes from its own. The function keeps its own."""
    text = '<ir_version: 10, opset_import: ["" : 18, "acme" : 1]>'
    model = parse(
        f"""{text} g (float[2, 3, 4] x) => (float[2, 3, 4] y, float[2, 3, 4] z) {{
            y = acme.Old(x)
            z = Softmax <axis = 1> (x)
        }}
        {function("Old (p) => (q) { q = Softmax <axis = 1> (p) }", opset=11)}"""
    )
    x = random.normal(size=(2, 3, 4)).astype(np.float32)
    with torch.no_grad():
        old, new = onnxlift.convert(model)(torch.from_numpy(x))
    torch.testing.assert_close(old.sum((1, 2)), torch.ones(2))
    torch.testing.assert_close(new.sum(1), torch.ones(2, 4))


def test_functions_with_weights_become_modules() -> None:
    body = "Block (p, u, v) => (q) { [up] t = MatMul(p, u)  [act] s = Relu(t)  [down] r = MatMul(s, v)  q = Add(r, p) }"
    numbers = ", ".join(map(str, random.integers(-3, 4, 8)))
    weights = [f"float[4, 2] {name}_u = {{{numbers}}}, float[2, 4] {name}_v = {{{numbers}}}" for name in ("one", "two")]
    model = parse(
        f"""{HEADER} g (float[3, 4] x) => (float[3, 4] y) <{", ".join(weights)}> {{
            [one] a = acme.Block(x, one_u, one_v)
            [two] y = acme.Block(a, two_u, two_v)
        }}
        {function(body)}"""
    )
    source = run(model, X)
    assert source.count("nn.Linear(4, 2, bias=False)") == 1
    assert "class Block(nn.Module):" in source and "self.one = Block()" in source


def test_users_own_operator_wins_over_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxlift.lifting.ops import registry

    registry.load_builtin()  # before, or they would be loaded into the copy, and be gone with it
    monkeypatch.setattr(registry, "_TABLE", dict(registry._TABLE))

    @onnxlift.op("Twice", domain="acme")
    def Twice(n: Any, x: Any) -> Any:
        return x.mul(2)

    model = parse(
        f"""{HEADER} g (float[3, 4] x) => (float[3, 4] y) {{ y = acme.Twice(x) }}
        {function("Twice (p) => (q) { q = Add(p, p) }")}"""
    )
    assert "x.mul(2)" in run(model, X)


def test_too_many_inputs_are_refused() -> None:
    model = parse(
        f"""{HEADER} g (float[3, 4] x) => (float[3, 4] y) {{ y = acme.F(x, x) }}
        {function("F (p) => (q) { q = Sin(p) }")}"""
    )
    with pytest.raises(LoadError, match="has 2 inputs, and function"):
        onnxlift.lift(model)


def test_nesting_of_subgraphs_counts_across_calls() -> None:
    """Each function has a few branches in one another, and calls the next one in the innermost."""

    def branches(inner: str, depth: int) -> str:
        for _ in range(depth):
            inner = f"q = If (c) <then_branch = t () => (q) {{ {inner} }}, else_branch = e () => (r) {{ r = Neg(p) }}>"
        return inner

    calls = [function(f"F{i} (c, p) => (q) {{ {branches(f'q = acme.F{i - 1}(c, p)', 5)} }}") for i in range(1, 9)]
    functions = "\n".join([function("F0 (c, p) => (q) { q = Sin(p) }"), *calls])
    text = f"{HEADER} g (bool c, float[3, 4] x) => (float[3, 4] y) {{ y = acme.F8(c, x) }} {functions}"
    with pytest.raises(LoadError, match="nested more than"):
        onnxlift.lift(parse(text))


def test_many_calls() -> None:
    calls = " ".join(f"v{i + 1} = acme.F(v{i})" for i in range(4000))
    model = parse(
        f"""{HEADER} g (float[3, 4] v0) => (float[3, 4] y) {{ {calls} y = Neg(v4000) }}
        {function("F (p) => (q) { t = Sin(p)  q = Cos(t) }")}"""
    )
    loaded = load(model)
    assert inline_functions.run(loaded) == 4000
    names = [value.name for node in loaded.graph for value in node.outputs]
    assert len(set(names)) == len(names) == 8001


# Operators that are defined by a body


def expanded(node: onnx.NodeProto, inputs: dict[str, Any], opset: int, supported: set[str]) -> list[str]:
    """The operators of the graph in which only `supported` ones are left alone."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in node.output])
    model = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10))
    normalise(model)
    expand_operators.run(model, supported=lambda _, op_type: op_type in supported)
    return [n.op_type for n in model.graph if n.op_type != "Constant"]


def test_operator_with_one_body() -> None:
    found = expanded(helper.make_node("Shrink", ["x"], ["y"], lambd=0.4), {"x": X}, 18, set())
    assert "Shrink" not in found and "Where" in found


def test_body_written_for_a_newer_opset() -> None:
    """The body of Shrink came with opset 18; it defines the operator of opset 9 as well."""
    found = expanded(helper.make_node("Shrink", ["x"], ["y"], lambd=0.4), {"x": X}, 10, set())
    assert "Where" in found


def test_body_that_depends_on_the_node_and_is_expanded_in_turn() -> None:
    node = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t"], ["loss"])
    found = expanded(node, {"x": X, "t": np.array([0, 3, 1])}, 13, set())
    assert not {"SoftmaxCrossEntropyLoss", "LogSoftmax", "NegativeLogLikelihoodLoss"} & set(found)
    found = expanded(node, {"x": X, "t": np.array([0, 3, 1])}, 13, {"LogSoftmax"})
    assert "LogSoftmax" in found and "NegativeLogLikelihoodLoss" not in found


def test_supported_operators_stay() -> None:
    assert expanded(helper.make_node("Relu", ["x"], ["y"]), {"x": X}, 18, {"Relu"}) == ["Relu"]


def test_sequence_map_reads_values_from_outside() -> None:
    model = parse(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[3, 4] x, float[4] w) => (float[3, 4] y) {
            v = Neg(w)
            s = SplitToSequence <axis = 0> (x)
            t = SequenceMap (s) <body = b (float[1, 4] e) => (float[1, 4] f) { f = Mul(e, v) }>
            y = ConcatFromSequence <axis = 0> (t)
        }"""
    )
    loaded = load(model)
    normalise(loaded)
    expand_operators.run(loaded, supported=lambda _, op_type: op_type != "SequenceMap")
    nodes = {node.op_type: node for node in loaded.graph.all_nodes()}
    assert "SequenceMap" not in nodes
    assert nodes["Mul"].inputs[1] is nodes["Neg"].outputs[0]


@pytest.mark.parametrize(
    ("call", "body", "says"),
    [
        ("acme.F()", "F (a) => (b) { b = Neg(a) }", "its input X is left out, and Neg requires it"),
        (
            "acme.F(x)",
            "F <to> (a) => (b) { b = Cast <to : int = @to> (a) }",
            "it has no attribute to, which Cast requires",
        ),
    ],
)
def test_a_call_leaves_out_nothing_that_the_body_needs(call: str, body: str, says: str) -> None:
    model = parse(f"{HEADER} g (float[3, 4] x) => (y) {{ y = {call} }} {function(body)}")
    with pytest.raises(LoadError, match=says):
        onnxlift.lift(model)


def test_a_call_may_leave_out_what_the_body_can_do_without() -> None:
    body = "F <axis> (a, low) => (b) { c = Clip(a, low)  b = Softmax <axis : int = @axis> (c) }"
    run(parse(f"{HEADER} g (float[3, 4] x) => (float[3, 4] y) {{ y = acme.F(x) }} {function(body)}"), X)


def test_a_name_that_onnx_cannot_write_into_a_body_gets_an_answer() -> None:
    """onnx writes the nodes of a FlexAttention's graph as a text, and parses it."""
    model = parse(
        """<ir_version: 13, opset_import: ["" : 26, "ai.onnx.preview" : 1]>
        g (float[1, 2, 4, 8] q, float[1, 2, 4, 8] k, float[1, 2, 4, 8] v) => (float[1, 2, 4, 8] y) {
            y = ai.onnx.preview.FlexAttention(q, k, v) <score_mod = m (float[B, H, L, S] s) => (float[B, H, L, S] t)
                <float cap = {20.0}> { u = Div(s, cap)  t = Tanh(u) }> }"""
    )
    onnxlift.lift(model)
    graph = model.graph.node[0].attribute[0].g
    graph.initializer[0].name = graph.node[0].input[1] = "c p"
    with pytest.raises(UnsupportedError, match="onnx cannot write its body: Error parsing node"):
        onnxlift.lift(model)


def test_a_body_that_onnx_writes_wrongly_gets_an_answer() -> None:
    """onnx takes what the graph of a SequenceMap gives for tensors."""
    model = parse(
        """<ir_version: 8, opset_import: ["" : 17, "acme" : 1]> g (seq(float[N]) x) => (seq(float[N]) y) {
            y = SequenceMap(x) <body = b (float[N] a) => (optional(float[N]) c) { c = acme.Unknown(a) }> }"""
    )
    with pytest.raises(UnsupportedError, match="the body that onnx writes for it is broken"):
        onnxlift.lift(model)

"""The normal form: constants are initialisers, no Identity nodes, nothing dead, names kept."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import onnx_ir as ir
import pytest

from onnxlift.ir.origin.tensors import origin_of
from onnxlift.rewriting.bodies.body import name_of
from rewriting.graphs import apply, assert_same, normal_form, operators, parse
from rewriting.running_stages import normalise

SIZES = ({"n": 2}, {"n": 5})


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("value_int = 7", np.array(7, np.int64)),
        ("value_ints = [3, -1]", np.array([3, -1], np.int64)),
        ("value_float = 0.5", np.array(0.5, np.float32)),
        ("value_floats = [1.5, -2.0]", np.array([1.5, -2.0], np.float32)),
        ("value = int32[2] {4, 5}", np.array([4, 5], np.int32)),
    ],
)
def test_every_form_of_constant_is_an_initialiser(attribute: str, expected: np.ndarray) -> None:
    proto = parse(f"g (float[n] x) => (y, z) {{ c = Constant <{attribute}> () z = Neg(x) y = Shape(c) }}")
    model = ir.from_proto(proto)
    normalise(model)
    tensor = model.graph.initializers["c"].const_value
    assert tensor is not None
    np.testing.assert_array_equal(tensor.numpy(), expected)
    assert tensor.numpy().dtype == expected.dtype
    assert operators(model) == ["Neg", "Shape"]
    assert_same(proto, model, SIZES)


def test_strings_are_constants_too() -> None:
    model = normal_form(parse('g (float[n] x) => (y) { c = Constant <value_strings = ["a", "bc"]> () y = Shape(c) }'))
    tensor = model.graph.initializers["c"].const_value
    assert tensor is not None and tensor.dtype == ir.DataType.STRING
    assert tensor.numpy().tolist() == [b"a", b"bc"]


def test_a_constant_output_is_an_initialiser_that_is_an_output() -> None:
    model, _ = apply("g (float[n] x) => (int64[2] y) { y = Constant <value_ints = [2, 3]> () }", [])
    assert model.graph.outputs[0] is model.graph.initializers["y"]


def test_merged_weights_get_their_own_names_back() -> None:
    text = """g (float[n, 3] x) => (float[n, 3] y) <float[3] first_bias = {1, 2, 4}> {
        second_bias = Identity(first_bias)
        a = Add(x, first_bias)
        y = Mul(a, second_bias)
    }"""
    model, _ = apply(text, [])
    first, second = model.graph.initializers["first_bias"], model.graph.initializers["second_bias"]
    assert first is not second
    assert first.const_value is not None
    assert operators(model) == ["Add", "Mul"]
    assert not any(origin_of(value).is_constant for value in (first, second))


def test_merged_weights_share_their_tensor() -> None:
    text = """g (float[3] x) => (float[3] y) <float[3] w = {1, 2, 4}> { v = Identity(w) a = Add(x, w) y = Mul(a, v) }"""
    graph = normal_form(parse(text)).graph
    assert graph.initializers["w"].const_value is graph.initializers["v"].const_value


def test_a_copy_that_the_model_makes_of_a_weight_is_that_weight() -> None:
    model = parse("g (float[3] x) => (float[3] y) <float[3] w = {1, 2, 4}> { clone = Identity(w) y = Add(x, clone) }")
    model.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'clone']")
    assert list(normal_form(model).graph.initializers) == ["w"]


def test_an_identity_in_front_of_an_output_hands_its_name_on() -> None:
    model, _ = apply("g (float[n] x) => (float[n] y) { a = Neg(x) b = Identity(a) y = Identity(b) }", [])
    assert operators(model) == ["Neg"]


def test_identities_that_only_connect_stay() -> None:
    text = """g (float[n] x) => (float[n] y, float[2] z, float[n] p, float[n] q) <float[2] w = {1, 2}> {
        y = Identity(x) z = Identity(w) p = Abs(x) q = Identity(p)
    }"""
    model, _ = apply(text, [])
    assert operators(model) == ["Identity", "Identity", "Abs", "Identity"]


def test_an_identity_of_an_outer_value_in_a_branch_stays() -> None:
    text = """g (bool c, float[n] x) => (float[n] y) {
        a = Neg(x)
        y = If (c) <
            then_branch = then () => (float[n] t) { t = Identity(a) },
            else_branch = other () => (float[n] e) { k = Constant <value_float = 2.0> () i = Identity(k) e = Mul(a, i) }
        >
    }"""
    model, _ = apply(text, [])
    then, other = (model.graph[1].attributes[name].as_graph() for name in ("then_branch", "else_branch"))
    assert [node.op_type for node in then] == ["Identity"]
    assert [node.op_type for node in other] == ["Mul"]
    assert list(other.initializers) == ["k"]


def test_a_constant_that_refers_to_an_attribute_of_its_function_stays() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18, "local" : 1]>
        g (float[n] x) => (float[n] y) { y = local.Scale <by = 3.0> (x) }
        <domain: "local", opset_import: ["" : 18]>
        Scale <by> (a) => (b) { c = Constant <value_float: float = @by> () d = Constant <value_float = 2.0> ()
                                e = Mul(a, c) b = Mul(e, d) }"""
    )
    model = normal_form(proto)
    body = next(iter(model.functions.values())).graph
    assert [node.op_type for node in body] == ["Constant", "Mul", "Mul"]
    assert list(body.initializers) == ["d"]
    assert_same(proto, model, SIZES)


def test_what_is_dead_goes_and_inputs_stay() -> None:
    text = """g (float[n] x, float[n] unread) => (float[n] y) <float[2] unused = {1, 2}> {
        a = Neg(x) b = Abs(a) c, d = Split <num_outputs = 2> (x) y = Relu(x)
    }"""
    model, _ = apply(text, [])
    assert operators(model) == ["Relu"]
    assert not model.graph.initializers


def test_functions_that_nobody_calls_go() -> None:
    proto = oh.make_model(
        oh.make_graph(
            [oh.make_node("Used", ["x"], ["y"], domain="local")],
            "g",
            [oh.make_tensor_value_info("x", 1, ["n"])],
            [oh.make_tensor_value_info("y", 1, ["n"])],
        ),
        opset_imports=[oh.make_opsetid("", 18), oh.make_opsetid("local", 1)],
        ir_version=10,
        functions=[
            oh.make_function("local", name, ["a"], ["b"], [oh.make_node(op, ["a"], ["b"], domain=domain)], imports)
            for imports in [[oh.make_opsetid("", 18), oh.make_opsetid("local", 1)]]
            for name, op, domain in [("Inner", "Neg", ""), ("Unused", "Inner", "local"), ("Used", "Inner", "local")]
        ],
    )
    model = normal_form(proto)
    assert [name for _, name, _ in model.functions] == ["Inner", "Used"]
    assert_same(proto, model, SIZES)


def test_the_name_of_a_fused_node_may_be_long() -> None:
    """With quadratic time, this would take hours."""
    names = ["fused " + "a" * 1_000_000, "b" * 1_000_000]
    nodes = [ir.Node("com.microsoft", "FusedMatMul", [], name=name) for name in names]
    inner = ir.Node("", "MatMul", [])
    assert [name_of(node, inner) for node in nodes] == names
    assert name_of(ir.Node("com.microsoft", "Gelu", [], name="fused /act/Gelu"), inner) == "/act/Gelu"

"""Each rule of the gate: a model that breaks it, the message, and a model next to it that does not."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import onnxlift
from onnxlift.errors import InvalidModelError
from onnxlift.ir.checking.form import RULES
from onnxlift.ir.checking.gate import INFERENCE, declared_rules
from onnxlift.ir.checking.rules.table import rules


def parsed(body, inputs="float[n, 4] x", outputs="float y", opset=20, functions="", domains=""):
    text = (
        f'<ir_version: 10, opset_import: ["" : {opset}{domains}]> g ({inputs}) => ({outputs}) {{ {body} }} {functions}'
    )
    return parser.parse_model(text)


def refusal(model):
    with pytest.raises(InvalidModelError) as caught:
        onnxlift.lift(model)
    return caught.value


BLOCK = """<domain: "acme", opset_import: ["" : 20]> block (a) => (b) { b = Neg(a) }"""
ACME = ', "acme" : 1'
BROKEN = {
    "operator-version": [
        (parsed("y = Gelu(x)", opset=13), "Gelu exists since opset 20, and the model imports opset 13"),
    ],
    "input-count": [
        (parsed("y = Add(x)"), "it has 1 input, and Add takes 2"),
        (parsed("y = Sum()"), "it has 0 inputs, and Sum takes 1 or more"),
        (parsed("y = Clip(x, x, x, x)"), "it has 4 inputs, and Clip takes 1 to 3"),
        (
            parsed("y = acme.block(x, x)", functions=BLOCK, domains=ACME),
            "it has 2 inputs, and function acme::block takes 1",
        ),
    ],
    "input-missing": [
        (parsed('y = Where(c, "", x)'.replace('""', ""), "bool c, float x"), "its input X is left out"),
        (parsed('y = Concat<axis = 0>(x, "", x)'.replace('""', ""), "float[n] x"), "its input inputs is left out"),
    ],
    "output-count": [
        (parsed("y, z = Relu(x)"), "it has 2 outputs, and Relu gives 1"),
        (
            parsed("y, z = acme.block(x)", functions=BLOCK, domains=ACME),
            "it has 2 outputs, and function acme::block gives 1",
        ),
    ],
    "attribute-name": [
        (parsed("y = Elu<beta = 1.0>(x)"), "Elu has no attribute 'beta' in opset 20; it has alpha"),
        (
            parsed("y = Squeeze<axes = [0]>(x)"),
            "Squeeze has no attribute 'axes' in opset 20: it is an input since opset 13",
        ),
        (
            parsed("y = ReduceMean<axes = [0]>(x)"),
            "ReduceMean has no attribute 'axes' in opset 20: it is an input since opset 18",
        ),
        (
            parsed("y = Reshape<shape = [4, -1]>(x, s)", "float[n, 4] x, int64[2] s"),
            "Reshape has no attribute 'shape' in opset 20: it is an input since opset 5",
        ),
    ],
    "attribute-type": [
        (parsed("y = Softmax<axis = 1.5>(x)"), "its attribute axis is a float, and Softmax wants an int"),
        (parsed("y = Transpose<perm = 1>(x)"), "its attribute perm is an int, and Transpose wants a list of ints"),
    ],
    "attribute-missing": [
        (parsed("y = Concat(x, x)"), "it has no attribute axis, which Concat requires"),
        (
            parsed("y = RegexFullMatch(s)", "string[n] s", "bool y"),
            "it has no attribute pattern, which RegexFullMatch requires",
        ),
        (parsed("y = Reshape(x)", opset=1), "it has no attribute shape, which Reshape requires"),
    ],
    "attribute-text": [
        (
            parsed('y = MaxPool<kernel_shape = [2], auto_pad = "SAME">(x)', "float[1, 1, 9] x"),
            "its attribute auto_pad is 'SAME'; it can be NOTSET, SAME_UPPER, SAME_LOWER, VALID",
        ),
    ],
    "attribute-range": [
        (
            parsed("y = GatherND<batch_dims = -2147483649>(x, i)", "float[2, 2] x, int64[2, 2] i"),
            "its attribute batch_dims is -2147483649; it must be 0 or more",
        ),
        (
            parsed("y = MaxPool<kernel_shape = [2], strides = [0]>(x)", "float[1, 1, 9] x"),
            "its attribute strides is 0; it must be 1 or more",
        ),
        (
            parsed("y = MaxPool<kernel_shape = [2, 2], pads = [0, 0, 0, -1]>(x)", "float[1, 1, 9, 9] x"),
            "its attribute pads is [0, 0, 0, -1]; it must be 0 or more",
        ),
    ],
    "attribute-element-type": [(parsed("y = Cast<to = 99>(x)"), "its attribute to is 99, which is no element type")],
    "attribute-permutation": [
        (parsed("y = Transpose<perm = [0, 0]>(x)"), "its attribute perm is [0, 0], which is no permutation of 0 to 1"),
    ],
    "constant-value": [
        (
            parsed("c = Constant<value_int = 1, value_float = 1.0>() y = Neg(x)"),
            "it has 2 values, and a Constant has one",
        ),
        (parsed("c = Constant() y = Neg(x)"), "it has 0 values"),
    ],
    "if-branches": [
        (
            parsed(
                "y = If(c) <then_branch = a () => (float p, float q) { p = Neg(x) q = Abs(x) }, "
                "else_branch = b () => (float r) { r = Abs(x) }>",
                "bool c, float x",
            ),
            "its then_branch gives 2 values, and the node has 1 outputs",
        ),
    ],
    "loop-body": [
        (
            parsed(
                "y = Loop(m, c, x) <body = b (int64 i, bool k) => (bool k2, float v) { k2 = Identity(k) v = Neg(x) }>",
                "int64 m, bool c, float x",
            ),
            "its body takes 2 inputs; with 1 carried values it must take 3",
        ),
    ],
    "scan-body": [
        (
            parsed(
                "y = Scan<num_scan_inputs = 1, body = b (float s, float v) => (float w) { w = Add(s, v) }>(x)",
                "float[4] x",
            ),
            "its body takes 2 inputs, and the node passes 1",
        ),
        (
            parsed("y = Scan<num_scan_inputs = 2, body = b (float s) => (float w) { w = Neg(s) }>(x)", "float[4] x"),
            "its attribute num_scan_inputs is 2, and it has 1 inputs",
        ),
    ],
    "map-body": [
        (
            parsed(
                "y = SequenceMap<body = b (float p, float q) => (float r) { r = Add(p, q) }>(s)",
                "seq(float[4]) s",
                "seq(float[4]) y",
            ),
            "its body takes 2 inputs, and the node passes 1",
        ),
    ],
    "input-type": [
        (parsed("y = Sin(x)", "int64[4] x"), "its input input is int64, and Sin takes double, float or float16 there"),
        (parsed("y = SequenceLength(x)"), "its input input_sequence is float, and SequenceLength takes a sequence of"),
    ],
    "input-types-agree": [
        (parsed("y = Add(x, z)", "float[4] x, int64[4] z"), "its input A is float and its input B is int64"),
    ],
    "carried-type": [
        (
            parsed(
                "y = Loop(m, c, x) <body = b (int64 i, bool k, float v) => (bool k2, int64 w) "
                "{ k2 = Identity(k) w = Cast<to = 7>(v) }>",
                "int64 m, bool c, float x",
            ),
            "its value v enters an iteration as float and leaves it as int64",
        ),
    ],
    "loop-results": [
        (
            parsed(
                "y = Loop(m, c, x) <body = b (int64 i, bool k, float v) => (bool k2, float w) "
                "{ k2 = Identity(w) w = Neg(v) }>",
                "int64 m, bool c, float x",
            ),
            "the condition k2 of its body is float, and must be bool",
        ),
        (
            parsed(
                "y = Loop(m, c) <body = b (int64 i, bool k) => (bool k2, seq(float) w) "
                "{ k2 = Identity(k) w = SequenceConstruct(x) }>",
                "int64 m, bool c, float x",
            ),
            "its body gives w, a sequence of float, in each iteration, and only tensors can be stacked",
        ),
    ],
    "axis-range": [
        (parsed("y = Softmax<axis = 2>(x)"), "its axis is 2, and its input has 2 axes"),
        (parsed("y = Flatten<axis = 3>(x)"), "its axis is 3, and its input has 2 axes"),
        (parsed("a = Constant<value_ints = [2]>() y = ReduceSum(x, a)"), "its axes name 2, and its input has 2 axes"),
        (parsed("a = Constant<value_ints = [0, -2]>() y = ReduceSum(x, a)"), "its axes are [0, -2], which name one"),
        (parsed("a = Constant<value_ints = [3]>() y = Unsqueeze(x, a)"), "its axes name 3, and its output has 3 axes"),
        (parsed("a = Constant<value_int = 2>() y = CumSum(x, a)"), "its axis is 2, and there are 2 axes"),
        # Some axes beyond 32 bits end the process inside ONNX's own inference.
        (
            parsed("y = LayerNormalization<axis = 2983801971861941958>(x, w)", "float[3, 4] x, float[3, 4] w"),
            "its axis is 2983801971861941958, and its input has 2 axes",
        ),
    ],
    "permutation-length": [
        (parsed("y = Transpose<perm = [2, 0, 1]>(x)"), "its attribute perm has 3 numbers, and its input has 2 axes"),
    ],
    "slice-bounds": [
        (
            parsed("s = Constant<value_ints = [0]>() e = Constant<value_ints = [1, 2]>() y = Slice(x, s, e)"),
            "it has 1 starts, 2 ends: there must be as many of each",
        ),
        (
            parsed("s = Constant<value_ints = [0]>() y = Slice(x, s, s, s, s)"),
            "one of its steps is 0",
        ),
    ],
    "broadcast": [
        (parsed("y = Add(x, z)", "float[n, 4] x, float[3, 5] z"), "its operands (n, 4) and (3, 5) cannot be broadcast"),
    ],
    "matrix-sizes": [
        (parsed("y = MatMul(x, z)", "float[n, 4] x, float[5, 2] z"), "it multiplies (n, 4) by (5, 2), where 4 and 5"),
        (
            parsed("y = MatMul(x, z)", "float[2, 3, 4] x, float[5, 4, 2] z"),
            "the batches of (2, 3, 4) and (5, 4, 2) cannot be broadcast",
        ),
        (parsed("y = Gemm(x, z)", "float[n, 4] x, float[4] z"), "and Gemm takes two matrices"),
        (parsed("y = MatMul(x, z)", "float x, float[4] z"), "one of its operands has no axes"),
    ],
    "concat-sizes": [
        (
            parsed("y = Concat<axis = 0>(x, z)", "float[n, 4] x, float[n, 5] z"),
            "it joins (n, 4) and (n, 5) along axis 0, and the other sizes differ",
        ),
    ],
    "reshape-sizes": [
        (parsed("s = Constant<value_ints = [-1, -1]>() y = Reshape(x, s)"), "has -1 more than once"),
        (parsed("s = Constant<value_ints = [-2, 4]>() y = Reshape(x, s)"), "has a negative size other than -1"),
        (parsed("s = Constant<value_ints = [4, 4, 0]>() y = Reshape(x, s)"), "keeps a size, by 0, that its input"),
        (
            parsed("s = Constant<value_ints = [5, -1]>() y = Reshape(x, s)", "float[3, 4] x"),
            "its input (3, 4) has 12 elements, which do not fit (5, -1)",
        ),
        (
            parsed("s = Constant<value_ints = [5, 2]>() y = Reshape(x, s)", "float[3, 4] x"),
            "its input (3, 4) has 12 elements, which do not fit (5, 2)",
        ),
    ],
    "expand-sizes": [
        (parsed("s = Constant<value_ints = [3]>() y = Expand(x, s)"), "its input (n, 4) cannot be broadcast to (3,)"),
        (parsed("s = Constant<value_ints = [-1]>() y = Expand(x, s)"), "its target (-1,) has a negative size"),
    ],
    "tile-repeats": [
        (parsed("s = Constant<value_ints = [3]>() y = Tile(x, s)"), "it has 1 repeats, and its input has 2 axes"),
        (parsed("s = Constant<value_ints = [3, -1]>() y = Tile(x, s)"), "its repeats are (3, -1), and none can be"),
    ],
    "negative-size": [
        (parsed("s = Constant<value_ints = [-3]>() y = ConstantOfShape(s)"), "its sizes are (-3,), and none can be"),
    ],
    "bias-size": [
        (
            parsed("y = Conv(x, w, b)", "float[n, 3, 8] x, float[4, 3, 2] w, float[4, 3, 2] b"),
            "its bias is (4, 3, 2), and it gives 4 channels",
        ),
        (
            parsed("y = ConvTranspose<group = 2>(x, w, b)", "float[n, 4, 8] x, float[4, 3, 2] w, float[3] b"),
            "its bias is (3,), and it gives 6 channels",
        ),
    ],
    "index-depth": [
        (parsed("y = GatherND(x, i)", "float[n, 4] x, int64 i"), "its data has 2 axes and its indices have no axes"),
        (
            parsed("y = ScatterND(x, i, u)", "float[n, 4] x, int64[2, 3] i, float[2] u"),
            "its indices name 3 axes each, and its data has 2 axes",
        ),
        (
            parsed("y = GatherND<batch_dims = 1>(x, i)", "float[2, 4] x, int64[2, 2] i"),
            "its indices name 2 axes each, and its data has 2 axes",
        ),
    ],
    "recurrent-sizes": [
        (
            parsed("y = GRU <hidden_size = 2> (x, w, r)", "float[t, n, 3] x, float[1, 6, 4] w, float[1, 6, 2] r"),
            "its input W is (1, 6, 4), and must be (1, 6, 3)",
        ),
        (
            parsed("y = LSTM <hidden_size = 2> (x, r, b)", "float[t, n, 2] x, float[1, 8, 2] r, float[1, 16] b"),
            "its input R is (1, 16), and must be (1, 8, 2)",
        ),
        (
            parsed(
                'y = RNN <hidden_size = 2, direction = "bidirectional"> (x, w, r, b)',
                "float[t, n, 3] x, float[2, 2, 3] w, float[2, 2, 2] r, float[1, 4] b",
            ),
            "its input B is (1, 4), and must be (2, 4)",
        ),
    ],
    "range-bounds": [
        (
            parsed("y = Range(m, e, m)", "int64 m, int64[0] e", "int64 y"),
            "its limit is (0,), and it takes a single number",
        ),
        (parsed("y = Range(m, m, e)", "int64 m, int64[1, 1] e", "int64 y"), "its delta is (1, 1)"),
    ],
    "range-step": [(parsed("s = Constant<value_int = 0>() y = Range(m, m, s)", "int64 m", "int64 y"), "its step is 0")],
    "split-sizes": [
        (
            parsed("s = Constant<value_ints = [1, 2]>() y, z = Split<axis = 1>(x, s)"),
            "its parts [1, 2] do not make up the 4 elements of the axis",
        ),
        (parsed("s = Constant<value_ints = [4]>() y, z = Split<axis = 1>(x, s)"), "it has 1 sizes, and 2 outputs"),
        (parsed("y, z, u = Split<axis = 1>(x)", opset=13), "it splits 4 into 3 equal parts, which leaves a rest"),
    ],
    "squeeze-sizes": [
        (parsed("s = Constant<value_ints = [1]>() y = Squeeze(x, s)"), "it removes axis 1 of (n, 4), whose size is 4"),
    ],
    "pad-widths": [
        (parsed("s = Constant<value_ints = [1, 1]>() y = Pad(x, s)"), "it has 2 widths, and pads 2 axes: it needs 4"),
    ],
    "depth-blocks": [
        (
            parsed("y = DepthToSpace<blocksize = 2>(x)", "float[1, 6, 2, 2] x"),
            "its input is (1, 6, 2, 2), and 6 is no multiple of 4",
        ),
        (parsed("y = SpaceToDepth<blocksize = 2>(x)"), "and it takes (batch, channels, height, width)"),
    ],
    "top-k": [
        (parsed("k = Constant<value_ints = [5]>() y, i = TopK(x, k)"), "its k is 5, and the axis has 4 elements"),
    ],
    "index-range": [
        (
            parsed("k = Constant<value_ints = [4]>() y = Gather<axis = 1>(x, k)"),
            "its index 4 is outside the 4",
        ),
    ],
    "size-overflow": [
        (
            parsed("s = Constant<value_ints = [4294967296, 4294967296]>() y = ConstantOfShape(s)"),
            "which is more elements than 64 bits can count",
        ),
    ],
    "window-axes": [
        (
            parsed("y = MaxPool<kernel_shape = [2]>(x)", "float[1, 1, 9, 9] x"),
            "its attribute kernel_shape has 1 numbers; for 2 spatial axes it must have 2",
        ),
        (parsed("y = MaxPool<kernel_shape = [2]>(x)"), "with one spatial axis or more"),
    ],
    "window-size": [
        (
            parsed("y = MaxPool<kernel_shape = [2], pads = [4294967296, 4294967296]>(x)", "float[1, 1, n] x"),
            "its attribute pads is (4294967296, 4294967296), which is larger than any tensor",
        ),
    ],
    "kernel-fits": [
        (
            parsed("y = MaxPool<kernel_shape = [4], dilations = [3]>(x)", "float[1, 1, 8] x"),
            "its kernel covers 10 elements of spatial axis 0, and the padded input has 8",
        ),
        (
            parsed("y = Conv(x, w)", "float[1, 1, 2] x, float[1, 1, 4] w"),
            "its kernel covers 4 elements of spatial axis 0, and the padded input has 2",
        ),
    ],
    "channels": [
        (
            parsed("y = Conv(x, w)", "float[1, 3, 9] x, float[4, 2, 3] w"),
            "its input has 3 channels, and a weight (4, 2, 3) in 1 groups takes 2",
        ),
        (
            parsed("y = Conv<group = 2>(x, w)", "float[1, 4, 9] x, float[3, 2, 3] w"),
            "its 3 channels cannot be split into 2 groups",
        ),
        (
            parsed("y = ConvTranspose(x, w)", "float[1, 3, 9] x, float[4, 2, 3] w"),
            "its input has 3 channels, and a weight (4, 2, 3) in 1 groups takes 4",
        ),
        (
            parsed("y = Conv<kernel_shape = [5]>(x, w)", "float[1, 2, 9] x, float[4, 2, 3] w"),
            "its attribute kernel_shape is (5,), and its weight is (4, 2, 3)",
        ),
        (parsed("y = Conv(x, w)", "float[1, 3, 9] x, float[4, 3] w"), "both need the same number of axes, 3 or more"),
    ],
    "channel-parameters": [
        (
            parsed("y = BatchNormalization(x, s, s, s, s)", "float[1, 3, 9] x, float[4] s"),
            "has 3 channels, and its parameter number 1 is (4,)",
        ),
        (
            parsed("y = BatchNormalization(x, s, b, b, b)", "float[1, 3, 9] x, float[4] s, float[3] b", opset=7),
            "has 3 channels, and its parameter number 1 is (4,)",
        ),
        (
            parsed("y = BatchNormalization(x, s, b, b, b)", "float[1, n, 9] x, float[1] s, float[3] b"),
            "its parameter number 1 is (1,), and its parameter number 2 is (3,)",
        ),
    ],
    "one-way-broadcast": [
        (
            parsed("y = Gemm(x, z, c)", "float[2, 4] x, float[4, 5] z, float[3] c"),
            "its input C is (3,), which cannot be broadcast to (2, 5).",
        ),
        (
            parsed("y = Gemm(x, z, c)", "float[1, 4] x, float[4, 5] z, float[2, 5] c"),
            "its input C is (2, 5), which cannot be broadcast to (1, 5).",
        ),
        (
            parsed("y = LayerNormalization(x, z)", "float[n, 4] x, float[3] z"),
            "its input Scale is (3,), which cannot be broadcast to (n, 4).",
        ),
        (
            parsed("y = LayerNormalization(x, z, b)", "float[n, 4] x, float[4] z, float[5] b"),
            "its input B is (5,), which cannot be broadcast to (n, 4).",
        ),
        (
            parsed("y = PRelu(x, z)", "float[n, 3, 4] x, float[3] z"),
            "its input slope is (3,), which cannot be broadcast to (n, 3, 4).",
        ),
        (
            parsed("y = PRelu(x, z)", "float[4] x, float[1, 4] z"),
            "its input slope is (1, 4), which cannot be broadcast to (4,).",
        ),
    ],
    "element-indices": [
        (
            parsed("y = GatherElements(x, i)", "float[n, 4] x, int64[n] i"),
            "its data is (n, 4) and its indices are (n,): both need the same axes.",
        ),
        (
            parsed("y = ScatterElements(x, i, z)", "float[n, 4] x, int64[2, 4] i, float[2, 3] z"),
            "its indices are (2, 4) and its updates (2, 3): both need one shape.",
        ),
    ],
    "group-parameters": [
        (
            parsed("y = GroupNormalization<num_groups = 4>(x, s, s)", "float[n, 6, 4] x, float[4] s"),
            "has 6 channels, which are no multiple of 4 groups",
        ),
        (
            parsed("y = GroupNormalization<num_groups = 2>(x, s, s)", "float[n, 6, 4] x, float[6] s"),
            "its scale is (6,), and it has 2 groups",
        ),
    ],
    "einsum-equation": [
        (parsed('y = Einsum<equation = "i1->i">(x)'), "its equation 'i1->i' is none"),
        (parsed('y = Einsum<equation = "ij,jk->ik">(x)'), "has 2 terms, and the node has 1 operands"),
        (parsed('y = Einsum<equation = "ij->ik">(x)'), "has 'k', which no operand has"),
        (parsed('y = Einsum<equation = "ij->ii">(x)'), "has a letter twice"),
        (parsed('y = Einsum<equation = "ij->...i">(x)'), "has '...', which no operand has"),
    ],
    "einsum-sizes": [
        (parsed('y = Einsum<equation = "ijk->i">(x)'), "operand 0 is (n, 4), which does not fit 'ijk'"),
        (
            parsed('y = Einsum<equation = "ij,jk->ik">(x, z)', "float[n, 4] x, float[5, 2] z"),
            "letter 'j' of its equation stands for 4 and for 5",
        ),
    ],
    INFERENCE: [
        (
            parsed("y = Det(x)", "float[2, 3] x"),
            "ONNX's own inference refuses it: The inner-most 2 dimensions must have the same size",
        ),
    ],
}
CASES = [pytest.param(name, *case, id=f"{name}-{i}") for name, cases in BROKEN.items() for i, case in enumerate(cases)]


@pytest.mark.parametrize(("name", "model", "message"), CASES)
def test_a_rule_refuses_what_breaks_it(name, model, message):
    error = refusal(model)
    found = [finding for finding in error.findings if finding.rule == name]
    assert message in found[0].text
    assert found[0].place.startswith("node ")
    assert str(found[0]).rstrip(".") in str(error)
    assert name in str(error)
    assert ("\n" in str(error)) is (len(error.findings) > 1)


def test_every_rule_has_a_test():
    assert {rule.name for rule in rules()} | {INFERENCE} == set(BROKEN)
    assert set(RULES) == set(MISSHAPEN)


def changed(body="y = Neg(x)", **options):
    """A model that the decorated function changes, since the text form cannot say what it does."""

    def build(change):
        model = parsed(body, **options)
        change(model)
        return model

    return build


@changed()
def two_opsets(model):
    model.opset_import.append(helper.make_opsetid("ai.onnx", 17))


@changed()
def newer_opset(model):
    model.opset_import[0].version = 999


@changed()
def no_opset(model):
    del model.opset_import[:]


@changed()
def no_operator(model):
    model.graph.node[0].op_type = ""


@changed(body="a = acme.block(x) y = Neg(a)", functions=BLOCK, domains=ACME)
def two_functions(model):
    model.functions.append(model.functions[0])


@changed(body="y = Elu<alpha = 1.0>(x)")
def two_attributes(model):
    model.graph.node[0].attribute.append(model.graph.node[0].attribute[0])


@changed(body="y = Elu<alpha = 1.0>(x)")
def foreign_reference(model):
    model.graph.node[0].attribute[0].ref_attr_name = "alpha"


@changed()
def unknown_element(model):
    model.graph.input[0].type.tensor_type.elem_type = 99


# A name that is not UTF-8 is beyond protobuf's Python interface: its bytes are put in afterwards.
NOT_TEXT = parsed("y = Neg(x)", inputs="float[n, 4] xyz").SerializeToString().replace(b"xyz", b"\xff\xfe\xfd")
BRANCHES = "then_branch = a (float z) => (float p) { p = Neg(x) }, else_branch = b () => (float r) { r = Abs(x) }"
MISSHAPEN = {
    "text-encoding": (NOT_TEXT, "is not valid UTF-8"),
    "opset-import": (two_opsets, "domain 'ai.onnx': its opsets 20 and 17 are both imported"),
    "opset-missing": (no_opset, "it is of domain 'ai.onnx', of which the graph imports no opset"),
    "function-name": (two_functions, "function acme::block: it is defined twice"),
    "value-name": (parsed("y = Neg(x) y = Abs(x)"), "it defines value 'y', which is already defined"),
    "value-defined": (parsed("y = Neg(z)"), "it reads value 'z', which no input, initialiser or node of the graph"),
    "value-type": (unknown_element, "value 'x': it has element type 99, which this onnx does not know"),
    "graph-outputs": (parsed("y = Neg(x)", outputs=""), "it has no outputs, so that there is nothing to compute"),
    "branch-inputs": (parsed(f"y = If(c) <{BRANCHES}>", "bool c, float x"), "takes input 'z', and an If passes none"),
    "operator-name": (no_operator, "it names no operator"),
    "attribute-unique": (two_attributes, "it has two attributes 'alpha'"),
    "attribute-form": (foreign_reference, "refers to the attribute of a function, but is not inside one"),
}


@pytest.mark.parametrize("name", MISSHAPEN)
def test_a_rule_on_the_form_refuses_what_breaks_it(name):
    model, message = MISSHAPEN[name]
    error = refusal(model)
    assert name in [finding.rule for finding in error.findings]
    assert message in str(error)


def test_an_opset_of_the_future_asks_for_a_newer_onnx():
    assert "the model imports its opset 999" in str(refusal(newer_opset))
    assert "Update the onnx package" in str(refusal(newer_opset))


def test_the_page_lists_each_rule_with_what_it_wants():
    page = (Path(__file__).parents[3] / "docs" / "rules.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (OL\d+) \| `([a-z-]+)` \| (.+) \|$", page, re.MULTILINE)
    assert {name for _, name, _ in listed} == {*RULES, *BROKEN}
    assert listed == [(rule.identifier, rule.name, rule.summary) for rule in declared_rules()]


def test_each_rule_has_an_identifier_of_its_own():
    pairs = {(rule.identifier, rule.name) for rule in (*rules(), *declared_rules())}
    assert len({identifier for identifier, _ in pairs}) == len({name for _, name in pairs}) == len(pairs)
    assert all(re.fullmatch(r"OL0\d\d", identifier) for identifier, _ in pairs)


def test_no_two_lists_of_rules_use_one_name():
    assert not {rule.name for rule in rules()} & set(RULES)


def test_a_rule_says_in_a_sentence_what_it_wants():
    for rule in rules():
        assert rule.summary[0].isupper()
        assert rule.summary.endswith(".")
        assert len(rule.summary) < 140


def test_all_findings_come_in_one_message():
    model = parsed(
        "a = Relu(x, x) b = Softmax<axis = 5>(x) c = Sin(i) y = Elu<beta = 1.0>(x)", "float[n, 4] x, int64 i"
    )
    error = refusal(model)
    assert [finding.rule for finding in error.findings] == ["input-count", "attribute-name", "axis-range", "input-type"]
    assert "breaks 4 rules of ONNX in 4 places" in str(error)


def test_many_findings_of_a_rule_are_counted():
    error = refusal(parsed(" ".join(f"a{i} = Relu(x, x)" for i in range(20)) + " y = Neg(x)"))
    assert len(error.findings) == 20
    assert "... and 15 more" in str(error)
    assert len(str(error).splitlines()) < 12


def test_a_node_of_a_function_is_named_with_the_function():
    function = """<domain: "acme", opset_import: ["" : 20]> block (a) => (b) { b = Neg(a, a) }"""
    error = refusal(parsed("y = acme.block(x)", functions=function, domains=ACME))
    assert "of function acme::block: it has 2 inputs" in str(error)


def test_nodes_in_branches_are_checked_too():
    branches = "then_branch = a () => (float p) { p = Neg(x, x) }, else_branch = b () => (float r) { r = Sin(i) }"
    error = refusal(parsed(f"y = If(c) <{branches}>", "bool c, float x, int64 i"))
    assert [finding.rule for finding in error.findings] == ["input-count", "input-type"]


def test_sizes_that_do_not_fit_in_a_branch_are_left_to_the_run():
    """PyTorch's exporter writes both branches of `if x.shape[0] == 1: x = x.squeeze(0)`; one of them cannot run."""
    branches = (
        "then_branch = a () => (float p) { s = Constant<value_ints = [0]>() p = Squeeze(x, s) }, "
        "else_branch = b () => (float r) { r = Identity(x) }"
    )
    onnxlift.lift(parsed(f"y = If(c) <{branches}>", "bool c, float[3, 4] x"))


def test_an_unknown_operator_breaks_no_rule():
    with pytest.raises(onnxlift.UnsupportedError):
        onnxlift.lift(parsed("y = acme.Foo<a = 1>(x)", domains=ACME))


def test_notes_of_a_runtime_are_no_attributes():
    model = parsed("y = Relu(x)")
    model.graph.node[0].attribute.append(helper.make_attribute("__note", 1))
    onnxlift.lift(model)


def test_wrong_value_info_is_not_believed():
    model = parsed("a = Neg(x) y = Add(a, x)")
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.INT64, [7, 7]))
    assert "-x + x" in onnxlift.lift(model).source


def test_a_branch_may_declare_what_it_reads_from_outside():
    """burn-onnx's test models do. ONNX Runtime reads the value of that name as well."""
    branches = (
        "then_branch = a (float[n, 4] x) => (float p) { p = Neg(x) }, else_branch = b () => (float r) { r = Abs(x) }"
    )
    lifted = onnxlift.lift(parsed(f"y = If(c) <{branches}>", "bool c, float[n, 4] x"))
    assert "-x" in lifted.source
    assert "x.abs()" in lifted.source


def test_a_branch_cannot_take_what_is_not_there():
    branches = "then_branch = a (float z) => (float p) { p = Neg(z) }, else_branch = b () => (float r) { r = Abs(x) }"
    error = refusal(parsed(f"y = If(c) <{branches}>", "bool c, float[n, 4] x"))
    assert [finding.rule for finding in error.findings] == ["branch-inputs", "value-defined"]
    assert "takes input 'z', and an If passes none" in str(error)


def test_a_graph_without_outputs_is_refused_with_the_reason():
    error = refusal(parsed("y = Neg(x)", outputs=""))
    assert [finding.rule for finding in error.findings] == ["graph-outputs"]
    assert "it has no outputs, so that there is nothing to compute" in str(error)


def test_a_graph_without_nodes_gives_what_it_gets():
    weight = numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
    graph = helper.make_graph(
        [],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [3]),
        ],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model)
    import torch

    x, w = onnxlift.convert(model)(torch.ones(2))
    assert x.tolist() == [1, 1]
    assert w.tolist() == [0, 1, 2]


def test_the_values_of_a_map_have_an_element_type_that_onnx_has():
    model = parsed("y = Neg(x)")
    kind = model.graph.output[0].type.sequence_type.elem_type.map_type
    kind.key_type = TensorProto.INT64
    kind.value_type.tensor_type.elem_type = 99
    assert "value 'y': it has element type 99, which this onnx does not know" in str(refusal(model))


@pytest.mark.parametrize("node", ["ReduceSum(x, five)", "Softmax<axis = 5>(x)", "Transpose<perm = [0, 1, 2]>(x)"])
def test_axes_are_those_of_the_input_also_in_a_branch_that_never_runs(node):
    branches = f"then_branch = t () => (a) {{ a = {node} }}, else_branch = e () => (o) {{ o = Abs(x) }}"
    body = f"five = Constant<value_ints = [5]>() c = Constant<value = bool {{0}}>() y = If(c) <{branches}>"
    model = parsed(body, "float[2, 4] x")
    assert "and its input has 2 axes" in str(refusal(model))
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="InferenceError"):
        onnxruntime.InferenceSession(model.SerializeToString())


@pytest.mark.timeout(60)
def test_an_equation_for_which_inference_never_ends_is_refused():
    assert "its equation '%s' is none" in str(refusal(parsed('y = Einsum<equation = "%s">(x, x)')))
    function = """<domain: "acme", opset_import: ["" : 20]> block <rule> (a) => (b) {
        b = Einsum <equation : string = @rule> (a, a) }"""
    model = parsed('y = acme.block<rule = "ij.,ij">(x)', functions=function, domains=ACME)
    assert "its equation 'ij.,ij' is none" in str(refusal(model))

from __future__ import annotations

import re

import numpy as np
import onnx.helper
import onnx.parser
import onnxruntime
import torch

import onnxlift
from onnxlift.lifting.code.expr import Literal, Local
from onnxlift.lifting.code.statements import Assign, Block
from onnxlift.lifting.modules.statements.arrange import arrange
from small_graphs import Graph

MODEL = """<ir_version: 9, opset_import: ["" : 18]> g (float[n, 4] x) => (float[n, 4] y, float[n, 4] z) {
    a = Sin(x) b = Cos(x) second = Exp(b) first = Tanh(a) both = Mul(first, second)
    y = Add(both, second) z = Sub(first, both) }"""


def test_statements_stand_where_their_computation_begins() -> None:
    model = onnx.parser.parse_model(MODEL)
    lifted = onnxlift.lift(model)
    assert lifted.source.index("first = ") < lifted.source.index("second = ")
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for actual, expected in zip(lifted.module()(torch.from_numpy(x)), session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_what_works_on_parts_of_a_tensor_comes_in_their_order() -> None:
    """A reader expects the query first, though transformers' GPT-2 begins with the key."""
    g = Graph()
    x = g.input("x", "n", 6)
    g.nodes.append(onnx.helper.make_node("Split", [x], ["p", "q", "r"], "/Split", axis=1, num_outputs=3))
    waves = {part: g.node("Softplus", g.node("Sin", part)) for part in ("r", "p", "q")}
    products = [g.node("Mul", waves[a], waves[b]) for a, b in ("pq", "qr", "rp")]
    lines = [line.strip() for line in g.lift(*products).source.splitlines() if ".chunk(" in line or "softplus" in line]
    names = lines[0].partition(" = ")[0].split(", ")
    assert [re.findall(r"\((\w+)\.sin", line) for line in lines[1:]] == [[name] for name in names]


SIZES = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[n, 4] x, float[m] h) => (float[n, 4] y, float[n, 4] z, float[p, n] u, float[p, 1, n] v) {
    a = Sin(x) b = Cos(x) second = Exp(b) first = Tanh(a) both = Mul(first, second)
    y = Add(both, second) z = Sub(first, both)
    s = Shape(x) i = Constant <value_ints = [0]> () n = Gather(s, i) rest = Constant <value_ints = [-1]> ()
    one = Constant <value_ints = [1]> () k = Concat <axis = 0> (rest, n) l = Concat <axis = 0> (rest, one, n)
    c = Neg(h) u = Reshape(c, k) d = Abs(h) v = Reshape(d, l) }"""


def test_sizes_that_are_read_into_variables_do_not_stand_in_the_way() -> None:
    model = onnx.parser.parse_model(SIZES)
    lifted = onnxlift.lift(model)
    assert lifted.source.index("first = ") < lifted.source.index("second = ") < lifted.source.index(" = x.shape[0]")
    random = np.random.default_rng(0)
    feeds = {"x": random.standard_normal((3, 4)), "h": random.standard_normal(12)}
    inputs = {name: array.astype(np.float32) for name, array in feeds.items()}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    actual = lifted.module()(*map(torch.from_numpy, inputs.values()))
    for ours, theirs in zip(actual, session.run(None, inputs), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5, atol=1e-6)


def test_what_is_read_before_it_is_written_anew_stays_in_front_of_that() -> None:
    """A variable that a loop in front has changed."""
    count, other = Local("count"), Local("other")
    statements = [Assign([other], count + 1), Assign([count], Literal(0))]
    block = Block([*statements])
    arrange(block, {}, {id(statements[0]): 1, id(statements[1]): 0})
    assert block.statements == statements

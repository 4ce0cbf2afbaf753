"""Steps of an `nn.RNN` that the newer exporter has written one by one; and steps that are no such layer."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.recurrent import unrolled_rnn
from rewriting.idioms.recognising import found, parse, simplified
from rewriting.running_stages import normalise

STEPS = 3
BODY = """m = MatMul(x, W) p = Add(m, b)
    s0 = Slice(p, zero, one, zero) p0 = Squeeze(s0, zero) s1 = Slice(p, one, two, zero) p1 = Squeeze(s1, zero)
    s2 = Slice(p, two, three, zero) p2 = Squeeze(s2, zero)
    r0 = MatMul(h0, R) c0 = Add(r0, c) a0 = Add(c0, p0) h1 = Tanh(a0)
    r1 = MatMul(h1, R) c1 = Add(r1, c) a1 = Add(p1, c1) h2 = Tanh(a1)
    r2 = MatMul(h2, R) c2 = Add(r2, c) a2 = Add(c2, p2) h3 = Tanh(a2) y = Concat <axis = 0> (h1, h2, h3)"""


INPUTS = "float[3, batch, 4] x, float[1, batch, 6] h0"


def steps(body: str = BODY, outputs: str = "y, h3", inputs: str = INPUTS, **more: Any) -> onnx.ModelProto:
    places = {name: np.array([i]) for i, name in enumerate(("zero", "one", "two", "three"))}
    weights = {"W": (4, 6), "R": (6, 6), "b": (6,), "c": (6,), "other": (6, 6), **places, **more}
    used = {name: value for name, value in weights.items() if re.search(rf"\b{name}\b", body)}
    return parse(f"g ({inputs}) => ({outputs}) {{ {body} }}", **used)


def test_steps_are_a_layer() -> None:
    assert found(steps()) == ["onnxlift.RNN"]
    assert found(steps(BODY.rpartition("y =")[0], outputs="h3")) == ["onnxlift.RNN"]
    assert found(steps(BODY.replace("Tanh", "Relu"))) == ["onnxlift.RNN"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("r2 = MatMul(h2, R)", "r2 = MatMul(h2, other)"),
        ("r2 = MatMul(h2, R)", "r2 = MatMul(h1, R)"),
        ("a1 = Add(p1, c1)", "a1 = Add(p2, c1)"),
        ("h2 = Tanh(a1)", "h2 = Relu(a1)"),
        ("(h1, h2, h3)", "(h1, h3, h2)"),
        ("c0 = Add(r0, c)", "c0 = Add(r0, b)"),
        ("p = Add(m, b)", "p = Identity(m)"),
        ("s2 = Slice(p, two, three, zero)", "s2 = Slice(p, one, two, zero)"),
        ("c1 = Add(r1, c)", "c1 = Add(r1, b)"),
        ("r0 = MatMul(h0, R)", "r0 = MatMul(h0, other)"),
        ("axis = 0", "axis = 2"),
        ("Tanh", "Sigmoid"),
    ],
    ids="""weight state piece activation order bias one-bias last-piece
        inner-bias first-weight axis activations""".split(),
)
def test_other_steps_stay(old: str, new: str) -> None:
    assert "onnxlift.RNN" not in found(steps(BODY.replace(old, new)))


def test_a_step_that_reads_another_sequence() -> None:
    body = BODY.replace("Slice(p, one, two, zero)", "Slice(q, one, two, zero)")
    assert "onnxlift.RNN" not in found(steps(f"q = MatMul(x, V) {body} o = Exp(p)", "y, o", V=(4, 6)))


def test_pieces_in_another_order() -> None:
    swapped = BODY.replace("Add(c0, p0)", "Add(c0, p_)").replace("Add(p1, c1)", "Add(p0, c1)").replace("p_", "p1")
    assert "onnxlift.RNN" not in found(steps(swapped))


@pytest.mark.parametrize("part", ["h1", "h2", "a1", "c1", "r1", "p1", "m", "o"])
def test_parts_that_others_read_stay(part: str) -> None:
    assert "onnxlift.RNN" not in found(steps(f"{BODY} {'o = Exp(p)' if part == 'o' else ''}", outputs=f"y, {part}"))


@pytest.mark.parametrize(
    ("inputs", "weights"),
    [
        ("float[4, batch, 4] x, float[1, batch, 6] h0", {}),
        ("float[3, batch, 4] x, float[1, 1, 6] h0", {}),
        ("float[3, batch, 4] x, float[2, batch, 6] h0", {}),
        ("float[3, 1, 4] x, float[1, batch, 6] h0", {}),
        ("float[3, 4] x, float[1, 4, 6] h0", {}),
        (f"{INPUTS}, float[6] b", {}),
        (f"{INPUTS}, float[6] b, float[6] c", {}),
        (INPUTS, {"W": (3, 4, 6)}),
        (INPUTS, {"W": (4, 1), "b": (1,)}),
        (INPUTS, {"R": (6, 1), "c": (1,)}),
        (INPUTS, {"b": (1,)}),
        (INPUTS, {"c": (1,)}),
        (INPUTS, {"b": (1, 1, 6)}),
        (INPUTS, {"c": (1, 1, 6)}),
    ],
    ids="""longer batch-of-state rows-of-state batch rank input inputs
        matrices column state-column number state-number bias-rank state-bias-rank""".split(),
)
def test_other_sizes_stay(inputs: str, weights: dict[str, Any]) -> None:
    model = steps(inputs=inputs, **weights)
    for bias in [tensor for tensor in model.graph.initializer if f"[6] {tensor.name}" in inputs]:
        model.graph.initializer.remove(bias)
    assert "onnxlift.RNN" not in found(model)


def test_one_step_is_no_layer() -> None:
    body = "m = MatMul(x, W) p = Add(m, b) r0 = MatMul(h0, R) c0 = Add(r0, c) a0 = Add(c0, p0) h1 = Tanh(a0)"
    cut = "p = Add(m, b) s0 = Slice(p, zero, one, zero) p0 = Squeeze(s0, zero)"
    model = steps(body.replace("p = Add(m, b)", cut), "h1", "float[1, batch, 4] x, float[1, batch, 6] h0")
    assert "onnxlift.RNN" not in found(model)
    graph = load(model)
    normalise(graph)  # but not simplified: the piece is the whole
    assert unrolled_rnn.run(graph) == 0


def test_steps_along_another_axis_stay() -> None:
    body = re.sub(r"(Slice\(.*?), zero\)", r"\1, one)", BODY)
    body = re.sub(r"(Squeeze\(.*?), zero\)", r"\1, one)", body)
    assert "onnxlift.RNN" not in found(steps(body, inputs="float[3, 3, 4] x, float[1, 3, 6] h0"))


def test_longer_pieces_stay() -> None:
    body = BODY.replace("Slice(p, one, two, zero) p1 = Squeeze(s1, zero)", "Slice(p, one, three, zero)")
    assert "onnxlift.RNN" not in found(steps(body.replace("Add(p1, c1)", "Add(s1, c1)").rpartition("y =")[0], "h3"))


def test_other_axes_are_squeezed() -> None:
    """With one feature, the last piece may lose that axis instead: then all states meet all rows."""
    body = BODY.rpartition("y =")[0].replace("Squeeze(s2, zero)", "Squeeze(s2, two)")
    weights = {"W": (4, 1), "R": (1, 1), "b": (1,), "c": (1,)}
    model = steps(body, "h3", "float[3, batch, 4] x, float[1, batch, 1] h0", **weights)
    assert "onnxlift.RNN" not in found(model)


def test_numbers_of_other_types_stay() -> None:
    inputs = INPUTS.replace("float", "double")
    weights = {name: np.random.default_rng(1).random(size) for name, size in (("W", (4, 6)), ("R", (6, 6)))}
    body = re.sub(r"p = Add\(m, b\)", "p = Identity(m)", re.sub(r"c(\d) = Add\(r\d, c\)", r"c\1 = Identity(r\1)", BODY))
    assert "onnxlift.RNN" not in found(steps(body, inputs=inputs, **weights))


def test_an_operator_that_is_like_a_concatenation() -> None:
    model = steps(BODY.replace("Concat", "acme.Concat"))
    model.opset_import.append(onnx.helper.make_opsetid("acme", 1))
    assert "RNN" not in [node.op_type for node in simplified(model).graph]


COMPUTED = BODY.replace("r0 = MatMul(h0, R) c0 = Add(r0, c) a0 = Add(c0, p0)", "a0 = Add(computed, p0)")


@pytest.mark.parametrize(
    ("computed", "is_layer"),
    [
        (lambda c: np.tile(c, (1, 2, 1)), True),
        (lambda c: c[None, None], True),
        (lambda c: c, False),
        (lambda c: np.stack([c, 2 * c])[None], False),
        (lambda c: np.tile(c, (2, 2, 1)), False),
    ],
    ids=["rows", "row", "rank", "others", "more"],
)
def test_the_first_product_may_be_computed(computed: Any, is_layer: bool) -> None:
    c = np.random.default_rng(4).standard_normal(6).astype(np.float32)
    model = steps(COMPUTED, inputs="float[3, 2, 4] x", computed=computed(c), c=c)
    assert ("onnxlift.RNN" in found(model)) == is_layer


def test_without_biases() -> None:
    body = re.sub(r"p = Add\(m, b\)", "p = Identity(m)", re.sub(r"c(\d) = Add\(r\d, c\)", r"c\1 = Identity(r\1)", BODY))
    assert found(steps(body)) == ["onnxlift.RNN"]
    assert "nn.RNN(4, 6, bias=False)" in onnxlift.lift(steps(body)).source
    assert "onnxlift.RNN" not in found(steps(body, W=(4, 1)))
    zeros = body.replace("r0 = MatMul(h0, R) c0 = Identity(r0) a0 = Add(c0, p0)", "a0 = Add(computed, p0)")
    for value, count in ((0.0, 1), (0.5, 0)):
        computed = np.full((1, 2, 6), value, np.float32)
        model = steps(zeros, inputs="float[3, 2, 4] x", computed=computed)
        assert found(model).count("onnxlift.RNN") == count


BACK = """k = MatMul(x, V) l = Add(k, b) q = Slice(l, last, first, zero, last)
    t0 = Slice(q, zero, one, zero) q0 = Squeeze(t0, zero) t1 = Slice(q, one, two, zero) q1 = Squeeze(t1, zero)
    t2 = Slice(q, two, three, zero) q2 = Squeeze(t2, zero)
    u0 = MatMul(g0, S) d0 = Add(u0, c) e0 = Add(d0, q0) g1 = Tanh(e0)
    u1 = MatMul(g1, S) d1 = Add(u1, c) e1 = Add(q1, d1) g2 = Tanh(e1)
    u2 = MatMul(g2, S) d2 = Add(u2, c) e2 = Add(d2, q2) g3 = Tanh(e2) w = Concat <axis = 0> (g3, g2, g1)"""
STARTS = "h0 = Slice(h, zero, one, zero) g0 = Slice(h, one, two, zero)"
ELSE = "else_branch = e () => (j) { j = Exp(x) }"
RESULT, STATES = "z = Concat <axis = 2> (y, w)", "n = Concat <axis = 0> (h3, g3)"


def directions(
    old: str = "", new: str = "", outputs: str = "z, n", states: str = "2, batch, 6", steps: str = "3, batch, 4"
) -> onnx.ModelProto:
    body = f"{STARTS} {BODY} {BACK} {RESULT} {STATES}"
    assert old in body
    places = {name: np.array([i]) for i, name in enumerate(("zero", "one", "two", "three"))}
    turned = {"last": np.array([-1]), "first": np.array([-9])}
    weights = {"W": (4, 6), "R": (6, 6), "b": (6,), "c": (6,), "V": (4, 6), "S": (6, 6), **places, **turned}
    body = body.replace(old, new)
    given = (", bool[1] flag" if "flag" in body else "") + (f", float[{states}] h" if "(h," in body else "")
    return parse(f"g (float[{steps}] x{given}) => ({outputs}) {{ {body} }}", **weights)


def test_both_directions_are_one_layer() -> None:
    assert found(directions()) == ["onnxlift.RNN"]
    assert found(directions(STATES, outputs="z")) == ["onnxlift.RNN"]
    assert found(directions(RESULT, outputs="n")) == ["onnxlift.RNN"]
    assert "nn.RNN(4, 6, bidirectional=True)" in onnxlift.lift(directions()).source


@pytest.mark.parametrize(
    ("old", "new", "outputs"),
    [
        ("(h3, g3)", "(g3, h3)", "z, n"),
        ("", "", "z, n, g3, h3"),
        ("(h3, g3)", "(h, h3, g3)", "z, n"),
        ("(h3, g3)", "(h3, h, g3)", "z, n"),
        ("(h3, g3)", "(h3, g3, h3, g3)", "z, n"),
        ("n =", "o = Concat <axis = 0> (h3, g3) n =", "z, n, o"),
    ],
)
def test_the_states_of_directions_are_rows(old: str, new: str, outputs: str) -> None:
    assert found(directions(old, new, outputs)).count("onnxlift.RNN") == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(g3, g2, g1)", "(g1, g2, g3)"),
        ("(l, last, first, zero, last)", "(l, last, first, one, last)"),
        ("q = Slice(l, last, first, zero, last)", "j = Slice(l, last, first, zero, last) q = Concat <axis = 0> (j, j)"),
    ],
    ids=["order", "axis", "more"],
)
def test_steps_that_do_not_run_backwards(old: str, new: str) -> None:
    assert found(directions(old, new)).count("onnxlift.RNN") == 1
    assert "bidirectional" not in onnxlift.lift(directions(old, new)).source


@pytest.mark.parametrize(
    ("old", "new", "outputs"),
    [
        ("(y, w)", "(w, y)", "z, n"),
        ("k = MatMul(x, V)", "o = Exp(x) k = MatMul(o, V)", "z, n"),
        ("<axis = 2> (y, w)", "<axis = 0> (y, w)", "z, n"),
        ("<axis = 2> (y, w)", "<axis = 2> (y, w, y)", "z, n"),
        ("h0 = Slice(h, zero, one, zero)", "h0 = Slice(h, one, two, zero)", "z, n"),
        ("g0 = Slice(h, one, two, zero)", "i = Exp(h) g0 = Slice(i, one, two, zero)", "z, n"),
        ("", "", "z, n, y"),
        ("n =", "o = Exp(w) n =", "z, n, o"),
        ("(y, w)", "(y, w, x)", "z, n"),
        (RESULT, f"z = If (flag) <then_branch = a () => (i) {{ {RESULT.replace('z =', 'i =')} }}, {ELSE}>", "z, n"),
        (RESULT, "", "n, w"),
        (BACK, BACK.replace("Tanh", "Relu"), "z, n"),
    ],
    ids="order input axis more rows tensor output reader third branch one activation".split(),
)
def test_directions_that_are_not_of_one_layer(old: str, new: str, outputs: str) -> None:
    assert found(directions(old, new, outputs)).count("onnxlift.RNN") == 2


def test_two_layers_that_both_run_backwards() -> None:
    turned = "p = Slice(turn, last, first, zero, last)"
    body = BODY.replace("p = Add(m, b)", f"turn = Add(m, b) {turned}").replace("(h1, h2, h3)", "(h3, h2, h1)")
    assert found(directions(BODY, body)).count("onnxlift.RNN") == 2


def test_steps_whose_input_others_read_before_it_is_turned_around() -> None:
    model = directions("n =", "o = Exp(l) n =", "z, n, o")
    assert found(model).count("onnxlift.RNN") == 1 and "bidirectional" not in onnxlift.lift(model).source


def test_rows_that_are_turned_around() -> None:
    old, new = "(l, last, first, zero, last)", "(l, last, first, one, last)"
    model = directions(old, new, states="2, 2, 6", steps="3, 2, 4")
    assert "bidirectional" not in onnxlift.lift(model).source
    assert found(model).count("onnxlift.RNN") == 1


def test_a_layer_that_runs_backwards_over_a_part() -> None:
    """The last three of four steps, from the last on."""
    assert "onnxlift.RNN" not in found(
        directions("(l, last, first, zero, last)", "(l, last, zero, zero, last)", "z, n", steps="4, batch, 4")
    )


def test_states_along_another_axis() -> None:
    old = "h0 = Slice(h, zero, one, zero) g0 = Slice(h, one, two, zero)"
    new = "h0 = Slice(h, zero, one, one) g0 = Slice(h, one, two, one)"
    model = directions(old, new, states="1, 2, 6", steps="3, 1, 4")
    assert found(model).count("onnxlift.RNN") == 2


def test_states_that_are_rows_of_more() -> None:
    model = directions(states="3, batch, 6")
    assert found(model).count("onnxlift.RNN") == 1
    assert "bidirectional=True" in onnxlift.lift(model).source


def test_directions_that_start_from_zeros() -> None:
    model = directions(STARTS, "h0 = ConstantOfShape(sizes) g0 = ConstantOfShape(sizes)", "z", steps="3, 2, 4")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 2, 6]), "sizes"))
    assert found(model) == ["onnxlift.RNN"]
    assert "_ = self.rnn(x)" in onnxlift.lift(model).source


def test_readers_of_what_comes_first() -> None:
    """The steps from the last to the first are written first, and read before the others begin."""
    model = directions(f"{BODY} {BACK}", f"{BACK} o = Exp(g3) {BODY}", "z, n, o")
    assert found(model).count("onnxlift.RNN") == 1
    nodes = [*simplified(model).graph]
    for place, node in enumerate(nodes):
        assert not {value.producer() for value in node.inputs if value is not None} & {*nodes[place:]}


def test_an_operator_that_is_like_a_concatenation_of_directions() -> None:
    model = directions("z = Concat", "z = acme.Concat")
    model.opset_import.append(onnx.helper.make_opsetid("acme", 1))
    assert [node.op_type for node in simplified(model).graph].count("RNN") == 2


class Tagger(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.rnn = nn.RNN(4, 6, **options)
        self.head = nn.Linear(12 if "bidirectional" in options else 6, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, h = self.rnn(x)
        return self.head(y), h


@pytest.mark.parametrize(
    "options",
    [
        {"batch_first": True},
        {"num_layers": 2, "bias": False, "nonlinearity": "relu"},
        {"bidirectional": True},
        {"num_layers": 2, "batch_first": True, "bidirectional": True},
    ],
)
@pytest.mark.parametrize("is_free", [True, False])
def test_what_the_exporter_writes_has_the_keys_of_the_original(
    tmp_path: Path, options: dict[str, Any], is_free: bool
) -> None:
    torch.manual_seed(3)
    model, x = Tagger(**options).eval(), torch.randn(2, 5, 4)
    sizes = ({1 - int("batch_first" in options): torch.export.Dim("batch")},) if is_free else None
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(
            model, (x,), tmp_path / "m.onnx", dynamo=True, dynamic_shapes=sizes, verbose=False, external_data=False
        )
    module = onnxlift.lift(tmp_path / "m.onnx").module()
    module.load_state_dict(model.state_dict(), strict=True)
    assert isinstance(module.rnn, nn.RNN)
    for result, expected in zip(module(x), model(x), strict=True):
        torch.testing.assert_close(result, expected)

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

from .recognising import found, parse

STEPS = 3
BODY = """m = MatMul(x, W) p = Add(m, b)
    s0 = Slice(p, zero, one, zero) p0 = Squeeze(s0, zero) s1 = Slice(p, one, two, zero) p1 = Squeeze(s1, zero)
    s2 = Slice(p, two, three, zero) p2 = Squeeze(s2, zero)
    r0 = MatMul(h0, R) c0 = Add(r0, c) a0 = Add(c0, p0) h1 = Tanh(a0)
    r1 = MatMul(h1, R) c1 = Add(r1, c) a1 = Add(p1, c1) h2 = Tanh(a1)
    r2 = MatMul(h2, R) c2 = Add(r2, c) a2 = Add(c2, p2) h3 = Tanh(a2) y = Concat <axis = 0> (h1, h2, h3)"""


def steps(body: str = BODY, outputs: str = "y, h3", **more: Any) -> onnx.ModelProto:
    places = {name: np.array([i]) for i, name in enumerate(("zero", "one", "two", "three"))}
    weights = {"W": (4, 6), "R": (6, 6), "b": (6,), "c": (6,), "other": (6, 6), **places, **more}
    used = {name: value for name, value in weights.items() if re.search(rf"\b{name}\b", body)}
    return parse(f"g (float[3, batch, 4] x, float[1, batch, 6] h0) => ({outputs}) {{ {body} }}", **used)


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
    ],
    ids=["weight", "state", "piece", "activation", "order", "bias", "one bias", "last piece"],
)
def test_other_steps_stay(old: str, new: str) -> None:
    assert "onnxlift.RNN" not in found(steps(BODY.replace(old, new)))


def test_states_that_others_read_stay() -> None:
    assert "onnxlift.RNN" not in found(steps(outputs="y, h2"))


BACK = """k = MatMul(x, V) l = Add(k, b) q = Slice(l, last, first, zero, last)
    t0 = Slice(q, zero, one, zero) q0 = Squeeze(t0, zero) t1 = Slice(q, one, two, zero) q1 = Squeeze(t1, zero)
    t2 = Slice(q, two, three, zero) q2 = Squeeze(t2, zero)
    u0 = MatMul(g0, S) d0 = Add(u0, c) e0 = Add(d0, q0) g1 = Tanh(e0)
    u1 = MatMul(g1, S) d1 = Add(u1, c) e1 = Add(q1, d1) g2 = Tanh(e1)
    u2 = MatMul(g2, S) d2 = Add(u2, c) e2 = Add(d2, q2) g3 = Tanh(e2) w = Concat <axis = 0> (g3, g2, g1)"""
STARTS = "h0 = Slice(h, zero, one, zero) g0 = Slice(h, one, two, zero)"
RESULT, STATES = "z = Concat <axis = 2> (y, w)", "n = Concat <axis = 0> (h3, g3)"


def directions(old: str = "", new: str = "", outputs: str = "z, n") -> onnx.ModelProto:
    body = f"{STARTS} {BODY} {BACK} {RESULT} {STATES}"
    assert old in body
    places = {name: np.array([i]) for i, name in enumerate(("zero", "one", "two", "three"))}
    turned = {"last": np.array([-1]), "first": np.array([-9])}
    weights = {"W": (4, 6), "R": (6, 6), "b": (6,), "c": (6,), "V": (4, 6), "S": (6, 6), **places, **turned}
    head = f"g (float[3, batch, 4] x, float[2, batch, 6] h) => ({outputs})"
    return parse(f"{head} {{ {body.replace(old, new)} }}", **weights)


def test_both_directions_are_one_layer() -> None:
    assert found(directions()) == ["onnxlift.RNN"]
    assert found(directions(STATES, outputs="z")) == ["onnxlift.RNN"]
    assert found(directions(RESULT, outputs="n")) == ["onnxlift.RNN"]
    assert "nn.RNN(4, 6, bidirectional=True)" in onnxlift.lift(directions()).source


@pytest.mark.parametrize(
    ("old", "new", "outputs"),
    [("(h3, g3)", "(g3, h3)", "z, n"), ("", "", "z, n, g3, h3"), ("(h3, g3)", "(h, h3, g3)", "z, n")],
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
    ],
    ids=["order", "input", "axis", "more", "rows", "tensor", "output", "reader"],
)
def test_directions_that_are_not_of_one_layer(old: str, new: str, outputs: str) -> None:
    assert found(directions(old, new, outputs)).count("onnxlift.RNN") == 2


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

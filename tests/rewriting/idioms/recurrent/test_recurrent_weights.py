"""Parameters of recurrent layers that the graph packs as ONNX wants them; and what is not quite a parameter."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import onnxlift
from lifting.ops.checking import check
from onnxlift.rewriting.idioms.recurrent.parts import packed_weights as recurrent_weights
from rewriting.idioms.recognising import found, parse

PACKED = """W = Unsqueeze(w, zero) R = Unsqueeze(r, zero) b = Concat <axis = 0> (p, q) B = Unsqueeze(b, zero)
    Y, h = RNN <hidden_size = 6> (x, W, R, B)"""
INPUTS = "float[seq, batch, 4] x"


def packed(old: str = "", new: str = "", inputs: str = INPUTS, **more: Any) -> onnx.ModelProto:
    assert old in PACKED
    body = PACKED.replace(old, new)
    known = {"w": (6, 4), "r": (6, 6), "p": (6,), "q": (6,), "zero": np.array([0]), **more}
    used = {name: data for name, data in known.items() if re.search(rf"\b{name}\b", body)}
    return parse(f"g ({inputs}) => (Y, h) {{ {body} }}", **used)


@pytest.mark.parametrize(
    ("old", "new", "more"),
    [
        ("", "", {}),
        ("W = Unsqueeze(w, zero)", "W = Reshape(w, sizes)", {"sizes": np.array([1, 6, 4])}),
        ("(x, W, R, B)", "(x, W, R)", {}),
    ],
    ids=["unsqueezed", "reshaped", "no bias"],
)
def test_parameters_are_found(old: str, new: str, more: dict[str, Any]) -> None:
    model = packed(old, new, **more)
    assert "onnxlift.RNN" in found(model)
    weights = {"rnn.weight_ih_l0": "w", "rnn.weight_hh_l0": "r", "rnn.bias_ih_l0": "p", "rnn.bias_hh_l0": "q"}
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    state = onnxlift.lift(model).state_dict
    assert len(state) == (4 if "B" in model.graph.node[-1].input else 2)
    for name, array in state.items():
        np.testing.assert_array_equal(array, arrays[weights[name]])


@pytest.mark.parametrize(
    ("old", "new", "inputs", "more"),
    [
        ("R = Unsqueeze(r, zero)", "t = Transpose <perm = [1, 0]> (r) R = Unsqueeze(t, zero)", INPUTS, {}),
        ("R = Unsqueeze(r, zero)", "R = Reshape(r, sizes)", INPUTS, {"r": (2, 3, 6), "sizes": np.array([1, 6, 6])}),
        ("R = Unsqueeze(r, zero)", "t = Slice(r, zero, six, zero) R = Unsqueeze(t, zero)", INPUTS, {"r": (7, 6)}),
        ("W = Unsqueeze(w, zero)", "t = Mul(w, w) W = Unsqueeze(t, zero)", INPUTS, {}),
        ("W = Unsqueeze(w, zero)", "W = Unsqueeze(u, zero)", f"{INPUTS}, float[6, 4] u", {}),
        ("(p, q)", "(p, u)", f"{INPUTS}, float[6] u", {}),
        ("(p, q)", "(p, half, half)", INPUTS, {"half": (3,)}),
    ],
    ids=["order", "axes", "part", "computed", "input", "half an input", "size"],
)
def test_what_is_not_a_parameter_as_it_is(old: str, new: str, inputs: str, more: dict[str, Any]) -> None:
    assert "onnxlift.RNN" not in found(packed(old, new, inputs, six=np.array([6]), **more))


@pytest.mark.parametrize(("limit", "value"), [("_MAX_NODES", 2), ("_MAX_ELEMENTS", 70)])
def test_large_graphs_are_not_evaluated(monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(recurrent_weights, limit, value)
    assert "onnxlift.RNN" not in found(packed())


def test_a_slice_that_is_not_known() -> None:
    """Which axis it is along is an input of the model: along the first it would be all of the matrix."""
    new = "t = Slice(w, zero, six, n) W = Unsqueeze(t, zero)"
    inputs = "float[5, 2, features] x, int64[1] n"
    model = packed("W = Unsqueeze(w, zero)", new, inputs, w=(6, 8), six=np.array([6]))
    x = np.random.default_rng(3).standard_normal((5, 2, 6)).astype(np.float32)
    assert "onnx_rnn(" in check(model, {"x": x, "n": np.array([1])}, atol=1e-5)


def test_constants_that_look_like_places() -> None:
    """0, 1, 2... in the place of the second matrix are not the elements of the first one."""
    model = packed("R = Unsqueeze(r, zero)", "R = Unsqueeze(places, zero)", "float[5, 2, 6] x", w=(6, 6))
    places = numpy_helper.from_array(np.arange(36, dtype=np.float32).reshape(6, 6))
    model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["places"], value=places))
    x = np.random.default_rng(3).standard_normal((5, 2, 6)).astype(np.float32)
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    with torch.no_grad():
        results = onnxlift.lift(model, simplify=False).module()(torch.from_numpy(x))
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.numpy(), other, atol=1e-5)

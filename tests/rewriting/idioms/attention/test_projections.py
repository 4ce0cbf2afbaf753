"""Linear projections of which the weights are parts of larger ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnxlift.ir.editing.edit import Edit, Names
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.attention.multihead.projections import Projection, find_projection
from onnxlift.rewriting.idioms.layers import linear
from rewriting.idioms.recognising import parse
from rewriting.running_stages import normalise

PART = """w, w1 = Split <axis = 0> (W, cut) b1, b = Split <axis = 0> (B, tuc) t = Transpose <perm = [1, 0]> (w)
    m = MatMul(x, t) y = Add(m, b)"""
WHOLE = "b1, b = Split <axis = 0> (B, tuc) m = MatMul(x, V) y = Add(b, m)"


def projection_in(text: str, more: str = "", **other: Any) -> Projection | None:
    """The projection that makes `y`."""
    known = {"W": (36, 12), "B": (36,), "V": (12, 24), "cut": np.array([24, 12]), "tuc": np.array([12, 24])} | other
    used = {name: value for name, value in known.items() if (f"({name}," in text or f" {name})" in text)}
    model = parse(f"g (float[5, 2, 12] x{more}) => (float[p, q, r] y) {{ {text} }}", **used)
    graph = load(model)
    normalise(graph)
    linear.run(graph)
    return find_projection(Edit(next(iter(regions(graph))), Names(graph)), graph.graph.outputs[0])


@pytest.mark.parametrize("text", [PART, WHOLE], ids=["part", "whole"])
def test_found(text: str) -> None:
    found = projection_in(text)
    assert found is not None and found.bias is not None
    assert (found.start, found.rows, found.columns, found.bias_start) == (0, 24, 12, 12)


@pytest.mark.parametrize(
    ("old", "new", "more", "other"),
    [
        ("b1, b =", "b, b1 =", "", {"tuc": [1, 35]}),
        ("perm = [1, 0]> (w)", "perm = [0, 1]> (w)", "", {"cut": [12, 24], "tuc": [24, 12]}),
        ("<axis = 0> (W", "<axis = 1> (W", "", {"W": (12, 24), "cut": [12, 12], "tuc": [24, 12]}),
        ("(W, cut)", "(c, cut)", ", float[36, 12] c", {}),
        ("(B, tuc)", "(c, tuc)", ", float[36] c", {}),
    ],
    ids=[
        "one number",
        "not transposed",
        "columns",
        "a weight that is given",
        "a bias that is given",
    ],
)
def test_others(old: str, new: str, more: str, other: dict[str, Any]) -> None:
    known = {name: np.array(value) if isinstance(value, list) else value for name, value in other.items()}
    assert projection_in(PART.replace(old, new), more, **known) is None

"""The ways to call an `nn.MultiheadAttention`: what is moved around it that is not the layer's own."""

from __future__ import annotations

import numpy as np
import pytest

from rewriting.idioms.attention.multihead_graphs import LAYER, TEXT, layer
from rewriting.idioms.recognising import found

FIRST, LAST = "Transpose <perm = [1, 0, 2]> (x)", "y = Transpose <perm = [1, 0, 2]> (ob)"


@pytest.mark.parametrize(
    ("first", "last", "shapes", "operators"),
    [
        ("Reshape(x, start)", "y = Squeeze(ob, one)", ("60", "5, 12"), ["Reshape", LAYER, "Squeeze"]),
        ("Transpose <perm = [1, 2, 0]> (x)", LAST, ("12, 5, 12", "12, 5, 12"), ["Transpose", LAYER, "Transpose"]),
        (
            FIRST,
            "r = Relu(ob) y = Transpose <perm = [1, 0, 2]> (r)",
            ("2, 5, 12",) * 2,
            ["Transpose", LAYER, "Relu", "Transpose"],
        ),
        ("Unsqueeze(x, one)", "y = Squeeze(ob, one)", ("5, 12", "5, 12"), [LAYER]),
    ],
    ids=["flat", "features for batches", "something in between", "one sequence"],
)
def test_what_is_moved_around_it(first: str, last: str, shapes: tuple[str, str], operators: list[str]) -> None:
    text = TEXT.replace(FIRST, first).replace(LAST, last)
    source, result = (f"float[{shape}]" for shape in shapes)
    proto = layer(text, source, result, start=np.array([5, 1, 12]), one=np.array([1]))
    assert found(proto) == operators


def test_a_projection_in_a_branch_stays() -> None:
    outside, inside = TEXT.replace(FIRST, "Identity(x)").replace(LAST, "").split("ow = ")
    text = f"""{outside} y = If (c) <
        then_branch = then_graph () => (float[5, batch, 12] ob) {{ ow = {inside} }},
        else_branch = else_graph () => (float[5, batch, 12] other) {{ other = Relu(x) }}
    >"""
    assert LAYER not in found(layer(text, "float[5, batch, 12]", more=", bool[1] c"))

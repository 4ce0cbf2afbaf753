"""Pieces that are not all of an axis, or not to be said so. What is: `test_taken_apart.py`."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriting.idioms import unsimplified
from rewriting.idioms.recognising import found, parse

NUMBERS = {f"n{i}": np.array([i]) for i in (0, 1, 3, 6, 9)}
PIECES = "a = Slice(y, n0, n3, n1) b = Slice(y, n3, n6, n1) c = Slice(y, n6, n9, n1)"
REST = "p = Exp(a) q = Sin(b) r = Cos(c)"


def model(pieces: str = PIECES, x: str = "float[batch, 8] x", opset: int = 18) -> onnx.ModelProto:
    known = NUMBERS | {"sizes": np.array([3, 5])}
    used = {name: data for name, data in known.items() if f"{name})" in pieces or f"{name}," in pieces}
    return parse(f"g ({x}) => (p, q, r) {{ y = Neg(x) {pieces} {REST} }}", opset, **used)


def test_pieces() -> None:
    assert found(model()) == ["Neg", "Split", "Exp", "Sin", "Cos"]
    assert "Split" in found(model(opset=13))


def test_lists_may_be_sizes() -> None:
    pieces = PIECES.replace("n1)", "n0)")
    assert "Split" not in found(model(pieces, "float[8] x"))
    assert "Split" in found(model(pieces, "float[8, batch] x"))


def test_a_split_had_its_lengths_elsewhere_before_opset_13() -> None:
    assert "Split" not in found(model(opset=12))


def test_pieces_in_two_modules() -> None:
    proto = model()
    for node in proto.graph.node:
        node.name = f"/{'first' if node.output[0] == 'a' else 'second'}/{node.output[0]}"
    assert "Split" not in found(proto)


def test_inputs_are_cut_where_they_are_needed() -> None:
    assert "Split" not in found(model(PIECES.replace("(y,", "(x,") + " z = Neg(y)"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n0, n3", "n1, n3"),  # the first element is left out
        ("n3, n6", "n1, n6"),
        ("n6, n9", "n6, n6"),
        ("b = Slice(y, n3, n6, n1)", "b = Slice(y, n3, n6, n0)"),
    ],
)
def test_other_pieces(old: str, new: str) -> None:
    assert "Split" not in found(model(PIECES.replace(old, new), "float[8, 8] x"))


def test_an_empty_piece_beside_the_others() -> None:
    pieces = "a = Slice(y, n0, n3, n1) b = Slice(y, n3, n9, n1) c = Slice(y, n3, n3, n1)"
    assert sorted(found(model(pieces))) == sorted(["Neg", "Split", "Slice", "Exp", "Sin", "Cos"])


def test_a_piece_of_a_split() -> None:
    pieces = "a, b = Split <axis = 1> (y, sizes) c = Slice(y, n3, n9, n1)"
    assert sorted(found(model(pieces))) == sorted(["Neg", "Split", "Slice", "Exp", "Sin", "Cos"])


def test_all_of_an_axis_in_one_piece() -> None:
    proto = parse("g (float[batch, 8] x) => (z) { y = Neg(x) a = Slice(y, n0, n9, n1) z = Exp(a) }", **NUMBERS)
    assert unsimplified.found(proto) == ["Neg", "Slice", "Exp"]


def test_two_pieces_that_one_node_reads() -> None:
    text = "a = Slice(y, n0, n3, n1) b = Slice(y, n3, n6, n1) z = Sub(b, a)"
    proto = parse(f"g (float[batch, 6] x) => (z) {{ y = Neg(x) {text} }}", **NUMBERS)
    assert "Split" not in found(proto)
    text = f"{PIECES} d = Sub(b, a) z = Sub(d, c)"
    assert "Split" in found(parse(f"g (float[batch, 9] x) => (z) {{ y = Neg(x) {text} }}", **NUMBERS))
    text = f"{PIECES} z = Sum(a, b, c)"
    assert "Split" in found(parse(f"g (float[batch, 9] x) => (z) {{ y = Neg(x) {text} }}", **NUMBERS))

"""Tensors that are cut into sequences only to be taken out of these."""

from __future__ import annotations

import pytest

from onnxlift.rewriting.simplifying import split_sequences
from rewriting.graphs import apply, operators

TAKEN = "a = SequenceAt(s, zero) b = SequenceAt(s, one)"
CUT = "s = SplitToSequence <axis = 1> (x, k)"


def text(body: str, sizes: str = "value_ints = [2, 3]", shape: str = "4, 5") -> str:
    numbers = "zero = Constant <value_int = 0> () one = Constant <value_int = 1> () last = Constant <value_int = -1> ()"
    return f"g (float[{shape}] x) => (y) {{ {numbers} k = Constant <{sizes}> () {body} }}"


ZERO = "m = ReduceMax <keepdims = 0> (x) t = Less(m, m) i = Cast <to = 7> (t)"
PIECES = "e = ReduceSum <keepdims = 1> (b) y = Add(a, e)"


@pytest.mark.parametrize(
    "model",
    [
        text(f"{CUT} {TAKEN} {PIECES}"),
        text(f"{CUT} {TAKEN.replace('one', 'last')} {PIECES}"),
        text(f"{CUT} {TAKEN} {PIECES}", "value_int = 3"),
        text(f"{CUT.replace('1', '-2')} {TAKEN} {PIECES}", "value_ints = [1, 3]"),
    ],
    ids=["sizes", "from the end", "one size, and a rest", "another axis"],
)
def test_pieces_that_are_all_taken_out(model: str) -> None:
    graph, count = apply(model, split_sequences.run)
    assert count == 1 and operators(graph)[0] == "Split"


@pytest.mark.parametrize(
    "model",
    [
        text(f"{CUT} a = SequenceAt(s, zero) y = Exp(a)"),
        text(f"{CUT} {TAKEN.replace('one', 'zero')} {PIECES}"),
        text(f"{CUT} {TAKEN} n = SequenceLength(s) f = CastLike(n, x) c = Add(a, f) {PIECES.replace('(a', '(c')}"),
        text(f"{CUT} {TAKEN} {PIECES}", shape="4, n"),
        text(f"{ZERO} {CUT} {TAKEN.replace('zero', 'i')} {PIECES}"),
    ],
    ids=["one left over", "one twice", "read otherwise", "unknown size", "unknown place"],
)
def test_other_sequences_stay(model: str) -> None:
    assert apply(model, split_sequences.run)[1] == 0

"""What is left of a model that was lifted and dropped: nothing."""

from __future__ import annotations

import gc
import weakref

import onnx_ir as ir
import pytest
from onnx import parser

import onnxlift
from onnxlift import collector

MODEL = parser.parse_model(
    '<ir_version: 9, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) { a = Sin(x) y = Mul(a, x) }'
)


def dropped() -> weakref.ref[ir.Graph]:
    """A reference to a graph that was just lifted, and is kept alive by nothing but the cycles in it."""
    graph: ir.Graph = onnxlift.lift(MODEL).model.graph
    return weakref.ref(graph)


def test_a_small_model_is_collected_with_all_that_is_young() -> None:
    ref = dropped()
    gc.collect(1)
    assert ref() is None


def test_a_large_model_is_collected_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MANY_OBJECTS", 0)
    ref = dropped()
    gc.collect(1)
    assert ref() is not None, "it is taken for old"
    dropped()
    assert ref() is None

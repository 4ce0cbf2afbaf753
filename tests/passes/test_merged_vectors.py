"""Vectors that an exporter stored once for several modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from onnxlift.ir.load import load
from onnxlift.passes import normalise

TEXT = """<ir_version: 9, opset_import: ["" : 18]> g (float[batch, 4] x) => (float[batch, 4] y) {
    a = LayerNormalization(x, w, b)
    y = LayerNormalization(a, w, b)
}"""
ONES, ZEROS = np.ones(4, np.float32), np.zeros(4, np.float32)
TRAINED = np.array([0.5, -1, 2, 0.25], np.float32)


def vectors_of_second(
    second: str = "block.norm2", kind: str = "nn.LayerNorm", weight: np.ndarray[Any, Any] = ONES
) -> list[str]:
    """The vectors that a norm in the module `second`, of the class `kind`, has after normalisation."""
    model = onnx.parser.parse_model(TEXT)
    for array, name in ((weight, "block.norm1.weight"), (ZEROS, "block.norm1.bias")):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    for node, module, name in zip(model.graph.node, ("block.norm1", second), ("nn.LayerNorm", kind), strict=True):
        node.input[1:] = ["block.norm1.weight", "block.norm1.bias"]
        scopes, classes = ["", "block", module, "layer_norm"], ["Net", "Block", name, "aten.layer_norm.default"]
        for key, texts in (("name_scopes", scopes), ("class_hierarchy", classes)):
            node.metadata_props.append(onnx.StringStringEntryProto(key=f"pkg.torch.onnx.{key}", value=repr(texts)))
    graph = load(model)
    normalise(graph)
    return [value.name or "" for value in list(graph.graph)[-1].inputs[1:] if value is not None]


def test_each_module_has_its_own() -> None:
    assert vectors_of_second() == ["block.norm2.weight", "block.norm2.bias"]


def test_a_module_that_is_called_twice_keeps_its_vectors() -> None:
    assert vectors_of_second("block.norm1") == ["block.norm1.weight", "block.norm1.bias"]


def test_what_was_trained_is_shared() -> None:
    assert vectors_of_second(weight=TRAINED) == ["block.norm1.weight", "block.norm2.bias"]


@pytest.mark.parametrize(
    ("second", "kind"), [("block.norm2", "nn.RMSNorm"), ("block.norm1.inner", "nn.LayerNorm"), ("", "nn.LayerNorm")]
)
def test_other_modules_read_it_where_it_is(second: str, kind: str) -> None:
    assert vectors_of_second(second, kind) == ["block.norm1.weight", "block.norm1.bias"]

"""Which program wrote a model."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest

from onnxlift.ir.load import load
from onnxlift.ir.origin.exporter import Tool, exporter_of
from onnxlift.ir.origin.metadata import NAME_SCOPES, SIGNATURE

TEXT = '<ir_version: 9, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


@pytest.mark.parametrize(
    ("producer", "tool"),
    [
        ("pytorch", Tool.PYTORCH_OLDER),
        ("tf2onnx", Tool.TF2ONNX),
        ("keras2onnx", Tool.KERAS2ONNX),
        ("PaddlePaddle", Tool.PADDLE),
        ("skl2onnx", Tool.SKL2ONNX),
        ("OnnxScript", Tool.ONNXSCRIPT),
        ("onnx.quantize", Tool.ONNXRUNTIME),
        ("somebody", Tool.UNKNOWN),
        ("", Tool.UNKNOWN),
    ],
)
def test_the_producer_names_the_exporter(producer: str, tool: Tool) -> None:
    proto = onnx.parser.parse_model(TEXT)
    proto.producer_name = producer
    exporter = exporter_of(load(proto))
    assert exporter.tool is tool and exporter.reason
    assert exporter.is_pytorch is (producer == "pytorch")


@pytest.mark.parametrize("key", [NAME_SCOPES, SIGNATURE])
def test_the_newer_exporter_is_told_by_what_it_writes_beside_the_graph(key: str) -> None:
    proto = onnx.parser.parse_model(TEXT)
    proto.producer_name = "pytorch"
    holder, text = (
        (proto.graph.node[0], "['', 'relu']") if key == NAME_SCOPES else (proto.graph, "p: PARAMETER target='w'")
    )
    holder.metadata_props.add(key=key, value=text)
    assert exporter_of(load(proto)).tool is Tool.PYTORCH_NEWER


def test_it_is_decided_once() -> None:
    model = load(onnx.parser.parse_model(TEXT))
    found = exporter_of(model)
    model.producer_name = "pytorch"
    assert exporter_of(model) is found

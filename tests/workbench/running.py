"""Small models as text, simplified, and run by ONNX Runtime in this process."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper, parser

Feeds = dict[str, np.ndarray[Any, Any]]


def model_of(body: str, weights: dict[str, np.ndarray[Any, Any]] | None = None, opset: int = 18) -> onnx.ModelProto:
    """A model from `(inputs) => (outputs) { nodes }`, with its weights."""
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> net {body}')
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in (weights or {}).items())
    return model


def outputs_of(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    """The outputs of ONNX Runtime, without its optimisations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # DynamicQuantizeLSTM quantises what one thread computes, and not the whole batch
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def assert_same(
    model: onnx.ModelProto, other: onnx.ModelProto, *all_feeds: Feeds, rtol: float = 1e-4, is_declared: bool = True
) -> None:
    """Hold that two models compute the same, and that the second is a valid file with the same interface.

    If not `is_declared`, the types that the first declares may be wrong."""
    # ONNX's own inference of an STFT forgets that half of the frequencies are left out, and its checker insists on it.
    if _is_valid(model) and "STFT" not in operators(model):
        onnx.checker.check_model(other, full_check=True)
    for ours, theirs in ((other.graph.input, model.graph.input), (other.graph.output, model.graph.output)):
        assert [each.name for each in ours] == [each.name for each in theirs]
        for mine, declared in zip(ours, theirs, strict=True):
            assert mine.type == declared.type or not (is_declared and declared.type.tensor_type.HasField("shape"))
    for feeds in all_feeds:
        for mine, expected in zip(outputs_of(other, feeds), outputs_of(model, feeds), strict=True):
            np.testing.assert_allclose(mine, expected, rtol=rtol, atol=1e-5)


def _is_valid(model: onnx.ModelProto) -> bool:
    """Whether ONNX's checker takes the original: it refuses outputs without a shape, for example."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]

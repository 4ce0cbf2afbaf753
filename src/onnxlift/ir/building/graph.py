"""Build the onnx_ir.Model from the proto, and give it the tensors that were taken out of the proto."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from onnxlift.errors import LoadError
from onnxlift.ir.graph.interface import INTERFACE
from onnxlift.ir.graph.types import ONNX_TYPE
from onnxlift.ir.reading.draft import Draft
from onnxlift.ir.reading.structure import root_cause
from onnxlift.ir.reading.weights import attach_weights
from onnxlift.stages import step


@step("graph", optional=False, after={"spelling": "onnx-ir does not hold every way to say a thing"})
def run(draft: Draft) -> int:
    """Build the graph from the proto."""
    try:
        model = ir.from_proto(draft.proto)
    except Exception as error:
        # onnx-ir wraps the error once for every level of nesting; the innermost error is the clearest.
        raise LoadError(f"onnx-ir cannot represent the model: {root_cause(error)}") from error
    attach_weights(model, draft.store)
    for value in (*model.graph.inputs, *model.graph.outputs):
        if value.name in draft.unheld_types:
            value.meta[ONNX_TYPE] = draft.unheld_types[value.name]
    if draft.faithful:
        model.meta[INTERFACE] = replace(draft.interface, defaults=_take_defaults(model.graph))
    draft.model = model
    return 0


def _take_defaults(graph: ir.Graph) -> dict[str, ir.TensorProtocol]:
    """Take out the initialisers of values that are inputs as well, so that nobody takes them for constants."""
    defaults: dict[str, ir.TensorProtocol] = {}
    for value in graph.inputs:
        if value.name is not None and value.name in graph.initializers and value.const_value is not None:
            del graph.initializers[value.name]
            defaults[value.name], value.const_value = value.const_value, None
    return defaults

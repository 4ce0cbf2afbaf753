"""What idioms find in models that no pass has simplified, as `lift(..., simplify=False)` shows them: for cases that
the passes would take away before an idiom sees them."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import onnxruntime
import torch

import onnxlift
from onnxlift.ir.editing.edit import Edit, Names
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.load import load
from rewriting.idioms import recognising
from rewriting.running_stages import normalise, recognise

Values = dict[str, ir.Value]


def found(model: onnx.ModelProto) -> list[str]:
    """The operators after recognition. The lifted module must give ONNX Runtime's numbers, for sizes of two kinds."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    module = onnxlift.lift(model, simplify=False).module()
    for seed, sizes in enumerate(recognising.SIZES):
        feeds = recognising.random_inputs(model, sizes, seed)
        with torch.no_grad():
            outputs = module(*(torch.from_numpy(array) for array in feeds.values()))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        for actual, expected in zip(outputs, session.run(None, feeds), strict=True):
            torch.testing.assert_close(actual, torch.from_numpy(expected), rtol=1e-4, atol=1e-5, equal_nan=True)
    graph = load(model)
    normalise(graph)
    recognise(graph)
    return [f"{node.domain}.{node.op_type}".lstrip(".") for node in graph.graph]


def graph(text: str, **constants: recognising.Data) -> tuple[Edit, Values]:
    """The graph of a model in normal form, and its values by name."""
    model = load(recognising.parse(text, **constants))
    normalise(model)
    region = next(iter(regions(model)))
    made = [output for node in region.graph for output in node.outputs]
    values = [*region.graph.inputs, *region.graph.initializers.values(), *made]
    return Edit(region, Names(model)), {value.name or "": value for value in values}

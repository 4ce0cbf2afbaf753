"""Find out which program wrote a model. This is done once, and the answer is kept with the model.

The file has the name of its producer. PyTorch's two exporters write the same name; the newer one is recognised by the
metadata that it writes beside the graph (`exported.py`). A program that rewrites a file may put its own name into it,
or leave the name of the exporter.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import onnx_ir as ir

from .exported import state_names
from .metadata import NAME_SCOPES

EXPORTER = "exporter"
"""Key in `Model.meta` of the program that wrote the model: an `Exporter`."""


class Tool(Enum):
    """A program that writes ONNX files: one whose habits we know, or a common one."""

    PYTORCH_OLDER = "PyTorch's older exporter"
    PYTORCH_NEWER = "PyTorch's newer exporter"
    TF2ONNX = "tf2onnx"
    KERAS2ONNX = "keras2onnx"
    PADDLE = "Paddle"
    SKL2ONNX = "skl2onnx"
    ONNXSCRIPT = "onnxscript"
    ONNXRUNTIME = "ONNX Runtime's tools"
    UNKNOWN = "an unknown program"


_PRODUCERS = {
    "tf2onnx": Tool.TF2ONNX,
    "keras2onnx": Tool.KERAS2ONNX,
    "PaddlePaddle": Tool.PADDLE,
    "paddle2onnx": Tool.PADDLE,
    "skl2onnx": Tool.SKL2ONNX,
    "OnnxScript": Tool.ONNXSCRIPT,
    "onnx.quantize": Tool.ONNXRUNTIME,
    "onnxruntime": Tool.ONNXRUNTIME,
    "onnxruntime.transformers": Tool.ONNXRUNTIME,
}


@dataclass(frozen=True)
class Exporter:
    """The program that wrote a model, and how we know."""

    tool: Tool
    reason: str

    @property
    def is_pytorch(self) -> bool:
        """Tell whether one of PyTorch's exporters wrote the file.

        Then we can rely on its habits: how it names nodes and parameters, and which nodes it writes for a layer."""
        return self.tool in (Tool.PYTORCH_OLDER, Tool.PYTORCH_NEWER)


UNKNOWN = Exporter(Tool.UNKNOWN, "the file does not tell")


def exporter_of(model: ir.Model) -> Exporter:
    """Return the program that wrote a model."""
    known = model.meta.get(EXPORTER)
    if not isinstance(known, Exporter):
        known = model.meta[EXPORTER] = _find(model)
    return known


def _find(model: ir.Model) -> Exporter:
    producer = model.producer_name or ""
    if producer != "pytorch":
        tool = _PRODUCERS.get(producer, Tool.UNKNOWN)
        return Exporter(tool, "the file names its producer") if tool is not Tool.UNKNOWN else UNKNOWN
    if state_names(model.graph):
        return Exporter(Tool.PYTORCH_NEWER, "the file lists the parameters of the exported program")
    if any(NAME_SCOPES in node.metadata_props for node in model.graph):
        return Exporter(Tool.PYTORCH_NEWER, "nodes tell the modules around them")
    return Exporter(Tool.PYTORCH_OLDER, "it is PyTorch's, and has nothing that the newer exporter writes")

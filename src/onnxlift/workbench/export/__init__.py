"""`export`: an ONNX model as a program of `torch.export`, a compiled package, or an ONNX model by torch's exporter."""

from .failures import ExportError
from .report import BackReport, ExportReport
from .verb import export

__all__ = ["BackReport", "ExportError", "ExportReport", "export"]

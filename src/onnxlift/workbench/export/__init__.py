"""`export`: an ONNX model as a program of `torch.export`, a compiled package, or an ONNX model by torch's exporter."""

from .report import BackReport, ExportReport
from .verb import ExportError, export

__all__ = ["BackReport", "ExportError", "ExportReport", "export"]

"""Export the trained module anew, for weights that the file has no place for."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.graph.types import TORCH_DTYPE, type_of
from onnxlift.lifted import Lifted
from onnxlift.sizes import parse_size
from onnxlift.verification.children.child import ChildError, Limits, run_child
from onnxlift.verification.given import Given, read_given
from onnxlift.verification.values import write_values

from ..report import Checking

SMALLEST = 2
"""The least size of an open dimension: torch takes a size of one for a fixed one."""


def export_again(trained: Lifted, checking: Checking) -> bytes:
    """Return the file that torch exports the trained module to, with the names and open sizes of the original."""
    graph = trained.model.graph
    given = Given(read_given(checking.inputs), checking.shapes, dict(checking.dims), checking.seed)
    chosen = {name: max(SMALLEST, size) for name, size in given.sizes(graph).chosen.items()}
    values = given.make(graph, trained.stored_types, chosen)
    limits = Limits(checking.timeout, None if checking.memory is None else parse_size(checking.memory))
    with tempfile.TemporaryDirectory(prefix="onnxlift-") as folder:
        job = Path(folder)
        write_values(job / "inputs", values)
        types = {value.name or "": TORCH_DTYPE[value.dtype] for value in graph.inputs if value.dtype in TORCH_DTYPE}
        task = {
            "side": "export",
            "source": str(trained.save(job / "lifted_files")[0]),
            "outputs": [value.name or "" for value in graph.outputs],
            "open_sizes": {value.name or "": _open_sizes(value) for value in graph.inputs},
            "target": str(job / "exported.onnx"),
            "types": types,
        }
        try:
            run_child(job, task, "torch.onnx.export", limits)
        except ChildError as error:
            raise OnnxLiftError(f"the trained module cannot be exported either: {error}") from error
        return (job / "exported.onnx").read_bytes()


def _open_sizes(value: ir.Value) -> dict[str, str]:
    """Return the axes of an input whose sizes are open, each with the name of the size if torch takes it."""
    shape = type_of(value).shape or ()
    return {str(axis): size if size.isidentifier() else "" for axis, size in enumerate(shape) if isinstance(size, str)}

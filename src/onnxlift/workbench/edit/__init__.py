"""`edit`: an ordered list of operations on a model, which is also a script. docs/workbench/edit.md.

m = edit.open("bert.onnx")
m.rename("1423", "hidden")
m.insert_after("hidden", "Clip", min=0.0, max=6.0)
m.save("clipped.onnx")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .arrays import Array, array
from .editor import Editor, operations_of, parse_operations
from .operation import Operation, all_operations
from .report import EditReport
from .script import run_script


def open(source: Any) -> Editor:
    """Return an editor of the model in `source`: a path, bytes, a proto, an onnx_ir.Model, or the report of a verb.

    The source itself is not changed. A model that breaks rules can be opened, so that it can be mended."""
    return Editor(source)


def apply(source: Any, operations: Iterable[Operation | Mapping[str, Any]], **options: Any) -> EditReport:
    """Do the operations, given as such or as plain data, to the model in `source`; return the report with the result.

    `options` are those of `Editor.report`."""
    editor = Editor(source)
    for operation in operations_of(operations):
        editor.do(operation)
    return editor.report(**options)


__all__ = [
    "Array",
    "EditReport",
    "Editor",
    "Operation",
    "all_operations",
    "apply",
    "array",
    "open",
    "parse_operations",
    "run_script",
]

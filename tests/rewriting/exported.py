"""Graphs with what PyTorch's newer exporter writes beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
from onnx import numpy_helper

from onnxlift.ir.load import load

Array = np.ndarray[Any, Any]

# The module that a node is in, from the outermost on; the classes; its operation with the arguments.
Note = tuple[str, str, str]


def exported(
    body: str, notes: Iterable[Note | None], stored: Mapping[str, Array], parameters: Iterable[str], inputs: str = "x"
) -> ir.Model:
    """The model with nodes as in `body` and a note for each (`layers.0/layers.0.k`, `Layer/Linear`, `linear(x, k)`),
    that had `parameters` and has those that are `stored`: `p1` in `body` and notes is the second of the parameters."""
    names = list(parameters)
    heads = ", ".join(f"float[2, 4] {name}" for name in inputs.split())
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g ({heads}) => (float[2, 4] y) {{ {body} }}'
    )
    for node, note in zip(model.graph.node, notes, strict=True):
        node.input[:] = [names[int(name[1:])] if name[1:].isdigit() and name[0] == "p" else name for name in node.input]
        for key, value in _entries(*note) if note is not None else ():
            node.metadata_props.append(onnx.StringStringEntryProto(key=f"pkg.torch.onnx.{key}", value=value))
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
    lines = "".join(f"p{number}: PARAMETER target='{name}'\n" for number, name in enumerate(names))
    key = "pkg.torch.export.ExportedProgram.graph_signature"
    model.graph.metadata_props.append(onnx.StringStringEntryProto(key=key, value=f"\n# inputs\n{lines}"))
    return load(model)


def _entries(modules: str, classes: str, operation: str) -> Iterable[tuple[str, str]]:
    name, _, arguments = operation.rstrip(")").partition("(")
    kind = name.rstrip("0123456789").rstrip("_")
    reads = ", ".join(f"%{argument}" for argument in arguments.split(", "))
    yield "name_scopes", repr(["", *filter(None, modules.split("/")), name])
    yield "class_hierarchy", repr(["Net", *filter(None, classes.split("/")), kind])
    call = f"call_function[target=torch.ops.aten.{kind}.default](args = ({reads}), kwargs = {{}})"
    yield "fx_node", f"%{name} : [num_users=1] = {call}"


def reads_of(model: ir.Model) -> list[list[str]]:
    """What each node reads, by name."""
    return [[value.name or "" for value in node.inputs if value is not None] for node in model.graph]

"""What names of the graph say to a reader."""

from __future__ import annotations

import re

import onnx_ir as ir

from ..tree.names import identifier, is_generated
from .module import Module

USUAL_NAME = "usual_name"
"""Key in `Value.meta` of what a value is usually called, by the operator that gives it."""


_STATES = {"Y_h": "h", "Y_c": "c"}  # ONNX's own names for what recurrent layers leave behind


def meaning(module: Module, value: ir.Value) -> str | None:
    """A variable name from the value's own name, without what the module's name says already; None if the name was
    made up by an exporter."""
    name = _STATES.get(value.name or "", value.name or "")
    if is_generated(name) or "/" in name or _is_exporters(module, value):
        return None
    for depth in range(len(module.path), 0, -1):
        prefix = re.sub(r"\W", "_", "_".join(module.path[-depth:])) + "_"
        if name.startswith(prefix) and len(name) > len(prefix):
            name = name[len(prefix) :]
            break
    return identifier(name)


def _is_exporters(module: Module, value: ir.Value) -> bool:
    """Whether the name is one that an exporter gave to an operation (`linear_3`), or the op type itself."""
    producer = value.producer()
    if producer is None or value.is_graph_output():
        return False
    if not module.names_speak:
        return True
    return bool(re.fullmatch(rf"(?i){re.escape(producer.op_type)}(_(out|output))?_?\d*", value.name or ""))


_OPERATION = re.compile(
    r"(?i)(^|_)(conv|c|bn|relu|pool|proj|sum|add|mul|matmul|mm|h|t|flat|gap|bias|norm|act|gelu|reshape|transpose|out)\d*$"
)


def thing(name: str) -> str | None:
    """`Q_t`, `context_h`, `block1_conv_out` -> Q, context, block1: the name without the operation that made it."""
    name = name.rstrip("_")
    while match := _OPERATION.search(name):
        name = name[: match.start()]
    return name or None


def says_more(name: str | None) -> bool:
    """Whether a value's name tells a reader more than the expression does: `context`, but not `block1_conv_out`."""
    return name is not None and not _OPERATION.search(name.rstrip("_"))

"""Read what the names of the graph say to a reader."""

from __future__ import annotations

import re
from collections.abc import Sequence

import onnx_ir as ir

from onnxlift.ir.origin.names import is_counted_input, is_counted_operation, says_nothing, unquantised
from onnxlift.lifting.code.identifiers import identifier

from .module import Module

LONGEST_NAME = 40  # of a variable

_STATES = {"Y_h": "h", "Y_c": "c"}  # ONNX's own names for the last states of recurrent layers
# `input.36`, `conv2d:0`: the number by which an exporter tells values of the same name apart.
_SERIAL = re.compile(r"([.:]\d+)+$")
_ASSIGNMENT = re.compile(r"(_\d+)+$")
# `past_key_values.3.key`: the number of a module. It says nothing inside that module.
_COUNTER = re.compile(r"[._]\d+(?=[._][A-Za-z])")
_SIGNATURE = "serving_default_"  # TensorFlow's prefix for the inputs of a model
# The names that PyTorch's functions give to their arguments and results.
_ANYTHING = frozenset({"input", "result", "ret", "output", "out", "self"})


def meaning(module: Module, value: ir.Value) -> str | None:
    """Return a variable name made from the value's own name, without the words that are in the module's path already.
    Return None if an exporter made the name up."""
    name = _STATES.get(value.name or "", value.name or "")
    if value.is_graph_input() and not module.path:
        name = _SERIAL.sub("", name.removeprefix(_SIGNATURE)) or name
        return None if not name or "/" in name or is_counted_input(name) else identifier(name)
    if says_nothing(name) or "/" in name or _is_exporters(module, value):
        return None
    name = _written_again(value, _SERIAL.sub("", unquantised(name)))
    if (module.path and (value.is_graph_input() or value.is_graph_output())) or value in module.of_iterations:
        name = _COUNTER.sub("", name)
    if (
        not name
        or is_counted_operation(name)
        or (name.rstrip("0123456789") in _ANYTHING and not value.is_graph_output())
    ):
        return None
    for depth in range(len(module.path), 0, -1):
        prefix = re.sub(r"\W", "_", "_".join(module.path[-depth:])) + "_"
        if name.startswith(prefix) and len(name) > len(prefix):
            name = name[len(prefix) :]
            break
    return identifier(name)


def _written_again(value: ir.Value, name: str) -> str:
    """Remove the number from a name, if an earlier value has the name without it: `signal_5` -> signal. Such numbers
    tell apart the values that one variable had in the program that the graph was made from."""
    first = _ASSIGNMENT.sub("", name)
    return first if first != name and first in _names(value.graph) else name


def _names(graph: ir.Graph | ir.Function | None) -> set[str]:
    """Return the names of the inputs and results in a graph."""
    if graph is None:
        return set()
    if "names" not in graph.meta:
        values = (*graph.inputs, *(value for node in graph for value in node.outputs))
        graph.meta["names"] = {value.name for value in values}
    found: set[str] = graph.meta["names"]
    return found


def in_common(values: Sequence[object]) -> str | None:
    """Return the name that the author gave to each of several values: `past.0.key`, `past.1.key` -> past_key."""
    names = [value.name or "" for value in values if isinstance(value, ir.Value)]
    words = {_COUNTER.sub("", name) for name in names}
    word = words.pop() if len(words) == 1 and not any(map(says_nothing, names)) else ""
    return identifier(word) if len(word) > 1 and "/" not in word else None


def _is_exporters(module: Module, value: ir.Value) -> bool:
    """Tell whether the name is one that an exporter gave to an operation (`linear_3`), or the op type itself."""
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
    """Return a name without the operations in it: `Q_t`, `context_h`, `block1_conv_out` -> Q, context, block1."""
    name = name.rstrip("_")
    while match := _OPERATION.search(name):
        name = name[: match.start()]
    return name or None


def says_more(name: str | None) -> bool:
    """Tell whether a value's name tells a reader more than the expression does. `context` does, `block1_conv_out` does
    not, and neither does a name that is too long."""
    return name is not None and len(name) <= LONGEST_NAME and not _OPERATION.search(name.rstrip("_"))

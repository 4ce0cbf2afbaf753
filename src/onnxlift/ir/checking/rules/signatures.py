"""Rules on what a node takes and gives: the operator itself, its inputs and its outputs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import onnx.defs
from onnx.defs import OpSchema

from onnxlift.ir.graph.functions import function_title

from .rule import Subject, rule

_UNLIMITED = 2**31 - 1
_OPTION = OpSchema.FormalParameterOption


@rule("OL020", "operator-version")
def operator_exists_in_the_opset(n: Subject) -> Iterable[str]:
    """An operator of ONNX exists in the opset that the model imports."""
    if n.schema is None and n.function is None:
        first = _first_version(n.node.domain, n.node.op_type)
        if first is not None:
            yield f"{n.node.op_type} exists since opset {first}, and the model imports opset {n.opset}."


@rule("OL021", "input-count")
def takes_as_many_inputs_as_the_schema(n: Subject) -> Iterable[str]:
    """A node has no more inputs than its operator takes, and no fewer than it needs."""
    if n.function is not None:
        most = len(n.function.inputs)
        if len(n.inputs) > most:
            title = function_title(n.function.identifier())
            yield f"it has {_count(len(n.inputs), 'input')}, and function {title} takes {most}."
    elif n.schema is not None and not n.schema.min_input <= len(n.inputs) <= n.schema.max_input:
        takes = _range(n.schema.min_input, n.schema.max_input)
        yield f"it has {_count(len(n.inputs), 'input')}, and {n.node.op_type} takes {takes}."


@rule("OL022", "input-missing")
def has_every_required_input(n: Subject) -> Iterable[str]:
    """No input that the operator requires is left out."""
    if n.schema is None or None not in n.inputs:
        return
    formal = n.schema.inputs
    for index, value in enumerate(n.inputs):
        parameter = formal[min(index, len(formal) - 1)] if formal else None
        if value is None and parameter is not None and parameter.option != _OPTION.Optional:
            yield f"its input {parameter.name} is left out, and {n.node.op_type} requires it."


@rule("OL023", "output-count")
def gives_as_many_outputs_as_the_schema(n: Subject) -> Iterable[str]:
    """A node has no more outputs than its operator gives, and no fewer than it must have."""
    outputs = n.node.outputs
    if n.function is not None:
        most = len(n.function.outputs)
        if len(outputs) > most:
            title = function_title(n.function.identifier())
            yield f"it has {_count(len(outputs), 'output')}, and function {title} gives {most}."
    elif n.schema is not None and not n.schema.min_output <= len(outputs) <= n.schema.max_output:
        gives = _range(n.schema.min_output, n.schema.max_output)
        yield f"it has {_count(len(outputs), 'output')}, and {n.node.op_type} gives {gives}."
    elif not outputs:
        yield "it has no outputs, so that it computes nothing."


@cache
def _first_version(domain: str, op_type: str) -> int | None:
    """Return the first opset of the domain that has the operator; None if none has."""
    versions = [
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == op_type and schema.domain == domain
    ]
    return min(versions, default=None)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _range(least: int, most: int) -> str:
    if most >= _UNLIMITED:
        return f"{least} or more"
    return str(least) if least == most else f"{least} to {most}"

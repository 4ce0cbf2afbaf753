"""Rules on element types: an input has a type that the operator takes, and inputs that must agree do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import onnx_ir as ir
from onnx.defs import OpSchema

from onnxlift.ir.graph.types import ONNX_TYPE

from .rule import Subject, rule

_NAMES = {
    ir.DataType.FLOAT: "float",
    ir.DataType.DOUBLE: "double",
    ir.DataType.FLOAT16: "float16",
    ir.DataType.BFLOAT16: "bfloat16",
}


@rule("OL046", "input-type", typed=True)
def inputs_have_a_type_that_the_operator_takes(n: Subject) -> Iterable[str]:
    """Each input has an element type that the operator takes, and is a tensor, a sequence or an optional as it must."""
    if n.schema is None:
        return
    parameters = _parameters(n.schema, len(n.inputs))
    for (name, _, allowed), value in zip(parameters, n.inputs, strict=False):
        found = type_text(value)
        if found is not None and found not in allowed:
            yield f"its input {name} is {_said(found)}, and {n.node.op_type} takes {_listed(allowed)} there."


@rule("OL047", "input-types-agree", typed=True)
def inputs_of_one_type_agree(n: Subject) -> Iterable[str]:
    """Inputs that the schema gives one type have the same one: ONNX converts nothing by itself."""
    if n.schema is None:
        return
    first: dict[str, tuple[str, str]] = {}
    parameters = _parameters(n.schema, len(n.inputs))
    for (name, variable, _), value in zip(parameters, n.inputs, strict=False):
        found = type_text(value)
        if found is None or not variable:
            continue
        other, expected = first.setdefault(variable, (name, found))
        if found != expected:
            yield (
                f"its input {other} is {_said(expected)} and its input {name} is {_said(found)}; "
                f"{n.node.op_type} takes one type for both: insert a Cast."
            )


@rule("OL048", "carried-type", "Loop", "Scan", typed=True)
def loops_keep_the_types_of_their_values(n: Subject) -> Iterable[str]:
    """An iteration leaves a carried value with the type that it had. (An optional may be given for what it holds.)"""
    body = n.node.attributes.get("body")
    if body is None or body.is_ref():
        return
    graph = body.as_graph()
    skipped = 1 if n.node.op_type == "Loop" else 0
    for entering, leaving in zip(graph.inputs[2 * skipped :][: _carried(n)], graph.outputs[skipped:], strict=False):
        before, after = type_text(entering), type_text(leaving)
        if before is not None and after is not None and _content(before) != _content(after):
            said = f"enters an iteration as {_said(before)} and leaves it as {_said(after)}"
            yield f"its value {entering.name} {said}: both must be of one type."


@rule("OL049", "loop-results", "Loop", "Scan", typed=True)
def loops_stack_tensors_and_go_on_by_a_bool(n: Subject) -> Iterable[str]:
    """The condition that the body of a Loop gives is a bool, and what a Loop or a Scan stacks are tensors."""
    body = n.node.attributes.get("body")
    if body is None or body.is_ref():
        return
    outputs = body.as_graph().outputs
    if n.node.op_type == "Loop" and outputs:
        condition, *outputs = outputs
        found = type_text(condition)
        if found not in (None, "tensor(bool)"):
            yield f"the condition {condition.name} of its body is {_said(found)}, and must be bool."
    for value in outputs[_carried(n) :]:
        found = type_text(value)
        if found is not None and not found.startswith("tensor("):
            yield f"its body gives {value.name}, {_said(found)}, in each iteration, and only tensors can be stacked."


def _carried(n: Subject) -> int:
    """Return how many values a Loop or a Scan carries from one iteration to the next."""
    if n.node.op_type == "Loop":
        return max(len(n.inputs) - 2, 0)
    return len(n.inputs) - int(n.setting("num_scan_inputs")) - (1 if n.opset < 9 else 0)


def type_text(value: ir.Value | None) -> str | None:
    """Return the type of a value as schemas spell it, such as `seq(tensor(float))`; None if it is not known."""
    if value is None or value.type is None or ONNX_TYPE in value.meta:
        return None
    return _text(value.type)


def _text(type_: Any) -> str | None:
    if type(type_) is ir.TensorType:
        return None if type_.dtype is ir.DataType.UNDEFINED else f"tensor({_element(type_.dtype)})"
    if isinstance(type_, ir.SequenceType | ir.OptionalType):
        inner = _text(type_.elem_type)
        word = "seq" if isinstance(type_, ir.SequenceType) else "optional"
        return None if inner is None else f"{word}({inner})"
    return None  # sparse tensors: ONNX's own schemas do not take any


@cache
def _element(dtype: ir.DataType) -> str:
    return _NAMES.get(dtype, dtype.name.lower())


@cache
def _parameters(schema: OpSchema, count: int) -> tuple[tuple[str, str, frozenset[str]], ...]:
    """Return name, type variable and allowed types of the first `count` inputs.

    The variable is empty if the input need not agree with another one: its type is fixed, or it is one of several
    inputs of any type."""
    variables = {each.type_param_str for each in schema.type_constraints}
    formal: list[Any] = list(schema.inputs)
    found: list[tuple[str, str, frozenset[str]]] = []
    for index in range(count):
        parameter = formal[min(index, len(formal) - 1)]
        mixed = parameter.option == OpSchema.FormalParameterOption.Variadic and not parameter.is_homogeneous
        variable = parameter.type_str if parameter.type_str in variables and not mixed else ""
        name = parameter.name if index < len(formal) else f"{parameter.name}[{index - len(formal) + 1}]"
        found.append((name, variable, frozenset(parameter.types)))
    return tuple(found)


def _content(text: str) -> str:
    return text.removeprefix("optional(")[:-1] if text.startswith("optional(") else text


def _said(text: str) -> str:
    """Return a type in words: `float`, `a sequence of float`."""
    inner = text[text.index("(") + 1 : -1]
    words: Mapping[str, str] = {"tensor": "", "seq": "a sequence of ", "optional": "an optional "}
    return words.get(text.partition("(")[0], "") + (inner if text.startswith("tensor") else _said(inner))


_MOST_SEQUENCES = 4


def _listed(allowed: frozenset[str]) -> str:
    words = sorted({_said(text) for text in allowed if text.startswith(("tensor(", "seq(", "optional("))})
    sequences = [word for word in words if word.startswith("a sequence of ")]
    if len(sequences) > _MOST_SEQUENCES:
        words = [*(word for word in words if word not in sequences), "a sequence of tensors"]
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0] if words else "no tensor"

"""Make a node: checked by the rules of the gate, with types and sizes inferred, and folded if it is a constant."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Protocol

import onnx_ir as ir

from onnxlift.ir.checking.rules.rule import Subject
from onnxlift.ir.checking.rules.table import broken_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.graph.walk import Region
from onnxlift.ir.inference.evaluate import EVALUATED, evaluate
from onnxlift.ir.inference.stepwise import Stepwise
from onnxlift.ir.origin.metadata import CLASSES, NAME_SCOPES

from . import state
from .errors import BuildError, line_text, users_line
from .signatures import element_of
from .state import MADE, Block, Made, made_of
from .tensors import constant_value, is_foldable

MOST_FOLDED = 1 << 16
"""The most elements of a constant that is computed while the model is built."""

_GRAPH = ir.Graph([], [], nodes=[], name="nodes on their own")


class Custom(Protocol):
    """An operator of the user's own, which infers itself."""

    def infer(self, node: ir.Node) -> None: ...


Title = Callable[[], str]
"""Writes the call for a message."""


@lru_cache(maxsize=64)
def _stepwise(functions: tuple[ir.Function, ...]) -> Stepwise:
    """Return the inference of nodes that may call these functions; it remembers what calls of them give."""
    return Stepwise(state.fresh_size, functions)


@cache
def snake(name: str) -> str:
    """Return the name of an operator or a class as that of a value: `batch_norm` of BatchNorm, `conv1d` of Conv1D."""
    name = re.sub(r"(?<=\d)D(?![a-z])", "d", name)  # it belongs to its number
    name = re.sub(r"(?<=Re|Si)LU", "lu", name)  # and so does this to its first half
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def make(
    domain: str,
    op_type: str,
    version: int,
    inputs: Sequence[ir.Value | None],
    attributes: Sequence[ir.Attr],
    outputs: Sequence[str],
    title: Title,
    *,
    schema: Any = None,
    name: str | None = None,
    captures: tuple[ir.Value, ...] = (),
    function: ir.Function | None = None,
    functions: tuple[ir.Function, ...] = (),
    operator: Custom | None = None,
    metadata: Mapping[str, str] | None = None,
) -> list[ir.Value]:
    """Make a node and return its outputs, named by what is added to the name of the node; or raise a BuildError."""
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    block, scopes = state.block(), state.scopes()
    for value in (*inputs, *captures):
        if value is not None:
            check_visible(value, block, title)
    base = name or snake(op_type)
    hint = f"{scopes.path}.{base}" if scopes.path else base
    node = ir.Node(
        domain,
        op_type,
        inputs,
        attributes,
        overload="" if function is None else function.overload,
        outputs=[ir.Value(name=f"{hint}{added}") for added in outputs],
        version=version,
        name=hint,
    )
    made = Made(state.next_order(), users_line(), block, hint, "node", None, captures, functions, operator)
    made.keeps_types = function is None and schema_for(domain, op_type, version) is None
    node.meta[MADE] = made
    if metadata:
        node.metadata_props.update(metadata)
    if scopes.paths and NAME_SCOPES not in node.metadata_props:
        node.metadata_props[NAME_SCOPES] = f"{scopes.names_text}{hint!r}]"
        node.metadata_props[CLASSES] = f"{scopes.classes_text}{op_type!r}]"
    try:
        _check(node, block, title, schema, function)
    except BuildError:
        _detach(node)
        raise
    folded = _folded(node, version, hint)
    if folded is not None:
        _detach(node)
        return [folded]
    if block is not None:
        block.nodes.append(node)
    return list(node.outputs)


def check_visible(value: ir.Value, block: Block | None, title: Title) -> None:
    """Raise a BuildError if a value belongs to a body that is not around the one that is being made."""
    made = made_of(value)
    owner = made.block
    if owner is None and (block is None or made.kind == "constant"):
        return
    if block is owner or (block.sees(owner) if block is not None else owner is None):
        return
    if owner is not None and (block is None or not block.isolated or owner.closed):
        raise BuildError(
            f"{title()}: {value.name} was made inside {owner.what} ({line_text(owner.line)}), and is not known "
            "outside of it: return it there, and use what that gives."
        )
    assert block is not None
    inside: Block | None = block
    while inside is not None and not inside.isolated:
        inside = inside.parent
    raise BuildError(
        f"{title()}: {value.name} was made outside of {(inside or block).what}, which reads nothing from "
        "outside: pass it as an argument."
    )


def _check(node: ir.Node, block: Block | None, title: Title, schema: Any, function: ir.Function | None) -> None:
    """Infer the node, and raise a BuildError if it breaks a rule."""
    opsets: Mapping[str, int] = {**state.opsets(), node.domain: node.version or 1}
    depth = 0 if block is None else block.depth
    subject = Subject(node, Region(_GRAPH, opsets, depth), function)
    if schema is not None:
        subject.schema = schema
    _refuse(subject, False, title)
    reason = _stepwise(node.meta[MADE].functions).infer(node, opsets, always_runs=depth == 0)
    if schema is not None:
        _types_by_schema(node, schema)
    if node.meta[MADE].operator is not None:
        node.meta[MADE].operator.infer(node)
    _refuse(subject, True, title)
    if reason is not None:
        raise BuildError(f"{title()}: ONNX's own inference refuses it: {reason}.")


def _types_by_schema(node: ir.Node, schema: Any) -> None:
    """Set the types of outputs that inference does not know, where the schema gives them the type of an input."""
    if all(value.type is not None for value in node.outputs):
        return
    formal = schema.inputs
    known = {
        formal[min(index, len(formal) - 1)].type_str: value.type
        for index, value in enumerate(node.inputs)
        if value is not None
    }
    for index, value in enumerate(node.outputs):
        parameter = schema.outputs[min(index, len(schema.outputs) - 1)]
        if value.type is not None or not parameter.is_homogeneous:
            continue
        found = known.get(parameter.type_str)
        if found is None and len(parameter.types) == 1:
            element = element_of(next(iter(parameter.types)))
            found = None if element is None else ir.TensorType(element)
        value.type = found


def _refuse(subject: Subject, typed: bool, title: Title) -> None:
    for _, text in broken_by(subject, typed=typed):
        raise BuildError(f"{title()}: {text}")


def _folded(node: ir.Node, version: int, hint: str) -> ir.Value | None:
    """Return the result of a node whose inputs are all constants, as a constant; None if it is computed later."""
    if node.op_type not in EVALUATED or node.domain or not node.inputs or not all(map(is_foldable, node.inputs)):
        return None
    shape = node.outputs[0].shape
    if shape is None or any(not isinstance(size, int) for size in shape) or _elements(shape) > MOST_FOLDED:
        return None
    tensors = [None if value is None else constant(value) for value in node.inputs]
    if any(tensor is not None and tensor.size > MOST_FOLDED for tensor in tensors):
        return None
    result = evaluate(node, version, [None if tensor is None else tensor.numpy() for tensor in tensors])
    if result is None:
        return None
    return constant_value(ir.tensor(result, dtype=node.outputs[0].dtype), hint)


def _elements(shape: ir.Shape) -> int:
    total = 1
    for size in shape:
        total *= size if isinstance(size, int) else 0
    return total


def _detach(node: ir.Node) -> None:
    for index in range(len(node.inputs)):
        node.replace_input_with(index, None)

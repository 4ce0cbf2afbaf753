"""Trace a Python function into a graph inside the model: the body of a loop, a branch, or a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from . import state
from .arithmetic import call
from .errors import BuildError, at_the_users_line, users_line
from .nodes import check_visible, make
from .state import MADE, Block, Made, made_of
from .tensors import constant
from .value import Value


@dataclass(frozen=True)
class Body:
    """A traced body: its graph's parts, and what it reads from outside."""

    block: Block
    inputs: list[ir.Value]
    outputs: list[ir.Value]
    nodes: list[ir.Node]
    captures: tuple[ir.Value, ...]

    @property
    def functions(self) -> tuple[ir.Function, ...]:
        """The functions that its nodes call."""
        return tuple(each for node in self.nodes for each in node.meta[MADE].functions)

    def graph(self, name: str) -> ir.Graph:
        return ir.Graph(self.inputs, self.outputs, nodes=self.nodes, name=name)


def formal(name: str, type_: ir.TypeProtocol | None, shape: ir.Shape | None, block: Block) -> ir.Value:
    """Return an input of a body."""
    value = ir.Value(name=name, type=type_, shape=None if shape is None else shape.copy())
    value.meta[MADE] = Made(state.next_order(), block.line, block, name, kind="body")
    return value


def trace(function: Callable[..., Any], what: str, inputs: Sequence[tuple[str, ir.Value]], **block: Any) -> Body:
    """Call the function once with fresh values of these names and types, and return what it makes.

    What it gives is one value or a tuple of values; numbers and arrays among them become constants."""
    if not callable(function):
        raise BuildError(f"{what} is {function!r}, and must be a function.")
    inner = Block(what, users_line(), parent=state.block(), **block)
    formals = [formal(name, like.type, like.shape, inner) for name, like in inputs]
    return traced(function, inner, formals)


def traced(
    function: Callable[..., Any], inner: Block, formals: list[ir.Value], attributes: dict[str, Any] | None = None
) -> Body:
    """Call the function within a block, with these values."""
    check_arguments(function, inner.what, len(formals))
    with state.in_block(inner):
        given = function(*map(Value, formals), **(attributes or {}))
        outputs = _as_they_are(given, inner) if inner.plain else _outputs(given, inner)
    return body_of(inner, formals, outputs)


@at_the_users_line
def body(function: Callable[..., Any], *inputs: Value) -> Body:
    """Return what a Python function makes as the graph of an attribute: `op.SequenceMap(x, body=build.body(f, like))`.

    `inputs` are values of the types that the function is called with; those of `build.input` do. Nothing is added to
    what the function makes: if it gives what it was given, so does the graph."""
    for each in inputs:
        if not isinstance(each, Value):
            raise BuildError(f"build.body: {each!r} is no value of the type of an argument: write a build.input.")
    check_arguments(function, "build.body: the function", len(inputs))
    return trace(function, "the body of build.body", [(each.name, each._value) for each in inputs], plain=True)


@at_the_users_line
def keep(*values: Value) -> None:
    """Let the nodes that make these values stay in the body that is being made, though nothing reads them.

    Outside of bodies, say `build.model(..., kept=[...])`."""
    block = state.block()
    if block is None:
        raise BuildError("build.keep is for bodies: say build.model(..., kept=[...]) of values outside of them.")
    block.kept.extend(each._value for each in values)


def body_of(inner: Block, formals: list[ir.Value], outputs: list[ir.Value]) -> Body:
    """Close a block, and return its body."""
    inner.closed = True
    nodes = _needed(inner, [*outputs, *inner.kept])
    return Body(inner, formals, outputs, nodes, _captures(inner, nodes, outputs))


def check_arguments(function: Callable[..., Any], what: str, count: int) -> None:
    """Raise a BuildError unless the function can be called with so many values."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*range(count), **_keywords(signature))
    except TypeError:
        raise BuildError(f"{what} is called with {count} values, and takes {signature}.") from None


def _keywords(signature: inspect.Signature) -> dict[str, Any]:
    return {name: None for name, each in signature.parameters.items() if each.kind is each.KEYWORD_ONLY}


def argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """Return how the function calls its arguments, for names of values."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = {}.values()
    names = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return [names[i] if i < len(names) else f"value_{i}" for i in range(count)]


def several(given: Any) -> tuple[Any, ...]:
    """Return what a body gives as a tuple."""
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _outputs(given: Any, block: Block) -> list[ir.Value]:
    """Return the outputs as values that nodes of the block make, each once: ONNX wants no others."""
    found: list[ir.Value] = []
    for each in several(given):
        if each is None:
            raise BuildError(f"{block.what} gives None: does it lack a return?")
        value = (each if isinstance(each, Value) else constant(each))._value
        node = value.producer()
        in_function = block.isolated and value.const_value is not None  # a function has no initialisers to copy
        if not in_function and (node is None or node.meta[MADE].block is not block or value in found):
            value = call("Identity", Value(value))._value
        if value.producer() is None:  # a constant, or the copy of one, which is folded
            check_visible(value, block, lambda: block.what)
            value = _kept(value)
        found.append(value)
    return found


def _as_they_are(given: Any, block: Block) -> list[ir.Value]:
    found: list[ir.Value] = []
    for each in several(given):
        value = (each if isinstance(each, Value) else constant(each))._value
        check_visible(value, block, lambda: block.what)
        found.append(value if value.const_value is None else _kept(value))
    return found


def _kept(value: ir.Value) -> ir.Value:
    """Return a constant as the output of a node that is not folded."""
    assert value.const_value is not None
    attribute = ir.Attr("value", ir.AttributeType.TENSOR, value.const_value)
    version = state.opsets()[""]
    return make("", "Constant", version, [], [attribute], [""], lambda: "op.Constant()")[0]


def _needed(block: Block, outputs: Iterable[ir.Value]) -> list[ir.Node]:
    """Return the nodes of the block that its outputs need, in the order of making."""
    needed: set[ir.Node] = set()
    waiting = [node for value in outputs if (node := value.producer()) is not None]
    while waiting:
        node = waiting.pop()
        made: Made = node.meta[MADE]
        if node in needed or made.block is not block:
            continue
        needed.add(node)
        values = (*(value for value in node.inputs if value is not None), *made.captures)
        waiting.extend(other for value in values if (other := value.producer()) is not None)
    return [node for node in block.nodes if node in needed]


def _captures(block: Block, nodes: Iterable[ir.Node], outputs: Iterable[ir.Value]) -> tuple[ir.Value, ...]:
    """Return the values that the nodes of a block, and those in their bodies, read from outside."""
    found = dict.fromkeys(value for value in outputs if made_of(value).block is not block)
    for node in nodes:
        for value in (*node.inputs, *node.meta[MADE].captures):
            if value is not None and made_of(value).block is not block:
                found[value] = None
    return tuple(found)

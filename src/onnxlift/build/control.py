"""Control flow: branches and loops whose bodies are Python functions, called once to see what they make.

A body may read all values around it. What it makes is known only inside: it returns what others need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import type_of

from . import state
from .bodies import Body, argument_names, check_arguments, trace
from .errors import BuildError, at_the_users_line
from .nodes import make
from .operators import type_shown
from .signatures import signature_in_force
from .tensors import constant_value, tensor_from
from .value import Value

Function = Callable[..., Any]


@at_the_users_line
def if_(condition: Value, then: Callable[[], Any], otherwise: Callable[[], Any], *, name: str | None = None) -> Any:
    """Return what `then` gives where the condition is true when the model runs, else what `otherwise` gives.

    Both are called now, without arguments, and give a value or as many values of the same types."""
    if not isinstance(condition, Value):
        raise BuildError(f"build.if_({condition!r}): the condition is no value: use Python's own if.")

    def title() -> str:
        return f"build.if_({type_shown(condition)})"

    if condition.dtype not in (ir.DataType.BOOL, None):
        raise BuildError(f"{title()}: the condition is {type_shown(condition)}, and must be one bool.")
    sizes = shape_of(condition._value)
    if sizes is not None and any(isinstance(size, int) and size != 1 for size in sizes):
        raise BuildError(f"{title()}: the condition has several elements: reduce it to one, or use op.Where.")
    bodies = [
        trace(function, f"the branch `{which}` of build.if_", (), may_never_run=True)
        for which, function in (("then", then), ("otherwise", otherwise))
    ]
    first, second = (body.outputs for body in bodies)
    if len(first) != len(second):
        raise BuildError(f"{title()}: one branch gives {len(first)} values, and the other {len(second)}.")
    for index, (a, b) in enumerate(zip(first, second, strict=True)):
        if a.type is not None and b.type is not None and a.type != b.type:
            raise BuildError(
                f"{title()}: value {index} is {type_of(a)} in one branch and {type_of(b)} in the other: cast one."
            )
    graphs = {"then_branch": bodies[0], "else_branch": bodies[1]}
    return _node("If", [condition._value], graphs, [], len(first), title, name)


@at_the_users_line
def loop(
    max_trips: int | Value | None, condition: bool | Value | None, body: Function, *state: Any, name: str | None = None
) -> Any:
    """Call `body(i, *state)` again and again, at most `max_trips` times, and return the last state.

    The body returns the new state, one value for each of `state`, and then what is collected: each such value is
    stacked over all iterations. Without a `condition` (None) the loop ends after `max_trips`. With one (True, or a
    value that may be false before the first iteration), what the body returns begins with whether to go on."""

    def title() -> str:
        return f"build.loop({', '.join(map(type_shown, (max_trips, condition, *state)))})"

    if max_trips is None and condition is None:
        raise BuildError(f"{title()}: it would never end: give max_trips, or a condition.")
    carried = _values(state, title)
    trips = None if max_trips is None else _operand(max_trips, ir.DataType.INT64, "max_trips", title)
    going = None if condition is None else _operand(condition, ir.DataType.BOOL, "condition", title)
    names = argument_names(body, 1 + len(carried))
    scalar = ir.Value(type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape(()))
    flag = ir.Value(type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape(()))

    def step(i: Value, went: Value, *values: Value) -> Any:
        found = body(i, *values)
        return found if condition is not None else (went, *(found if isinstance(found, tuple | list) else (found,)))

    inputs = [(names[0], scalar), ("condition", flag), *zip(names[1:], carried, strict=True)]
    _check_body(body, len(carried) + 1, title)
    traced = trace(step, "the body of build.loop", inputs)
    given = len(traced.outputs) - 1
    proceed = traced.outputs[0]
    if proceed.dtype not in (ir.DataType.BOOL, None):
        raise BuildError(
            f"{title()}: the body gives {type_of(proceed)} first, and what it gives begins with whether to go on, a "
            "bool."
        )
    if given < len(carried):
        more = "whether to go on, and then " if condition is not None else ""
        raise BuildError(
            f"{title()}: the body gives {given + (condition is not None)} values; it must give {more}"
            f"{len(carried)} for the state, and may give more to collect."
        )
    return _node("Loop", [trips, going, *carried], {"body": traced}, [], given, title, name)


@at_the_users_line
def scan(
    body: Function,
    state: Any,
    scanned: Any,
    *,
    axes: Sequence[int] | None = None,
    directions: Sequence[str] | None = None,
    output_axes: Sequence[int] | None = None,
    output_directions: Sequence[str] | None = None,
    name: str | None = None,
) -> Any:
    """Call `body(*state, *elements)` for each element of the scanned values, and return the last state and all else.

    The body returns the new state, one value for each of `state`, and then what is collected along a new axis. Each of
    `scanned` is gone through along its first axis, or that of `axes`, "forward" or "reverse" as `directions` say; the
    same goes for what is collected, with `output_axes` and `output_directions`."""
    states, given = _listed(state), _listed(scanned)

    def title() -> str:
        return f"build.scan({', '.join(map(type_shown, (*states, *given)))})"

    if not given:
        raise BuildError(f"{title()}: nothing is scanned: use build.loop.")
    carried, sources = _values(states, title), _values(given, title)
    names = argument_names(body, len(carried) + len(sources))
    where = _numbers(axes, len(sources), "axes", title)
    elements = [_element(value, axis, title) for value, axis in zip(sources, where, strict=True)]
    _check_body(body, len(carried) + len(sources), title)
    traced = trace(body, "the body of build.scan", list(zip(names, [*carried, *elements], strict=True)))
    collected = len(traced.outputs) - len(carried)
    if collected < 0:
        raise BuildError(f"{title()}: the body gives {len(traced.outputs)} values, and the state has {len(carried)}.")
    attributes = [ir.AttrInt64("num_scan_inputs", len(sources))]
    for key, numbers in (
        ("scan_input_axes", where if axes is not None else None),
        ("scan_input_directions", _directions(directions, len(sources), "directions", title)),
        ("scan_output_axes", _numbers(output_axes, collected, "output_axes", title) if output_axes else None),
        ("scan_output_directions", _directions(output_directions, collected, "output_directions", title)),
    ):
        if numbers is not None:
            attributes.append(ir.AttrInt64s(key, numbers))
    return _node("Scan", [*carried, *sources], {"body": traced}, attributes, len(traced.outputs), title, name)


def _node(
    op_type: str,
    inputs: Sequence[ir.Value | None],
    bodies: dict[str, Body],
    attributes: Sequence[ir.Attr],
    count: int,
    title: Callable[[], str],
    name: str | None,
) -> Any:
    """Make the node that holds the bodies, and return its output or a tuple of its outputs."""
    version = state.opsets()[""]
    signature = signature_in_force("", op_type, version, title())
    if op_type == "Scan" and version < 9:
        raise BuildError(f"{title()}: before opset 9 a Scan is another operator: build it at opset 9 or later.")
    graphs = [ir.AttrGraph(key, body.graph(f"{op_type.lower()}_{key}")) for key, body in bodies.items()]
    captures = dict.fromkeys(value for body in bodies.values() for value in body.captures)
    made = make(
        "",
        op_type,
        version,
        inputs,
        [*graphs, *attributes],
        [f"_{index}" if count > 1 else "" for index in range(count)],
        title,
        schema=signature.schema,
        name=name,
        captures=tuple(captures),
        functions=tuple({each.identifier(): each for body in bodies.values() for each in body.functions}.values()),
    )
    handles = tuple(map(Value, made))
    return handles if count != 1 else handles[0]


def _check_body(body: Function, count: int, title: Callable[[], str]) -> None:
    if not callable(body):
        raise BuildError(f"{title()}: its body is {body!r}, and must be a function.")
    check_arguments(body, f"{title()}: its body", count)


def _listed(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _values(given: Sequence[Any], title: Callable[[], str]) -> list[ir.Value]:
    found = []
    for index, each in enumerate(given):
        if isinstance(each, Value):
            found.append(each._value)
        else:
            found.append(constant_value(tensor_from(each, None, f"{title()}: value {index}"), f"initial_{index}"))
    return found


def _operand(given: Any, dtype: ir.DataType, what: str, title: Callable[[], str]) -> ir.Value:
    if isinstance(given, Value):
        return given._value
    return constant_value(tensor_from(given, dtype, f"{title()}: {what}"), what)


def _element(value: ir.Value, axis: int, title: Callable[[], str]) -> ir.Value:
    """Return a value of the type that one element along the axis has."""
    if value.shape is None:
        return ir.Value(type=value.type)
    sizes = list(value.shape)
    if not -len(sizes) <= axis < len(sizes):
        raise BuildError(f"{title()}: axis {axis} is gone through, and {type_of(value)} has {len(sizes)} axes.")
    del sizes[axis]
    return ir.Value(type=value.type, shape=ir.Shape(sizes))


def _numbers(given: Sequence[int] | None, count: int, what: str, title: Callable[[], str]) -> list[int]:
    if given is None:
        return [0] * count
    numbers = list(given)
    if len(numbers) != count or not all(isinstance(each, int) for each in numbers):
        raise BuildError(f"{title()}: {what} is {numbers!r}, and must be {count} ints.")
    return numbers


def _directions(given: Sequence[str] | None, count: int, what: str, title: Callable[[], str]) -> list[int] | None:
    if given is None:
        return None
    words = {"forward": 0, "reverse": 1}
    if len(given) != count or any(each not in words for each in given):
        raise BuildError(f'{title()}: {what} is {given!r}, and must be "forward" or "reverse" for each of {count}.')
    return [words[each] for each in given]

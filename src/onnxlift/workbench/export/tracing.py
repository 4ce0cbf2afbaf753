"""Trace a lifted module by `torch.export`, with every size open that the model leaves open.

This is called in the child process only. Torch has two ways to treat a size, and two to treat what the code does with
it, so that up to four are tried until one follows the model:

1. sizes stay open, and none is taken for being other than one (`backed_size_oblivious`), so that a batch of one works
2. sizes stay open
3. as 1, and 4. as 2, but torch may fix sizes. What it has fixed is told, with the line that made it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._C import DispatchKey
from torch.export import Dim, ExportedProgram
from torch.fx.experimental import _config

WAYS = ((Dim.DYNAMIC, True), (Dim.DYNAMIC, False), (Dim.AUTO, True), (Dim.AUTO, False))
"""The hint for open sizes, and whether a size may be one."""


SETTINGS: Any = _config
"""Torch's settings of symbolic sizes; the module has functions that its type does not tell."""


@dataclass(frozen=True)
class FixedSize:
    """A size that torch has fixed: of which input and axis, and the line of the lifted source that made it, or 0."""

    input: int
    axis: int
    size: int
    line: int = 0


def trace(
    module: torch.nn.Module,
    arguments: Sequence[Any],
    open_axes: Sequence[Sequence[int]],
    source: str,
    keep_recurrent: bool = False,
) -> tuple[ExportedProgram, list[FixedSize]]:
    """Return the program of a module, called with these arguments, and the sizes that torch has fixed.

    `open_axes` are the axes of each argument that are to stay open. `source` is the file of the module. With
    `keep_recurrent`, recurrent layers stay operators that take any number of steps; else torch writes out the steps."""
    error: RuntimeError | None = None
    is_open = any(open_axes)
    for hint, may_be_one in WAYS if is_open else WAYS[:1]:
        shapes = tuple(
            [dict.fromkeys(axes, hint) for _ in value] if isinstance(value, list) else dict.fromkeys(axes, hint)
            for value, axes in zip(arguments, open_axes, strict=True)
        )
        layers = recurrent_layers() if keep_recurrent else nullcontext()
        try:
            with SETTINGS.patch(backed_size_oblivious=may_be_one), layers:
                program = torch.export.export(module, tuple(arguments), dynamic_shapes=shapes if is_open else None)
        except RuntimeError as failed:  # the base of what torch raises if it cannot follow a program
            error = failed
            continue
        return program, find_fixed(program, arguments, open_axes, source)
    assert error is not None
    raise error


def find_fixed(
    program: ExportedProgram, arguments: Sequence[Any], open_axes: Sequence[Sequence[int]], source: str
) -> list[FixedSize]:
    """Return the sizes that should be open and are numbers in the program."""
    names = iter(program.graph_signature.user_inputs)
    held = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    line = _culprit(program, source)
    fixed: list[FixedSize] = []
    for index, (argument, axes) in enumerate(zip(arguments, open_axes, strict=True)):
        for value in argument if isinstance(argument, list) else [argument]:
            node = held.get(str(next(names)))
            shape = () if node is None else getattr(node.meta.get("val"), "shape", ())
            numbers = [axis for axis in axes if axis < len(shape) and isinstance(shape[axis], int)]
            fixed += [FixedSize(index, axis, int(value.shape[axis]), line) for axis in numbers]
    return fixed


def _culprit(program: ExportedProgram, source: str) -> int:
    """Return the line of the source at which torch fixed sizes; 0 if it does not tell, or tells several."""
    environment = next(
        (
            node.meta["val"].fake_mode.shape_env
            for node in program.graph.nodes
            if isinstance(node.meta.get("val"), torch.Tensor) and hasattr(node.meta["val"], "fake_mode")
        ),
        None,
    )
    found = getattr(environment, "replacements_slocs", {})
    where = re.compile(rf"{re.escape(source)}:(\d+)")
    lines = {int(match[1]) for place in found.values() for match in where.finditer(str(place))}
    return lines.pop() if len(lines) == 1 else 0


Shapes = Callable[..., tuple[torch.Tensor, ...]]


def _lstm(x: torch.Tensor, states: Sequence[torch.Tensor], *options: Any) -> tuple[torch.Tensor, ...]:
    hidden, cell = states
    return _sequence(x, hidden, options), hidden.new_empty(hidden.shape), cell.new_empty(cell.shape)


def _recurrent(x: torch.Tensor, hidden: torch.Tensor, *options: Any) -> tuple[torch.Tensor, ...]:
    return _sequence(x, hidden, options), hidden.new_empty(hidden.shape)


def _sequence(x: torch.Tensor, hidden: torch.Tensor, options: Sequence[Any]) -> torch.Tensor:
    *_, is_bidirectional, _batch_first = options
    return x.new_empty((x.shape[0], x.shape[1], (2 if is_bidirectional else 1) * hidden.shape[-1]))


@contextmanager
def recurrent_layers() -> Iterator[None]:
    """Let torch know the shapes of what recurrent layers compute without going through their steps.

    While it traces, it would go through all of them, and fix their number, although it writes down one operator for
    the whole layer, which takes any number of steps."""
    aten = torch.ops.aten
    shapes: dict[Any, Shapes] = {
        aten.lstm.input: _lstm,
        aten.gru.input: _recurrent,
        aten.rnn_tanh.input: _recurrent,
        aten.rnn_relu.input: _recurrent,
    }
    before = {operator: dict(operator.py_kernels) for operator in shapes}
    try:
        for operator, function in shapes.items():
            for key in (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd):
                operator.py_kernels[key] = function
            operator._dispatch_cache.clear()
        yield
    finally:
        for operator, kernels in before.items():
            operator.py_kernels.clear()
            operator.py_kernels.update(kernels)
            operator._dispatch_cache.clear()

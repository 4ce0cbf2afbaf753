"""Trace a lifted module by `torch.export`, with every size open that the model leaves open.

This is called in the child process only. Torch has two ways to treat a size, and two to treat what the code does with
it, so that up to four are tried until one follows the model:

1. sizes stay open, and none is taken for being other than one (`backed_size_oblivious`), so that a batch of one works
2. sizes stay open
3. as 1, and 4. as 2, but torch may fix sizes. What it has fixed is told, with the line that made it
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import sympy
import torch
import torch.fx.experimental
from torch._C import DispatchKey
from torch.export import Dim, ExportedProgram
from torch.fx.experimental import _config
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.functions import Mod, PythonMod

WAYS = ((Dim.DYNAMIC, True), (Dim.DYNAMIC, False), (Dim.AUTO, True), (Dim.AUTO, False))
"""The hint for open sizes, and whether a size may be one."""


SETTINGS: Any = _config
"""Torch's settings of symbolic sizes; the module has functions that its type does not tell."""


@dataclass(frozen=True)
class FixedSize:
    """A size that torch has fixed: of which input and axis, and the line of the lifted source that made it, or 0.

    If it is not `certain`, torch takes a number for given that depends on the size, and others may lead to the same."""

    input: int
    axis: int
    size: int
    line: int = 0
    certain: bool = True


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
            with SETTINGS.patch(backed_size_oblivious=may_be_one), layers, noted_guards(source) as guards:
                program = torch.export.export(module, tuple(arguments), dynamic_shapes=shapes if is_open else None)
        except RuntimeError as failed:  # the base of what torch raises if it cannot follow a program
            error = failed
            continue
        if not any(guard.is_own for guard in guards if isinstance(guard.condition, sympy.Ne)):
            allow_sizes_of_one(program)
        return program, find_fixed(program, arguments, open_axes, guards)
    assert error is not None
    raise error


@dataclass(frozen=True)
class Guard:
    """What torch takes for given about sizes, and the line of the source at which it does; 0 if that is not known.

    It is the source's own if the source asks for it (`if size == 1:`), and not torch, which chooses a kernel."""

    condition: Any
    line: int
    is_own: bool


@contextmanager
def noted_guards(source: str) -> Iterator[list[Guard]]:
    """Note what torch takes for given while it traces."""
    guards: list[Guard] = []
    log = ShapeEnv._log_guard

    def note(self: ShapeEnv, prefix: str, guard: Any, forcing_spec: bool) -> None:
        guards.append(Guard(guard, _line_of(source), _asker() == source))
        log(self, prefix, guard, forcing_spec)

    with patch.object(ShapeEnv, "_log_guard", note):
        yield guards


def _line_of(source: str) -> int:
    """Return the line of a file that is being executed, the innermost if there are several; 0 if there is none."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename != source:
        frame = frame.f_back
    return 0 if frame is None else frame.f_lineno


def _asker() -> str:
    """Return the file of the code that asks about a size: the innermost outside of the machinery of symbolic sizes."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_MACHINERY):
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_filename


_MACHINERY = (__file__, str(Path(torch.fx.experimental.__file__).parent), torch.__file__, contextlib.__file__)


def allow_sizes_of_one(program: ExportedProgram) -> None:
    """Let the program take sizes of one where torch refuses them only since it has chosen a kernel for others.

    The program is the same for both: an operator that does not take a size of one would refuse it by itself. Not for a
    source that asks itself whether a size is one, and computes something else then."""
    program._guards_code = [guard for guard in program._guards_code if not _NOT_ONE.fullmatch(guard)]


_SIZE = r"L\['\w+'\]\.size\(\)\[\d+\]"
_NOT_ONE = re.compile(
    rf"(?!.*\b(?:and|or|not)\b)(?:[^=<>]* != 1|\(?(\d+)\*(?:{_SIZE}|\w*\([^=<>]*\))\)? != \1)"
    rf"|{_SIZE} (?:> 1|>= 2)|(?:1 <|2 <=) {_SIZE}"
)
"""A size, or a number that follows from sizes, is not one; also as `36*max(...) != 36`, for a whole number of them."""


def find_fixed(
    program: ExportedProgram, arguments: Sequence[Any], open_axes: Sequence[Sequence[int]], guards: Sequence[Guard]
) -> list[FixedSize]:
    """Return the sizes that should be open, and of which torch takes a number for given."""
    names = iter(program.graph_signature.user_inputs)
    held = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    told = [(guard.condition, guard.line) for guard in guards]
    equal = [(guard, line) for guard, line in told if isinstance(guard, sympy.Eq) and not guard.has(Mod, PythonMod)]
    numbers = [(guard, line) for guard, line in equal if guard.lhs.is_number or guard.rhs.is_number]
    fixed: list[FixedSize] = []
    for index, (argument, axes) in enumerate(zip(arguments, open_axes, strict=True)):
        for value in argument if isinstance(argument, list) else [argument]:
            node = held.get(str(next(names)))
            shape = () if node is None else getattr(node.meta.get("val"), "shape", ())
            for axis in (axis for axis in axes if axis < len(shape)):
                size = shape[axis]
                symbols = set() if isinstance(size, int) else size.node.expr.free_symbols
                lines = [line for guard, line in numbers if not symbols or symbols & guard.free_symbols]
                if isinstance(size, int) or lines:
                    line = lines[0] if lines else 0
                    fixed.append(FixedSize(index, axis, int(value.shape[axis]), line, isinstance(size, int)))
    return fixed


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

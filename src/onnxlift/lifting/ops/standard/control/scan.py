"""Scan as a `for` loop over the slices of its inputs. If and Loop are in control.py."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.lifting.code.expr import Display, Expr, Local, Ref, builtin, torch
from onnxlift.lifting.code.statements import Assign, Block, Evaluate, ForLoop, Target
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Tensor, size_of
from onnxlift.lifting.ops.registry import op

from .iteration import Rounds


@op("Scan")
def Scan(
    n: Node,
    *inputs: Tensor | None,
    body: ir.Graph,
    num_scan_inputs: int,
    directions: tuple[int, ...] | None = None,
    scan_input_axes: tuple[int, ...] | None = None,
    scan_input_directions: tuple[int, ...] | None = None,
    scan_output_axes: tuple[int, ...] | None = None,
    scan_output_directions: tuple[int, ...] | None = None,
) -> Result:
    """In opset 8 the first input has the lengths of the sequences, and each sequence of a batch is scanned on its
    own."""
    count = len(body.inputs) - num_scan_inputs
    given = [tensor for tensor in inputs if tensor is not None]
    if n.opset < 9:
        lengths = given.pop(0) if inputs[0] is not None else None
        return _batch(n, body, lengths, given[:count], given[count:], directions or (0,) * num_scan_inputs)
    initial, scanned = given[:count], given[count:]
    axes = scan_input_axes or (0,) * num_scan_inputs
    backwards = scan_input_directions or (0,) * num_scan_inputs
    rounds = Rounds(n, n.ir.outputs[:count], n.ir.outputs[count:])
    for statement in rounds.start(initial):
        n.emit(statement)
    slices = [_slices(tensor, axis, back) for tensor, axis, back in zip(scanned, axes, backwards, strict=True)]
    n.emit(_loop(n, rounds, body, slices))
    never_empty = any(_is_positive(tensor.type.dim(axis)) for tensor, axis in zip(scanned, axes, strict=True))
    stacks = []
    for i in range(len(rounds.outputs)):
        axis = scan_output_axes[i] if scan_output_axes else 0
        back = bool(scan_output_directions and scan_output_directions[i])
        stacks.append(rounds.stacked(i, axis, backwards=back, never_empty=never_empty))
    return [*rounds.finals(), *stacks]


def _batch(
    n: Node,
    body: ir.Graph,
    lengths: Tensor | None,
    initial: Sequence[Tensor],
    scanned: Sequence[Tensor],
    backwards: Sequence[int],
) -> Result:
    """Write a `for` loop over the batch, with one over the steps of a sequence in it. The scan outputs of a short
    sequence are filled up with 0."""
    count = len(initial)
    rows = [Local("sequence") for _ in scanned]
    length = Local("length")
    # The states of the inner loop are the loop variables of the outer one, so each row starts from its own states.
    elements = [_one_of_batch(v, inner) for v, inner in zip(n.ir.outputs[count:], body.outputs[count:], strict=True)]
    rounds = Rounds(n, body.inputs[:count], elements)
    steps = [row[:length] if lengths is not None else row for row in rows]
    slices = [_slices(row, 0, back) for row, back in zip(steps, backwards, strict=True)]
    loop = _loop(n, rounds, body, slices)
    never_empty = lengths is None and any(_is_positive(tensor.type.dim(1)) for tensor in scanned)
    stacks = [rounds.stacked(i, never_empty=never_empty) for i in range(len(elements))]
    if lengths is not None:
        stacks = [kernel("pad_rows")(stack, size_of(scanned[0], 1)) for stack in stacks]
    gathered = [Local(value.name or "outputs") for value in n.ir.outputs]
    block = Block([*rounds.empty_lists(), loop])
    for rows_of_output, row in zip(gathered, [*rounds.finals(), *stacks], strict=True):
        n.emit(Assign([rows_of_output], Display([], "[]")))
        block.append(Evaluate(rows_of_output.append(row), origin=[n.name]))
    targets: list[Target] = [*(Ref(state) for state in rounds.states), *rows]
    iterables = [tensor.unbind() for tensor in (*initial, *scanned)]
    if lengths is not None:
        targets.append(length)
        iterables.append(lengths.tolist())
    n.emit(ForLoop(targets, _together(iterables), block))
    return [torch.stack(each) for each in gathered]


def _one_of_batch(value: ir.Value, element: ir.Value) -> ir.Value:
    """Return a scan output of one sequence: its elements stacked, without the batch axis."""
    shape = None if element.shape is None else ir.Shape([None, *element.shape])
    return ir.Value(name=value.name, type=element.type, shape=shape)


def _loop(n: Node, rounds: Rounds, body: ir.Graph, slices: Sequence[Expr]) -> ForLoop:
    count = len(rounds.states)
    elements = body.inputs[count:]
    inputs = [*rounds.state_inputs(body.inputs[:count]), *(Tensor(Ref(v), type_of(v)) for v in elements)]
    block, results = n.host.lower_graph(body, inputs)
    rounds.gather(block, results[count:])
    rounds.rebind(block, results[:count])
    return ForLoop([Ref(value) for value in elements], _together(slices), block, origin=[n.name])


def _slices(tensor: Expr, axis: int, backwards: int) -> Expr:
    slices = tensor.unbind() if axis == 0 else tensor.unbind(axis)
    return builtin("reversed")(slices) if backwards else slices


def _together(iterables: Sequence[Expr]) -> Expr:
    return iterables[0] if len(iterables) == 1 else builtin("zip")(*iterables)


def _is_positive(dim: object) -> bool:
    return isinstance(dim, int) and dim > 0

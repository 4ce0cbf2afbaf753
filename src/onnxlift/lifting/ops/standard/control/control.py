"""If and Loop as Python's own `if`, `for` and `while`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import onnx_ir as ir

from onnxlift.ir.graph.types import DataType, type_of
from onnxlift.lifting.code.expr import Expr, Local, Ref, builtin, module, negate, to_expr, variable, walk
from onnxlift.lifting.code.statements import (
    Assign,
    Block,
    Branch,
    Break,
    ForLoop,
    WhileLoop,
    expressions,
    walk_statements,
)
from onnxlift.lifting.code.substitute import substitute_in
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Constant, Dims, Operand, Scalar, Tensor
from onnxlift.lifting.ops.registry import op

from .iteration import Rounds, reads

FOREVER = 2**62  # trip counts from here on mean "until the condition fails"


@op("If")
def If(n: Node, cond: Operand, *, then_branch: ir.Graph, else_branch: ir.Graph) -> Result:
    branches = [(graph, *n.host.lower_graph(graph, [])) for graph in (then_branch, else_branch)]
    (_, then, then_results), (_, otherwise, else_results) = branches
    outputs = [_common_form(*each) for each in zip(n.ir.outputs, then_results, else_results, strict=True)]
    for graph, block, results in branches:
        own = _name_results(block, graph, results, n.ir.outputs)
        for value, form, result in zip(n.ir.outputs, outputs, results, strict=True):
            if value not in own:
                operand = result if isinstance(form, Scalar) else n.tensor(result)
                block.append(Assign([Ref(value)], to_expr(operand), origin=[n.name]))
    n.emit(Branch(to_expr(_single(cond)), then, otherwise, asks=n.ir.inputs[0]))
    return outputs


def _name_results(
    block: Block, graph: ir.Graph, results: Sequence[Operand], outputs: Sequence[ir.Value]
) -> set[ir.Value]:
    """Let tensors that a branch computes itself be outputs of the If from the start, without a last line `output = x`.
    Return the outputs that have a value now. A tensor that is two results of the branch cannot be both."""
    keys = [variable(result) if isinstance(result, Tensor) else None for result in results]
    counts = Counter(keys)
    renamed: dict[object, ir.Value] = {}
    for key, output in zip(keys, outputs, strict=True):
        producer = key.producer() if isinstance(key, ir.Value) and counts[key] == 1 else None
        if producer is not None and producer.graph is graph:
            renamed[key] = output

    def new(part: Expr) -> Expr | None:
        return Ref(renamed[part._key]) if isinstance(part, Ref) and part._key in renamed else None

    for statement in walk_statements(block) if renamed else ():
        substitute_in(statement, new)
        if isinstance(statement, Assign | ForLoop):
            statement.targets = [Ref(renamed[variable(t)]) if variable(t) in renamed else t for t in statement.targets]
    return set(renamed.values())


def _common_form(value: ir.Value, one: Operand, other: Operand) -> Operand:
    """Return the form of an output: a number if both branches give one, else a tensor."""
    if isinstance(one, Scalar) and isinstance(other, Scalar):
        dtype = one.type.dtype or DataType.INT64
        return Scalar(Ref(value), dtype, one.nonnegative and other.nonnegative)
    return Tensor(Ref(value), type_of(value))


@op("Loop")
def Loop(n: Node, M: Operand | None, cond: Operand | None, *v_initial: Operand, body: ir.Graph) -> Result:
    """A round starts only if the condition holds, so the body may take its condition input for True."""
    count = len(v_initial)
    rounds = Rounds(n, n.ir.outputs[:count], n.ir.outputs[count:])
    index = Local("i")
    inputs: list[Operand] = [Scalar(index, nonnegative=True), Scalar(True, DataType.BOOL)]
    block, (proceed, *results) = n.host.lower_graph(body, [*inputs, *rounds.state_inputs(body.inputs[2:])])
    rounds.gather(block, results[count:])
    trips = None if M is None or _is_endless(M) else M
    loop = _Loop(n, block, index, trips, cond)
    loop.end_round(rounds, proceed, results[:count])
    for statement in rounds.start([n.tensor(operand) for operand in v_initial]):
        n.emit(statement)
    loop.write()
    stacks = [rounds.stacked(i, never_empty=loop.runs_at_least_once) for i in range(len(rounds.outputs))]
    return [*rounds.finals(), *stacks]


class _Loop:
    """The statement that repeats `block`, in the form that fits its end conditions."""

    def __init__(self, n: Node, block: Block, index: Local, trips: Operand | None, cond: Operand | None) -> None:
        self.n = n
        self.block = block
        self.index = index
        self.trips = trips
        # The condition for the first round; None if it always holds.
        self.cond = None if cond is None or _number(cond) is True else _single(cond)
        self.running: Local | None = None  # the variable that says whether there is another round, if one is needed

    @property
    def runs_at_least_once(self) -> bool:
        number = None if self.trips is None else _number(self.trips)
        return self.cond is None and (self.trips is None or (number is not None and number > 0))

    def end_round(self, rounds: Rounds, proceed: Operand, states: list[Operand]) -> None:
        """Write the end of the block: whether to go on, decided before the states change, and the new states."""
        stops = _number(proceed) is not True
        going_on = to_expr(_single(proceed))
        if stops and (self.cond is not None or self.trips is None or reads(going_on, rounds.states)):
            self.running = Local("running")
            self.block.append(Assign([self.running], going_on, origin=[self.n.name]))
            going_on = self.running
        rounds.rebind(self.block, states)
        if stops and (self.cond is None and self.trips is not None):
            self.block.append(Branch(negate(going_on), Block([Break()]), Block(), origin=[self.n.name]))

    def write(self) -> None:
        if _number(self.cond) is False or (self.trips is not None and _number(self.trips) == 0):
            return
        counts = any(
            part is self.index for s in walk_statements(self.block) for e in expressions(s) for part in walk(e)
        )
        tested = self.running is not None and (self.cond is not None or self.trips is None)
        if tested:
            assert self.running is not None
            self.n.emit(Assign([self.running], to_expr(True if self.cond is None else self.cond)))
            if self.trips is not None or counts:
                self.block.statements.insert(0, Branch(negate(self.running), Block([Break()]), Block()))
        loop: ForLoop | WhileLoop
        if self.trips is None and not counts:
            loop = WhileLoop(self.running if self.running is not None else to_expr(True), self.block)
        else:
            rounds = module("itertools").count() if self.trips is None else builtin("range")(_count(self.trips))
            loop = ForLoop([self.index] if counts else [], rounds, self.block)
        if self.cond is not None and not tested:
            self.n.emit(Branch(to_expr(self.cond), Block([loop]), Block()))
        else:
            self.n.emit(loop)


def _single(operand: Operand) -> Operand:
    """Return the condition itself, also if it is a list of one. In Python that list would be true, whatever it
    holds."""
    return operand[0] if isinstance(operand, Dims) else operand


def _count(trips: Operand) -> Expr:
    match trips:
        case Scalar():
            return trips
        case Constant():
            return to_expr(trips.number)
        case Dims():
            return trips[0]
    return builtin("int")(trips)


def _number(operand: Operand | None) -> bool | int | float | None:
    return operand.number if isinstance(operand, Constant | Scalar) else None


def _is_endless(operand: Operand) -> bool:
    number = _number(operand)
    return isinstance(number, int) and number >= FOREVER

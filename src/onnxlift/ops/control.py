"""If, Loop and Scan as Python's own `if`, `for` and `while`."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ..code.expr import Display, Expr, Local, Ref, Wrapped, builtin, either, module, negate, to_expr, torch, walk
from ..code.statements import Assign, Block, Branch, Break, Evaluate, ForLoop, WhileLoop, expressions, walk_statements
from ..ir.types import DataType, ValueType, type_of
from .node import Node, Result, torch_dtype
from .operand import Constant, Dims, Operand, Scalar, Tensor, size_of
from .registry import op

FOREVER = 2**62  # trip counts from here on mean "until the condition fails"


@op("If")
def If(n: Node, cond: Operand, *, then_branch: ir.Graph, else_branch: ir.Graph) -> Result:
    then, then_results = n.host.lower_graph(then_branch, [])
    otherwise, else_results = n.host.lower_graph(else_branch, [])
    outputs: list[Operand] = []
    for value, one, other in zip(n.ir.outputs, then_results, else_results, strict=True):
        form = _common_form(value, one, other)
        outputs.append(form)
        target = Ref(value)
        as_number = isinstance(form, Scalar)
        then.append(Assign([target], to_expr(one if as_number else n.tensor(one)), origin=[n.name]))
        otherwise.append(Assign([target], to_expr(other if as_number else n.tensor(other)), origin=[n.name]))
    n.emit(Branch(to_expr(cond), then, otherwise))
    return outputs


def _common_form(value: ir.Value, one: Operand, other: Operand) -> Operand:
    """Numbers stay numbers if both branches give one; everything else is a tensor."""
    if isinstance(one, Scalar) and isinstance(other, Scalar):
        dtype = one.type.dtype or DataType.INT64
        return Scalar(Ref(value), dtype, one.nonnegative and other.nonnegative)
    return Tensor(Ref(value), type_of(value))


@op("Loop")
def Loop(n: Node, M: Operand | None, cond: Operand | None, *v_initial: Operand, body: ir.Graph) -> Result:
    """State variables are rebound in each round; scan outputs are gathered in lists and stacked at the end."""
    states = list(n.ir.outputs)[: len(v_initial)]
    index = Local("i")
    _start(n, states, v_initial)
    proceed = _condition(n, cond)
    inputs: list[Operand] = [Scalar(index, nonnegative=True)]
    inputs.append(Scalar(proceed if proceed is not None else True, DataType.BOOL))
    inputs += [Tensor(Ref(v), _loose(type_of(v), type_of(b))) for v, b in zip(states, body.inputs[2:], strict=True)]
    block, results = n.host.lower_graph(body, inputs)
    kept_on, *rest = results
    lists = _gather(n, block, states, rest)
    stops = not (_is_true(kept_on) or _is_same(kept_on, proceed))
    trips = None if M is None or _is_endless(M) else M
    if trips is None and proceed is None and stops:
        proceed = Local("running")
        n.emit(Assign([proceed], to_expr(True)))
    if proceed is not None and stops:
        block.append(Assign([proceed], to_expr(kept_on)))
    elif stops:
        block.append(Branch(negate(kept_on), Block([Break()]), Block()))
    n.emit(_loop(n, index, trips, proceed, block, stops))
    first_runs = proceed is None and trips is not None and _number(trips) not in (None, 0)
    return _finish(n, states, lists, first_runs)


def _start(n: Node, states: Sequence[ir.Value], initial: Sequence[Operand]) -> None:
    for value, operand in zip(states, initial, strict=True):
        n.emit(Assign([Ref(value)], to_expr(n.tensor(operand))))


def _condition(n: Node, cond: Operand | None) -> Local | None:
    """A variable for the condition, if the loop may not run at all."""
    if cond is None or _is_true(cond):
        return None
    proceed = Local("running")
    n.emit(Assign([proceed], to_expr(cond)))
    return proceed


def _loop(n: Node, index: Local, trips: Operand | None, proceed: Local | None, block: Block, stops: bool) -> ForLoop | WhileLoop:
    counts = any(part is index for s in walk_statements(block) for e in expressions(s) for part in walk(e))
    if trips is None and not counts:
        return WhileLoop(proceed if proceed is not None else to_expr(True), block)
    if proceed is not None:
        block.statements.insert(0, Branch(negate(proceed), Block([Break()]), Block()))
    rounds: Expr = module("itertools").count() if trips is None else builtin("range")(_count(trips))
    return ForLoop([index] if counts else [], rounds, block)


def _count(trips: Operand) -> Expr:
    match trips:
        case Scalar():
            return trips
        case Constant():
            return to_expr(trips.number)
        case Dims():
            return trips[0]
    return builtin("int")(trips)


def _number(operand: Operand) -> object:
    return operand.number if isinstance(operand, Constant | Scalar) else None


def _is_true(operand: Operand) -> bool:
    return _number(operand) is True


def _is_same(operand: Operand, proceed: Local | None) -> bool:
    inner: object = operand
    while isinstance(inner, Wrapped):
        inner = inner._expr
    return proceed is not None and inner is proceed


def _is_endless(operand: Operand) -> bool:
    number = _number(operand)
    return isinstance(number, int) and number >= FOREVER


def _loose(outer: ValueType, inner: ValueType) -> ValueType:
    """What holds for a state variable in every round: what both the result and the body's input say."""
    shape = outer.shape if outer.shape == inner.shape else inner.shape
    return ValueType(outer.dtype or inner.dtype, shape, outer.kind)


def _gather(n: Node, block: Block, states: Sequence[ir.Value], results: Sequence[Operand]) -> list[Local]:
    """Write the end of a round: new states, and the scan outputs appended to their lists."""
    new = [to_expr(n.tensor(r)) for r in results[: len(states)]]
    pairs = [(s, e) for s, e in zip(states, new, strict=True) if not _rename(block, e, s) and not _refers(e, s)]
    written = {value for value, _ in pairs}
    if any(isinstance(part, Ref) and part._key in written for _, e in pairs for part in walk(e)) and len(pairs) > 1:
        block.append(Assign([Ref(v) for v, _ in pairs], Display([e for _, e in pairs], "()"), origin=[n.name]))
    else:
        for value, expr in pairs:
            block.append(Assign([Ref(value)], expr, origin=[n.name]))
    lists: list[Local] = []
    for value, result in zip(n.ir.outputs[len(states) :], results[len(states) :], strict=False):
        gathered = Local(value.name or "outputs")
        n.emit(Assign([gathered], Display([], "[]")))
        block.append(Evaluate(gathered.append(to_expr(n.tensor(result))), origin=[n.name]))
        lists.append(gathered)
    return lists


def _refers(expr: Expr, value: ir.Value) -> bool:
    """Whether `expr` is just the variable itself: the state passes through."""
    while isinstance(expr, Wrapped):
        expr = expr._expr
    return isinstance(expr, Ref) and expr._key is value


def _rename(block: Block, expr: Expr, state: ir.Value) -> bool:
    """Compute the new state under its own name from the start (`y = y * 0.5`), if the old one is not read after."""
    while isinstance(expr, Wrapped):
        expr = expr._expr
    if not isinstance(expr, Ref) or not isinstance(expr._key, ir.Value) or expr._key is state:
        return False
    fresh = expr._key
    born = [i for i, s in enumerate(block.statements) if isinstance(s, Assign) and _writes(s, fresh)]
    if len(born) != 1 or any(isinstance(s, Assign) and _writes(s, state) for s in walk_statements(block)):
        return False
    after = Block(block.statements[born[0] + 1 :])
    if any(_refers_in(e, state) for s in walk_statements(after) for e in expressions(s)):
        return False
    for statement in walk_statements(block):
        for part in (p for e in expressions(statement) for p in walk(e)):
            if isinstance(part, Ref) and part._key is fresh:
                part._key = state
        if isinstance(statement, Assign):
            statement.targets = [Ref(state) if isinstance(t, Ref) and t._key is fresh else t for t in statement.targets]
    expr._key = state
    return True


def _writes(statement: Assign, value: ir.Value) -> bool:
    return any(isinstance(t, Ref) and t._key is value for t in statement.targets)


def _refers_in(expr: Expr, value: ir.Value) -> bool:
    return any(isinstance(part, Ref) and part._key is value for part in walk(expr))


def _finish(n: Node, states: Sequence[ir.Value], lists: Sequence[Local], first_runs: bool, axis: int = 0) -> Result:
    outputs: list[Operand | Expr] = [Tensor(Ref(v), type_of(v)) for v in states]
    for value, gathered in zip(n.ir.outputs[len(states) :], lists, strict=False):
        stacked = torch.stack(gathered) if axis == 0 else torch.stack(gathered, axis)
        outputs.append(stacked if first_runs else either(gathered, stacked, _empty(n, type_of(value))))
    return outputs


def _empty(n: Node, type: ValueType) -> Expr:
    """What a loop without rounds stacks: nothing, of the right shape. A size that is named takes the size of the
    state that has that name; of one that nothing is known about there is nothing to tell either."""
    known = [o for v in (*n.ir.outputs, *n.ir.inputs) if isinstance(o := _readable(n, v), Tensor)]
    sizes: list[object] = [0]
    for dim in (type.shape or ())[1:]:
        sizes.append(dim if isinstance(dim, int) else _named_size(known, dim))
    same = next((t for t in known if t.type.dtype == type.dtype), None)
    if same is not None:
        return same.new_empty(*sizes)
    return torch.empty(*sizes, dtype=torch_dtype(type.dtype or DataType.FLOAT), device=n.device)


def _readable(n: Node, value: ir.Value | None) -> Operand | None:
    """A state variable after the loop, or an input of it."""
    if value is None or value.const_value is not None:
        return None
    states = len(n.ir.inputs) - 2
    if value in n.ir.outputs[:states]:
        return Tensor(Ref(value), type_of(value))
    return None if value in n.ir.outputs else n.host.operand(value)


def _named_size(known: Sequence[Tensor], name: str | None) -> Scalar:
    for tensor in known:
        if name is not None and name in (tensor.type.shape or ()):
            return size_of(tensor, (tensor.type.shape or ()).index(name))
    return Scalar(0)

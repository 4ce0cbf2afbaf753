"""Share what Loop and Scan have in common: states that each round rebinds, and scan outputs collected in lists.

All results of a round are values at its end. So nothing in the round may read a state after the round has rebound it:
elements of scan outputs are appended first, and states that depend on one another are rebound together (`a, b = b, a +
b`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from onnxlift.ir.graph.types import DataType, ValueType, type_of
from onnxlift.lifting.code.expr import Display, Expr, Local, Ref, bare, either, to_expr, torch, variable, walk
from onnxlift.lifting.code.reads import values_read
from onnxlift.lifting.code.statements import Assign, Block, Evaluate, Statement, Target, expressions, walk_statements
from onnxlift.lifting.ops.node import Node, torch_dtype
from onnxlift.lifting.ops.operand import Operand, Scalar, Tensor, size_of


class Rounds:
    """The rounds of one Loop or Scan. `states` are the variables that are rebound, `outputs` the scan outputs."""

    def __init__(self, n: Node, states: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> None:
        self.n = n
        self.states = states
        self.outputs = outputs
        self.lists = [Local(value.name or "outputs") for value in outputs]

    def start(self, initial: Sequence[Expr]) -> list[Statement]:
        """Return the statements before the first round: the initial states, and empty lists."""
        bound = [Assign([Ref(v)], expr, origin=[self.n.name]) for v, expr in zip(self.states, initial, strict=True)]
        return [*bound, *self.empty_lists()]

    def empty_lists(self) -> list[Statement]:
        return [Assign([gathered], Display([], "[]"), origin=[self.n.name]) for gathered in self.lists]

    def state_inputs(self, inner: Sequence[ir.Value]) -> list[Operand]:
        """Return the states as operands for the body, whose own inputs are `inner`."""
        return [
            Tensor(Ref(state), ValueType(state.dtype or value.dtype, type_of(value).shape, type_of(state).kind))
            for state, value in zip(self.states, inner, strict=True)
        ]

    def gather(self, block: Block, elements: Sequence[Operand]) -> None:
        """Append the elements of the scan outputs to their lists, at the end of a round."""
        for gathered, element in zip(self.lists, elements, strict=False):
            block.append(Evaluate(gathered.append(self.n.tensor(element)), origin=[self.n.name]))

    def rebind(self, block: Block, results: Sequence[Operand]) -> None:
        """Bind the states to the results of a round, at its very end."""
        new = [to_expr(self.n.tensor(result)) for result in results]
        pairs = [(state, expr) for state, expr in zip(self.states, new, strict=True) if not _is_variable(expr, state)]
        for state, expr in list(pairs):
            others = [other for value, other in pairs if value is not state]
            # `expr` may be another state by now, which was just computed in place; that must not be renamed again.
            if not reads(expr, self.states) and _compute_in_place(block, state, expr, others):
                pairs.remove((state, expr))
        written = [state for state, _ in pairs]
        if len(pairs) > 1 and any(reads(expr, written) for _, expr in pairs):
            targets: list[Target] = [Ref(state) for state in written]
            block.append(Assign(targets, Display([e for _, e in pairs], "()"), origin=[self.n.name]))
            return
        for state, expr in pairs:
            block.append(Assign([Ref(state)], expr, origin=[self.n.name]))

    def finals(self) -> list[Operand]:
        """Return the states after the last round."""
        return [Tensor(Ref(state), type_of(state)) for state in self.states]

    def stacked(self, index: int, axis: int = 0, *, backwards: bool = False, never_empty: bool = False) -> Expr:
        """Return scan output `index`, stacked from the list of its elements. `axis` is the axis of the rounds."""
        gathered = self.lists[index]
        elements = gathered[::-1] if backwards else gathered
        result = torch.stack(elements) if axis == 0 else torch.stack(elements, axis)
        return result if never_empty else either(gathered, result, self._empty(type_of(self.outputs[index]), axis))

    def _empty(self, type: ValueType, axis: int) -> Expr:
        """Return the scan output of no rounds: an empty tensor of the right shape. A named size is read from a value at
        hand that has it. An unknown size is 0, as in ONNX Runtime."""
        inputs = [self.n.host.operand(v) for v in self.n.ir.inputs if v is not None and v.const_value is None]
        known = [o for o in (*self.finals(), *inputs) if isinstance(o, Tensor) and o.type.kind == "tensor"]
        shape = type.shape or (None,)
        sizes: list[object] = [dim if isinstance(dim, int) else _named_size(known, dim) for dim in shape]
        sizes[axis] = 0
        same = next((tensor for tensor in known if tensor.type.dtype == type.dtype), None)
        if same is not None:
            return same.new_empty(*sizes)
        return torch.empty(*sizes, dtype=torch_dtype(type.dtype or DataType.FLOAT), device=self.n.device)


def reads(expr: Expr, values: Iterable[ir.Value]) -> bool:
    """Tell whether `expr` reads the variable of one of `values`."""
    return not set(values).isdisjoint(values_read(expr))


def _is_variable(expr: Expr, value: ir.Value) -> bool:
    return variable(expr) is value


def _compute_in_place(block: Block, state: ir.Value, expr: Expr, others: Sequence[Expr]) -> bool:
    """Compute the new state under its own name from the start, if nothing reads the old one after that; tell whether
    this was done.

        z = y * 0.5; trace.append(z); y = z   ->   y = y * 0.5; trace.append(y)
    """
    result = bare(expr)
    if not isinstance(result, Ref) or not isinstance(result._key, ir.Value):
        return False
    new = result._key
    born = [i for i, s in enumerate(block.statements) if _writes(s, new)]
    if len(born) != 1 or any(_writes(s, state) for s in walk_statements(block)):
        return False
    after = walk_statements(Block(block.statements[born[0] + 1 :]))
    if any(reads(e, [state]) for s in after for e in expressions(s)) or any(reads(e, [state]) for e in others):
        return False
    for statement in walk_statements(block):
        if isinstance(statement, Assign):
            statement.targets = [Ref(state) if isinstance(t, Ref) and t._key is new else t for t in statement.targets]
    for each in (*(e for s in walk_statements(block) for e in expressions(s)), *others):
        for part in walk(each):
            if isinstance(part, Ref) and part._key is new:
                part._key = state
    return True


def _writes(statement: Statement, value: ir.Value) -> bool:
    return isinstance(statement, Assign) and any(isinstance(t, Ref) and t._key is value for t in statement.targets)


def _named_size(known: Sequence[Tensor], name: str | None) -> Scalar:
    for tensor in known:
        if name is not None and name in (tensor.type.shape or ()):
            return size_of(tensor, (tensor.type.shape or ()).index(name))
    return Scalar(0)

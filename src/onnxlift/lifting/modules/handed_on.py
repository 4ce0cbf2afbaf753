"""A value that the first of several blocks computes, and the others take from it, goes through all of them.

    bias, x = self.block[0](x, mask)          x, mask = self.block[0](x, mask)
    x = self.block[1](x, bias)           ->   x, mask = self.block[1](x, mask)
    x = self.block[2](x, bias)                x, _ = self.block[2](x, mask)

and in the block, or as deep below it as the value is computed,

    bias = torch.where(mask, self.bias(i), -inf)        if self.bias is not None:
    y = attend(q, k, v, bias)                      ->       mask = torch.where(mask, self.bias(i), -inf)
    return bias, self.out(y)                            y = attend(q, k, v, mask)
                                                        return self.out(y), mask

so that blocks of which only the first has that member (the relative position bias of T5 and WavLM) can be of one class
(`modules/classes/variants.py`), and be called in one loop.

1. A value counts that one module gives and that nobody reads but modules of the same family. It is followed down to the
   module that computes it, through calls only, and in the others down the same members to the one that reads it.
2. There, the statements that only this value needs must be all that the others lack, together with one member. They may
   need inputs of their own, which all blocks then are passed; what has no weights and is made of these alone is
   computed before the first block, if there is one result (the buckets of relative positions).
3. On its way into the first block, the value's place is taken by an input that only those statements read and that has
   the same rank (a mask that becomes a bias); without such an input it is None.
4. No module among them may be called several times: not all of its calls would be such.
5. All modules on the way down must become equal up to numbers. If one does not, everything stays as it is.

Sound because a module that does not compute the value gives it on as it came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.lifting.code.expr import Binary, Call, Display, Expr, Literal, Member, Ref, variable, walk
from onnxlift.lifting.code.reads import values_read
from onnxlift.lifting.code.statements import Assign, Block, Branch, Return, Statement, walk_statements
from onnxlift.lifting.code.substitute import substitute
from onnxlift.lifting.modules.classes.canonical import Canonical
from onnxlift.lifting.modules.classes.classes import family_of
from onnxlift.lifting.modules.classes.variants import MOST_STATEMENTS
from onnxlift.lifting.ops.operand import Operand, Tensor
from onnxlift.lifting.tree.scopes import Path

from .member_order import order_by_use
from .module import Module, Stored
from .prune import called_module

Inputs = dict[ir.Value, Operand]


def hand_on(root: Module) -> None:
    """Let the values that blocks take from the first of them go through all of them."""
    for parent in list(root.walk()):
        calls = [s for s in parent.body.statements if isinstance(s, Assign) and called_module(s.expr) is not None]
        given = [(call, variable(target)) for call in calls if len(call.targets) > 1 for target in call.targets]
        readers = _readers(parent) if given else {}
        for call, value in given:
            if not isinstance(value, ir.Value) or value in parent.sizes:
                continue
            handover = _handover(call, value, readers.get(value, ()))
            if handover is not None:
                handover.carry_out(parent, call, readers[value])
                readers = _readers(parent)


def _readers(module: Module) -> dict[object, list[Statement]]:
    """Variable -> the statements that read it."""
    readers: dict[object, list[Statement]] = {}
    for statement in module.body.statements:
        for key in _reads([statement]):
            readers.setdefault(key, []).append(statement)
    return readers


def _reads(statements: Sequence[Statement]) -> Counter[object]:
    """The variables that statements read, and how often."""
    return Counter(values_read(*statements))


def _handover(call: Assign, value: ir.Value, readers: Sequence[Statement]) -> Handover | None:
    """How `value`, which `call` gives, goes through all blocks that read it; None if it cannot."""
    calls = [reader for reader in readers if isinstance(reader, Assign)]
    first, *others = (called_module(statement.expr) for statement in (call, *calls))
    takers = [module for module in others if module is not None]
    if first is None or not takers or len(takers) < len(readers) or first in takers:
        return None
    if any(module.calls > 1 for block in (first, *takers) for module in block.walk()):
        return None
    family = family_of(first)
    if family is None or any(family_of(taker) != family for taker in takers):
        return None
    handover = Handover(value)
    return handover if handover.draft(first, takers) else None


class Handover:
    """The modules between which a value goes, as they would be: `forms` has them by id, with what they are now. For the
    level that was drafted last, `start` is the input of the giver whose place the value takes (None if there is none),
    and `extras` are those that only the computation of the value needs. `before` is what is computed of some of them
    before the first block; `moved` are its results, which are extras now, and `sources` tells what those inputs were
    in the module that computes the value, and what they are on this level."""

    def __init__(self, value: ir.Value) -> None:
        self.value = value
        self.start: ir.Value | None = None
        self.extras: list[ir.Value] = []
        self.before: list[Assign] = []
        self.moved: Inputs = {}
        self.sources: dict[ir.Value, ir.Value] = {}
        self.forms: dict[int, tuple[Module, Module]] = {}

    def draft(self, giver: Module, takers: Sequence[Module]) -> bool:
        """Draft a module that gives the value and those that take it, and what is below them. Whether that can be."""
        producers = [s for s in giver.body.statements if isinstance(s, Assign) and self._gives(s)]
        if len(producers) != 1 or any(self.value not in taker.inputs for taker in takers):
            return False
        [call] = producers
        child = called_module(call.expr)
        if child is not None:
            path = giver.name_of(child)
            below = [module for taker in takers if isinstance(module := taker.members.get(path), Module)]
            if len(below) == len(takers):
                return self.draft(child, below) and self._pass_through(giver, takers, path)
        return self._compute(giver, takers)

    def _gives(self, statement: Assign) -> bool:
        return any(variable(target) is self.value for target in statement.targets)

    def _compute(self, giver: Module, takers: Sequence[Module]) -> bool:
        """Rules 2 and 3, for the module that computes the value."""
        members = [path for path in giver.members if path not in takers[0].members]
        part = self._part(giver)
        if not part or len(members) != 1 or len(members[0]) > 1 or len(giver.body.statements) > MOST_STATEMENTS:
            return False
        member = giver.members[members[0]]
        if isinstance(member, Stored) and not member.is_parameter:
            return False
        inside = {id(statement) for statement in part}
        rest = [s for s in giver.body.statements if id(s) not in inside or s is part[-1]]
        outside = _reads([s for s in rest if s is not part[-1]])
        own = [v for v in giver.inputs if _reads(part)[v] and not outside[v]]
        alike = [v for v in own if isinstance(giver.inputs[v], Tensor) and type_of(v).rank == type_of(self.value).rank]
        self.start = alike[-1] if alike else None
        self.extras = [v for v in own if v is not self.start]
        self._move_up(part)
        steps = [replace(s, expr=substitute(s.expr, self._in_its_place)) for s in part if s not in self.before]
        branch = Branch(Binary("is not", Member(member), Literal(None)), Block([*steps]), Block())
        statements = [branch if s is part[-1] else s for s in rest]
        others = [taker.body.statements for taker in takers]
        if not self._agree(giver, takers, statements, others, branch):
            # Perhaps they differ in their order only: what the value needs, too, is computed for it, and so earlier.
            common = _by_use([s for s in statements if s is not branch])
            place = {id(statement): index for index, statement in enumerate(common)}
            statements = _by_use(statements)
            order = [place[id(statement)] for statement in statements if statement is not branch]
            others = [
                [ordered[index] for index in order] for own in others if len(ordered := _by_use(own)) == len(order)
            ]
            if len(others) < len(takers) or not self._agree(giver, takers, statements, others, branch):
                return False
        kin = Canonical(self.forms[id(giver)][1], []).describe()
        for module in (giver, *takers):
            self.forms[id(module)][1].kin = kin
        return True

    def _in_its_place(self, part: Expr) -> Expr | None:
        is_start = isinstance(part, Ref) and part._key is self.start and self.start is not None
        return Ref(self.value) if is_start else None

    def _part(self, giver: Module) -> list[Assign]:
        """The statements that only the value needs, in order; none if there is more than assignments."""
        *steps, last = giver.body.statements
        assigns = [s for s in steps if isinstance(s, Assign)]
        needed_outside = set(_reads([last])) - {self.value}
        part: list[Assign] = []
        for statement in reversed(assigns):
            results = {variable(target) for target in statement.targets}
            if results.isdisjoint(needed_outside) and (part or self.value in results):
                part.append(statement)
            elif self.value not in results:
                needed_outside.update(_reads([statement]).keys() - {self.value})
        return part[::-1] if len(assigns) == len(steps) and part and self._gives(part[0]) else []

    def _move_up(self, part: Sequence[Assign]) -> None:
        """Find what of the part can be computed before the first block."""
        known: set[object] = set(self.extras)
        before: list[Assign] = []
        for statement in part[:-1]:
            reads = set(_reads([statement]))
            if reads and reads <= known and not any(isinstance(p, Member) for p in walk(statement.expr)):
                before.append(statement)
                known.update(variable(target) for target in statement.targets)
        left = _reads([statement for statement in part if statement not in before])
        results = {variable(target): target for s in before for target in s.targets if left[variable(target)]}
        [result, *others] = results or [None]
        if isinstance(result, ir.Value) and not others:
            self.before = before
            self.sources = {value: value for value in self.extras if not left[value]}
            self.moved = {result: Tensor(Ref(result), type_of(result))}
            self.extras = [*(value for value in self.extras if left[value]), result]

    def _pass_through(self, giver: Module, takers: Sequence[Module], path: Path) -> bool:
        """The same for modules that call those on the level below, which are drafted already."""
        call, child = _call_at(giver, path)
        arguments = _arguments(call, child)
        start = variable(arguments[self.start]) if self.start is not None else None
        extras = {value: value if value in self.moved else variable(arguments[value]) for value in self.extras}
        sources = {value: variable(arguments[own]) for value, own in self.sources.items()}
        if self.start is not None and (start not in giver.inputs or _reads(giver.body.statements)[start] > 1):
            return False
        if not {*giver.inputs, *self.moved} >= {*extras.values(), *sources.values()}:
            return False
        self.sources = {value: own for value, own in sources.items() if isinstance(own, ir.Value)}
        self.start = start if isinstance(start, ir.Value) else None
        self.extras = [value for value in extras.values() if isinstance(value, ir.Value)]
        passed: dict[ir.Value, Expr] = {value: Ref(key) for value, key in extras.items()}
        statements = [self._with_new_call(module, path, passed) for module in (giver, *takers)]
        return self._agree(giver, takers, statements[0], statements[1:])

    def _with_new_call(self, module: Module, path: Path, passed: Mapping[ir.Value, Expr]) -> list[Statement]:
        call, child = _call_at(module, path)
        new = self._called(call, child, {**passed, self.value: Ref(self.value)}, Ref(self.value))
        return [new if statement is call else statement for statement in module.body.statements]

    def _called(self, call: Assign, module: Module, passed: Mapping[ir.Value, Expr], result: Ref | None) -> Assign:
        """The call of a module as it would be, which gives the value as the last result."""
        assert isinstance(call.expr, Call)
        arguments = {**_arguments(call, module), **passed}
        expr = Call(call.expr._function, [arguments[value] for value in self.forms[id(module)][1].inputs], {})
        return replace(call, targets=[*(t for t in call.targets if variable(t) is not self.value), result], expr=expr)

    def _agree(
        self,
        giver: Module,
        takers: Sequence[Module],
        statements: Sequence[Statement],
        others: Sequence[Sequence[Statement]],
        part: Statement | None = None,
    ) -> bool:
        """Draft the modules of a level with these statements. Whether they are equal, but for the `part` that only the
        giver has."""
        for taker, own in zip(takers, others, strict=True):
            inputs = self._inputs(giver, taker)
            if inputs is None:
                return False
            form, other = self._form(giver, inputs[0], statements), self._form(taker, inputs[1], own)
            if Canonical(form, []).describe([] if part is None else [part]) != Canonical(other, []).describe():
                return False
            self.forms[id(giver)], self.forms[id(taker)] = (giver, form), (taker, other)
        return True

    def _inputs(self, giver: Module, taker: Module) -> tuple[Inputs, Inputs] | None:
        """The inputs of both in one order: those of the taker, then what only the giver needs, then what may be None.
        None if they don't go together."""
        extras = [v for v in self.extras if v not in taker.inputs]
        needless = {*extras, *self.sources.values(), self.start} - taker.inputs.keys()
        ours = [v for v in giver.inputs if v not in needless]
        theirs = [v for v in taker.inputs if v is not self.value]
        if len(ours) != len(theirs) or self.start in taker.inputs:
            return None
        order = [*taker.inputs, *extras] if self.start is not None else [*theirs, *extras, self.value]
        operands = {
            **giver.inputs,
            **taker.inputs,
            **self.moved,
            self.value: Tensor(Ref(self.value), type_of(self.value)),
        }
        counterpart = dict(zip(theirs, ours, strict=True))
        own = [counterpart.get(v, v) for v in order]
        return {v: operands[v] for v in own}, {v: operands[v] for v in order}

    def _form(self, module: Module, inputs: Inputs, statements: Sequence[Statement]) -> Module:
        *steps, last = statements
        assert isinstance(last, Return)
        results = last.expr._items if len(module.outputs) > 1 and isinstance(last.expr, Display) else (last.expr,)
        results = (*(result for result in results if variable(result) is not self.value), Ref(self.value))
        outputs = [*(value for value in module.outputs if value is not self.value), self.value]
        body = Block([*steps, replace(last, expr=Display(results, "()"))])
        return replace(module, inputs=inputs, outputs=outputs, body=body, optional=int(self.start is None))

    def carry_out(self, parent: Module, call: Assign, readers: Sequence[Statement]) -> None:
        """Let all modules be as drafted, and be called so: each call takes the value from the one before."""
        giver = called_module(call.expr)
        assert giver is not None
        arguments = _arguments(call, giver)
        passed = {value: Ref(value) if value in self.moved else arguments[value] for value in self.extras}
        sources = {value: arguments[own] for value, own in self.sources.items()}
        statements = [replace(s, expr=substitute(s.expr, partial(_given, sources))) for s in self.before]
        place = parent.body.statements.index(call)
        parent.body.statements[place:place] = statements
        value: Expr = arguments[self.start] if self.start is not None else Literal(None)
        for statement in (call, *readers):
            assert isinstance(statement, Assign)
            module = called_module(statement.expr)
            assert module is not None
            result = Ref(ir.Value(name=self.value.name, type=self.value.type, shape=self.value.shape))
            is_last = statement is readers[-1]
            new = self._called(statement, module, {**passed, self.value: value}, None if is_last else result)
            statement.targets, statement.expr, value = new.targets, new.expr, result
        for module, form in self.forms.values():
            module.inputs, module.outputs, module.body = form.inputs, form.outputs, form.body
            module.optional, module.kin = form.optional, form.kin
            order_by_use(module)


def _given(arguments: Mapping[ir.Value, Expr], part: Expr) -> Expr | None:
    return arguments.get(part._key) if isinstance(part, Ref) else None


def _by_use(statements: Sequence[Statement]) -> list[Statement]:
    """The statements in the order in which Python would evaluate them if each value were written where it is used."""
    writer: dict[object, Statement] = {}
    for statement in statements:
        for inner in walk_statements(Block([statement])):
            if isinstance(inner, Assign):
                writer.update((variable(target), statement) for target in inner.targets)
    sources = {id(s): iter([writer[key] for key in _reads([s]) if key in writer]) for s in statements}
    ordered: list[Statement] = []
    waiting = [statements[-1]]
    begun = {id(waiting[-1])}
    while waiting:
        source = next(sources[id(waiting[-1])], None)
        if source is None:
            ordered.append(waiting.pop())
        elif id(source) not in begun:
            begun.add(id(source))
            waiting.append(source)
    return ordered


def _call_at(module: Module, path: Path) -> tuple[Assign, Module]:
    """The statement that calls the member at `path`, and that member."""
    child = module.members[path]
    assert isinstance(child, Module)
    calls = (s for s in module.body.statements if isinstance(s, Assign) and called_module(s.expr) is child)
    return next(calls), child


def _arguments(call: Assign, module: Module) -> dict[ir.Value, Expr]:
    """The inputs of the module, and what they are given."""
    assert isinstance(call.expr, Call)
    return dict(zip(module.inputs, call.expr._args, strict=True))

"""Pass a value that the first of several blocks computes, and the others take from it, through all of them.

    bias, x = self.block[0](x, mask)          x, mask = self.block[0](x, mask)
    x = self.block[1](x, bias)           ->   x, mask = self.block[1](x, mask)
    x = self.block[2](x, bias)                x, _ = self.block[2](x, mask)

In the block, or as deep below it as the value is computed, this becomes:

    bias = torch.where(mask, self.bias(i), -inf)        if self.bias is not None:
    y = attend(q, k, v, bias)                      ->       mask = torch.where(mask, self.bias(i), -inf)
    return bias, self.out(y)                            y = attend(q, k, v, mask)
                                                        return self.out(y), mask

Then blocks can be of one class (`modules/classes/variants.py`) and be called in one loop, even if only the first of
them has that member (the relative position bias of T5 and WavLM).

1. The value is a result of one module, and only modules of the same family read it. It is followed down to the module
   that computes it, through calls only. In the other blocks, the same members are followed down to the module that
   reads it.
2. There, the other modules must lack only the statements that nothing but this value needs, and one member. These
   statements may need inputs of their own. All blocks are then passed these inputs. Statements without weights that
   need only these inputs are computed before the first block, if they have one result (the buckets of relative
   positions).
3. On the way into the first block, the value takes the place of an input that only those statements read and that has
   the same rank (a mask that becomes a bias). If there is no such input, the value is None there.
4. No module among them may be called several times: the rules might not hold for all of its calls.
5. All modules on the way down must become equal up to numbers. If one does not, everything stays as it is.

Sound because a module that does not compute the value passes it on as it came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.lifting.code.expr import Binary, Call, Display, Expr, Literal, Member, Ref, variable, walk
from onnxlift.lifting.code.reads import values_read
from onnxlift.lifting.code.statements import Assign, Block, Branch, Return, Statement, walk_statements
from onnxlift.lifting.code.substitute import substitute
from onnxlift.lifting.modules.classes.canonical import Canonical
from onnxlift.lifting.modules.classes.levels import family_of
from onnxlift.lifting.modules.classes.variants import MOST_STATEMENTS
from onnxlift.lifting.modules.members.member_order import order_by_use
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.ops.operand import Operand, Tensor
from onnxlift.lifting.tree.paths import Path

from .prune import called_module

Inputs = dict[ir.Value, Operand]


def pass_through_blocks(root: Module) -> int:
    """Let the values that blocks take from the first of them go through all of them; return how many values."""
    changes = 0
    for parent in list(root.walk()):
        calls = [s for s in parent.body.statements if isinstance(s, Assign) and called_module(s.expr) is not None]
        given = [(call, variable(target)) for call in calls if len(call.targets) > 1 for target in call.targets]
        readers = _readers(parent) if given else {}
        for call, value in given:
            if not isinstance(value, ir.Value) or value in parent.sizes:
                continue
            plan = _plan(call, value, readers.get(value, ()))
            if plan is not None:
                plan.carry_out(parent, call, readers[value])
                readers = _readers(parent)
                changes += 1
    return changes


def _readers(module: Module) -> dict[object, list[Statement]]:
    """Return for each variable the statements that read it."""
    readers: dict[object, list[Statement]] = {}
    for statement in module.body.statements:
        for key in _reads([statement]):
            readers.setdefault(key, []).append(statement)
    return readers


def _reads(statements: Sequence[Statement]) -> Counter[object]:
    """Count how often statements read each variable."""
    return Counter(values_read(*statements))


def _plan(call: Assign, value: ir.Value, readers: Sequence[Statement]) -> PassingPlan | None:
    """Return the plan by which `value`, a result of `call`, goes through all blocks that read it; None if it cannot."""
    calls = [reader for reader in readers if isinstance(reader, Assign)]
    first, *others = (called_module(statement.expr) for statement in (call, *calls))
    consumers = [module for module in others if module is not None]
    if first is None or not consumers or len(consumers) < len(readers) or first in consumers:
        return None
    if any(module.calls > 1 for block in (first, *consumers) for module in block.walk()):
        return None
    family = family_of(first)
    if family is None or any(family_of(consumer) != family for consumer in consumers):
        return None
    plan = PassingPlan(value)
    return plan if plan.draft(first, consumers) else None


class PassingPlan:
    """The plan for the way of a value through the modules of a family. It is drafted from the module that computes the
    value upwards.

    value: the value that the producer computes and the consumers read
    drafts: each module -> the module that it is to become
    replaced_input: the input of the producer whose place the value takes; None if there is none
    extra_inputs: the inputs that only the computation of the value needs
    precomputed: the statements that are moved before the first block
    precomputed_inputs: their results, which are extra inputs now
    precomputed_from: an input that these statements read in the producer at the bottom -> that input on this level

    Inputs are those of the level that was drafted last.
    """

    def __init__(self, value: ir.Value) -> None:
        self.value = value
        self.replaced_input: ir.Value | None = None
        self.extra_inputs: list[ir.Value] = []
        self.precomputed: list[Assign] = []
        self.precomputed_inputs: Inputs = {}
        self.precomputed_from: dict[ir.Value, ir.Value] = {}
        self.drafts: dict[Module, Module] = {}

    def draft(self, producer: Module, consumers: Sequence[Module]) -> bool:
        """Draft the module that gives the value, the modules that take it, and the modules below them. Tell whether
        that is possible."""
        writers = [s for s in producer.body.statements if isinstance(s, Assign) and self._gives(s)]
        if len(writers) != 1 or any(self.value not in consumer.inputs for consumer in consumers):
            return False
        [call] = writers
        child = called_module(call.expr)
        if child is not None:
            path = producer.name_of(child)
            below = [module for consumer in consumers if isinstance(module := consumer.members.get(path), Module)]
            if len(below) == len(consumers):
                return self.draft(child, below) and self._pass_through(producer, consumers, path)
        return self._compute(producer, consumers)

    def _gives(self, statement: Assign) -> bool:
        return any(variable(target) is self.value for target in statement.targets)

    def _compute(self, producer: Module, consumers: Sequence[Module]) -> bool:
        """Draft the module that computes the value, and those that take it, by rules 2 and 3. Tell whether that is
        possible."""
        part = self._part(producer)
        member = _optional_member(producer, consumers)
        if not part or member is None or len(producer.body.statements) > MOST_STATEMENTS:
            return False
        *inner, last = part
        rest = [statement for statement in producer.body.statements if statement not in inner]
        self._choose_inputs(producer, part, [statement for statement in rest if statement is not last])
        self._precompute(part)
        branch = self._branch(part, member)
        statements = [branch if statement is last else statement for statement in rest]
        orders = _possible_orders(statements, [consumer.body.statements for consumer in consumers], branch)
        if not any(self._agree(producer, consumers, own, others, branch) for own, others in orders):
            return False
        class_key = Canonical(self.drafts[producer], []).describe()
        for module in (producer, *consumers):
            self.drafts[module].class_key = class_key
        return True

    def _choose_inputs(self, producer: Module, part: Sequence[Assign], rest: Sequence[Statement]) -> None:
        """Find the inputs that only the part needs, and the one among them whose place the value takes, by rule 3."""
        inside, outside = _reads(part), _reads(rest)
        own = [v for v in producer.inputs if inside[v] and not outside[v]]
        alike = [
            v for v in own if isinstance(producer.inputs[v], Tensor) and type_of(v).rank == type_of(self.value).rank
        ]
        self.replaced_input = alike[-1] if alike else None
        self.extra_inputs = [v for v in own if v is not self.replaced_input]

    def _branch(self, part: Sequence[Assign], member: Layer | Stored | Module) -> Branch:
        """Return the part as it is in all blocks: under an `if` that asks for the member, and reading the value instead
        of the input that it replaces."""
        steps = [
            replace(s, expr=substitute(s.expr, self._with_value_in_place)) for s in part if s not in self.precomputed
        ]
        return Branch(Binary("is not", Member(member), Literal(None)), Block([*steps]), Block())

    def _with_value_in_place(self, part: Expr) -> Expr | None:
        is_start = isinstance(part, Ref) and part._key is self.replaced_input and self.replaced_input is not None
        return Ref(self.value) if is_start else None

    def _part(self, producer: Module) -> list[Assign]:
        """Return the statements that only the value needs, in order; none if the forward has other statements than
        assignments."""
        *steps, last = producer.body.statements
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

    def _precompute(self, part: Sequence[Assign]) -> None:
        """Find the statements of the part that can be computed before the first block."""
        known: set[object] = set(self.extra_inputs)
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
            self.precomputed = before
            self.precomputed_from = {value: value for value in self.extra_inputs if not left[value]}
            self.precomputed_inputs = {result: Tensor(Ref(result), type_of(result))}
            self.extra_inputs = [*(value for value in self.extra_inputs if left[value]), result]

    def _pass_through(self, producer: Module, consumers: Sequence[Module], path: Path) -> bool:
        """Draft the modules that call those on the level below, which are drafted already. Tell whether that is
        possible."""
        call, child = _call_at(producer, path)
        arguments = _arguments(call, child)
        start = variable(arguments[self.replaced_input]) if self.replaced_input is not None else None
        extras = {
            value: value if value in self.precomputed_inputs else variable(arguments[value])
            for value in self.extra_inputs
        }
        sources = {value: variable(arguments[own]) for value, own in self.precomputed_from.items()}
        if self.replaced_input is not None and (
            start not in producer.inputs or _reads(producer.body.statements)[start] > 1
        ):
            return False
        if not {*producer.inputs, *self.precomputed_inputs} >= {*extras.values(), *sources.values()}:
            return False
        self.precomputed_from = {value: own for value, own in sources.items() if isinstance(own, ir.Value)}
        self.replaced_input = start if isinstance(start, ir.Value) else None
        self.extra_inputs = [value for value in extras.values() if isinstance(value, ir.Value)]
        passed: dict[ir.Value, Expr] = {value: Ref(key) for value, key in extras.items()}
        statements = [self._with_new_call(module, path, passed) for module in (producer, *consumers)]
        return self._agree(producer, consumers, statements[0], statements[1:])

    def _with_new_call(self, module: Module, path: Path, passed: Mapping[ir.Value, Expr]) -> list[Statement]:
        call, child = _call_at(module, path)
        new = self._called(call, child, {**passed, self.value: Ref(self.value)}, Ref(self.value))
        return [new if statement is call else statement for statement in module.body.statements]

    def _called(self, call: Assign, module: Module, passed: Mapping[ir.Value, Expr], result: Ref | None) -> Assign:
        """Return the new call of a module, which gives the value as its last result."""
        assert isinstance(call.expr, Call)
        arguments = {**_arguments(call, module), **passed}
        expr = Call(call.expr._function, [arguments[value] for value in self.drafts[module].inputs], {})
        return replace(call, targets=[*(t for t in call.targets if variable(t) is not self.value), result], expr=expr)

    def _agree(
        self,
        producer: Module,
        consumers: Sequence[Module],
        statements: Sequence[Statement],
        others: Sequence[Sequence[Statement]],
        part: Statement | None = None,
    ) -> bool:
        """Draft the modules of a level with these statements. Tell whether they are equal, except for the `part` that
        only the producer has."""
        for consumer, own in zip(consumers, others, strict=True):
            inputs = self._inputs(producer, consumer)
            if inputs is None:
                return False
            form, other = self._form(producer, inputs[0], statements), self._form(consumer, inputs[1], own)
            if Canonical(form, []).describe([] if part is None else [part]) != Canonical(other, []).describe():
                return False
            self.drafts[producer], self.drafts[consumer] = form, other
        return True

    def _inputs(self, producer: Module, consumer: Module) -> tuple[Inputs, Inputs] | None:
        """Return the inputs of both in one order: those of the consumer, then those that only the producer needs, then
        the value if it may be None. Return None if the inputs do not correspond."""
        extras = [v for v in self.extra_inputs if v not in consumer.inputs]
        needless = {*extras, *self.precomputed_from.values(), self.replaced_input} - consumer.inputs.keys()
        ours = [v for v in producer.inputs if v not in needless]
        theirs = [v for v in consumer.inputs if v is not self.value]
        if len(ours) != len(theirs) or self.replaced_input in consumer.inputs:
            return None
        order = [*consumer.inputs, *extras] if self.replaced_input is not None else [*theirs, *extras, self.value]
        operands = {
            **producer.inputs,
            **consumer.inputs,
            **self.precomputed_inputs,
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
        return replace(module, inputs=inputs, outputs=outputs, body=body, optional=int(self.replaced_input is None))

    def carry_out(self, parent: Module, call: Assign, readers: Sequence[Statement]) -> None:
        """Change all modules and their calls as drafted: each call takes the value from the one before."""
        producer = called_module(call.expr)
        assert producer is not None
        arguments = _arguments(call, producer)
        passed = {
            value: Ref(value) if value in self.precomputed_inputs else arguments[value] for value in self.extra_inputs
        }
        sources = {value: arguments[own] for value, own in self.precomputed_from.items()}
        statements = [replace(s, expr=substitute(s.expr, partial(_given, sources))) for s in self.precomputed]
        place = parent.body.statements.index(call)
        parent.body.statements[place:place] = statements
        value: Expr = arguments[self.replaced_input] if self.replaced_input is not None else Literal(None)
        for statement in (call, *readers):
            assert isinstance(statement, Assign)
            module = called_module(statement.expr)
            assert module is not None
            result = Ref(ir.Value(name=self.value.name, type=self.value.type, shape=self.value.shape))
            is_last = statement is readers[-1]
            new = self._called(statement, module, {**passed, self.value: value}, None if is_last else result)
            statement.targets, statement.expr, value = new.targets, new.expr, result
        for module, form in self.drafts.items():
            module.inputs, module.outputs, module.body = form.inputs, form.outputs, form.body
            module.optional, module.class_key = form.optional, form.class_key
            order_by_use(module)


def _given(arguments: Mapping[ir.Value, Expr], part: Expr) -> Expr | None:
    return arguments.get(part._key) if isinstance(part, Ref) else None


def _optional_member(producer: Module, consumers: Sequence[Module]) -> Layer | Stored | Module | None:
    """Return the one member that only the producer has, by rule 2. Return None if there are more, or if it is a buffer,
    or does not lie directly in the producer."""
    paths = [path for path in producer.members if path not in consumers[0].members]
    if len(paths) != 1 or len(paths[0]) > 1:
        return None
    member = producer.members[paths[0]]
    return None if isinstance(member, Stored) and not member.is_parameter else member


def _possible_orders(
    statements: Sequence[Statement], others: Sequence[Sequence[Statement]], branch: Statement
) -> Iterator[tuple[Sequence[Statement], Sequence[Sequence[Statement]]]]:
    """Yield the statements of the producer and of the consumers in orders in which they may agree.

    First they come as they are. They may differ only in their order: a statement that the value needs, too, is computed
    earlier in the producer. So then all come in the order of use, and those of the consumers are arranged like the
    producer's.
    """
    yield statements, others
    common = _by_use([statement for statement in statements if statement is not branch])
    by_use = _by_use(statements)
    order = [common.index(statement) for statement in by_use if statement is not branch]
    others_by_use = [_by_use(own) for own in others]
    if all(len(own) == len(order) for own in others_by_use):
        yield by_use, [[own[index] for index in order] for own in others_by_use]


def _by_use(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements in the order in which Python would evaluate them if each value were written where it is
    used."""
    writer: dict[object, Statement] = {}
    for statement in statements:
        for inner in walk_statements(Block([statement])):
            if isinstance(inner, Assign):
                writer.update((variable(target), statement) for target in inner.targets)
    sources = {s: iter([writer[key] for key in _reads([s]) if key in writer]) for s in statements}
    ordered: list[Statement] = []
    waiting = [statements[-1]]
    begun = {waiting[-1]}
    while waiting:
        source = next(sources[waiting[-1]], None)
        if source is None:
            ordered.append(waiting.pop())
        elif source not in begun:
            begun.add(source)
            waiting.append(source)
    return ordered


def _call_at(module: Module, path: Path) -> tuple[Assign, Module]:
    """Return the statement that calls the member at `path`, and that member."""
    child = module.members[path]
    assert isinstance(child, Module)
    calls = (s for s in module.body.statements if isinstance(s, Assign) and called_module(s.expr) is child)
    return next(calls), child


def _arguments(call: Assign, module: Module) -> dict[ir.Value, Expr]:
    """Return the inputs of the module, each with the expression that is passed for it."""
    assert isinstance(call.expr, Call)
    return dict(zip(module.inputs, call.expr._args, strict=True))
